// Makes the pages that the tests open, with the program that was built.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const SHARED = process.env.VRAMLAB_SHARED ?? join(ROOT, "..", "shared");
const FOLDER = mkdtempSync(join(tmpdir(), "vramlab-pages-"));

// The program: as VRAMLAB says, else as it was built last.
function program() {
  const built = ["release", "debug"].map((profile) => join(ROOT, "target", profile, "vramlab"));
  const found = [process.env.VRAMLAB, ...built].find((path) => path && existsSync(path));
  if (!found) throw new Error("build vramlab first: cargo build --release");
  return found;
}

export function vramlab(...args) {
  return execFileSync(program(), args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

// Writes a page about inputs; answers its path.
export function page(name, ...args) {
  const out = join(FOLDER, `${name}.html`);
  vramlab("report", ...args, "-o", out);
  return out;
}

// A recording under a cap that is too tight: requests fail under both policies.
export const failing = () =>
  page("failing", "traces/detector-train-cap.vlt.zst", "--policies", "pytorch,best-fit");

// Two allocations whose stack would end a script, were it taken for markup.
export function hostile() {
  const trace = join(FOLDER, "hostile.csv");
  const tag = "</script><script>window.pwned = 1</script>@a.py:1 < <img src=x onerror='window.pwned = 1'>@b.py:2";
  writeFileSync(trace, `event,id,bytes,tag\nalloc,"</title><b>a</b>",1048576,"${tag}"\nalloc,b,1048576,"${tag}"\nfree,b,,\nmark,"<i>phase</i>",,\n`);
  return page("hostile", trace, "--policies", "best-fit,first-fit");
}

// The recording of 368,000 events; where it is absent, as many synthetic ones.
export function large() {
  const recording = join(SHARED, "recordings", "torch", "llama_generate.pickle.gz");
  if (existsSync(recording)) return page("large", recording, "--policies", "pytorch,best-fit");
  console.log(`${recording} is absent: a synthetic trace of as many events stands in`);
  const trace = join(FOLDER, "large.vlt");
  vramlab("trace", "synth", "serving-poisson", "--events", "368000", "-o", trace);
  return page("large", trace, "--policies", "pytorch,best-fit");
}

// An experiment of two workloads, three capacities, two policies and four seeds.
export function experiment() {
  const results = join(FOLDER, "experiment");
  vramlab("run", join(ROOT, "tests", "browser", "experiment.toml"), "--no-plots", "--out", results);
  return page("experiment", results);
}

// A folder that `compare` wrote.
export function comparison() {
  const results = join(FOLDER, "compared");
  vramlab("compare", "traces/churn-cap.vlt.zst", "--policies", "best-fit,first-fit", "--no-plots", "--out", results);
  return page("comparison", results);
}
