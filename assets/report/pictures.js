// The pictures of an experiment: unpacked when they come into view.

function startPictures() {
  const { pictures } = INDEX;
  if (pictures.length === 0) return;
  const chosen = document.getElementById("workload");
  const workloads = [...new Set(pictures.map((it) => it.workload))];
  chosen.append(...workloads.map((name) => new Option(name || "all of them", name)));
  chosen.closest(".tools").hidden = workloads.length < 2;
  chosen.addEventListener("change", () => hang(chosen.value));
  hang(workloads[0]);
}

// Hangs the pictures of a workload.
function hang(workload) {
  const gallery = document.getElementById("gallery");
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      unroll(target);
    }
  }, { rootMargin: "600px" });
  const frames = INDEX.pictures.flatMap((picture, at) => {
    if (picture.workload !== workload) return [];
    const frame = document.createElement("figure");
    frame.className = "picture";
    frame.dataset.picture = at;
    frame.setAttribute("aria-label", picture.title);
    return [frame];
  });
  gallery.replaceChildren(...frames);
  for (const frame of frames) near.observe(frame);
}

async function unroll(frame) {
  const bytes = await bytesOf(`picture-${frame.dataset.picture}`);
  const parsed = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml");
  const svg = document.importNode(parsed.documentElement, true);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", frame.getAttribute("aria-label"));
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  frame.replaceChildren(svg);
}
