//! The walk over the pages: runs what a reader would type, and compares what comes out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::commands::{self, Command, Kind};
use crate::pages::{self, Page, root};
use crate::sandbox::{Cache, RESULTS, Ran, Sandbox, shared};

/// How a command is run otherwise than it stands there, and why.
struct Exception {
    /// The commands that begin so.
    begins: &'static str,
    how: How,
    /// For whoever reads a failure.
    because: &'static str,
}

enum How {
    /// With more arguments.
    With(&'static str),
    /// It ends with 30, for want of a card.
    Card,
    /// Another test runs it, in this file.
    Elsewhere(&'static str),
    /// With one argument replaced where the shared data is; without it, it ends with code 2.
    Shared(&'static str, &'static str),
}

/// The one picture that no command draws: a page that `vramlab report` wrote, in a browser.
const SCREENSHOT: &str = "report.png";

/// The table of exceptions. One that no page needs any more fails the test.
const EXCEPTIONS: [Exception; 15] = [
    elsewhere("vramlab fit ../shared/"),
    elsewhere("vramlab compare ../shared/"),
    elsewhere("vramlab run experiments/lifetime.toml"),
    dry_run("vramlab run experiments/fragmentation.toml"),
    dry_run("vramlab run experiments/claims.toml"),
    dry_run("vramlab run experiments/compaction.toml"),
    dry_run("vramlab run experiments/pooling.toml"),
    dry_run("vramlab run experiments/remedies.toml"),
    Exception {
        begins: "vramlab run experiments/frontier.toml",
        how: How::With("--list"),
        because: "the experiment takes minutes, and the trial of --dry-run seconds",
    },
    Exception {
        begins: "vramlab run experiments/moving.toml",
        how: How::With("--list"),
        because: "the experiment takes minutes, and the trial of --dry-run seconds",
    },
    Exception {
        begins: "vramlab serve serving-opt-13b",
        how: How::With("--span 10s --warm-up 10s"),
        because: "ten minutes of service take four seconds; tests/paging.rs runs them",
    },
    Exception {
        begins: "vramlab serve serving-azure",
        how: How::Shared("--span 5min", "--span 5s --warm-up 5s"),
        because: "the data set belongs to others",
    },
    Exception {
        begins: "vramlab serve serving-mooncake",
        how: How::Shared("--span 5min", "--span 5s --warm-up 5s"),
        because: "the data set belongs to others",
    },
    Exception {
        begins: "vramlab validate",
        how: How::Card,
        because: "there is no card, or the program was built without the feature cuda",
    },
    Exception {
        begins: "vramlab calibrate",
        how: How::Card,
        because: "there is no card, or the program was built without the feature cuda",
    },
];

const fn elsewhere(begins: &'static str) -> Exception {
    Exception {
        begins,
        how: How::Elsewhere("tests/write_a_policy.rs"),
        because: "that test runs it, and compares the figures of the page",
    }
}

const fn dry_run(begins: &'static str) -> Exception {
    Exception {
        begins,
        how: How::With("--dry-run"),
        because: "the experiment takes minutes; tests/results.rs runs some of its seeds",
    }
}

/// The walk, and what it has met.
pub struct Walk {
    cache: Cache,
    sandboxes: Vec<Sandbox>,
    /// What stands for a recording of the reader's.
    snapshot: PathBuf,
    python: bool,
    used: BTreeSet<&'static str>,
    /// Lines of output as they are printed now, with their numbers in the page.
    fresh: Vec<(usize, String)>,
    shown: BTreeSet<PathBuf>,
    wrong: Vec<String>,
    run: usize,
}

impl Walk {
    /// Before the first page.
    pub fn new(snapshot: PathBuf) -> Self {
        let python = process::Command::new("python3")
            .arg("--version")
            .output()
            .is_ok();
        if !python {
            println!("python3 is not here: the recorders of docs/record.md are not run");
        }
        Walk {
            cache: Cache::new(),
            sandboxes: Vec::new(),
            snapshot,
            python,
            used: BTreeSet::new(),
            fresh: Vec::new(),
            shown: BTreeSet::new(),
            wrong: Vec::new(),
            run: 0,
        }
    }

    /// After the last page: all that was wrong, exceptions and pictures that no page needs included.
    pub fn end(mut self) -> Vec<String> {
        println!(
            "{} commands, {} of them different",
            self.run,
            self.cache.len()
        );
        let unused = EXCEPTIONS
            .iter()
            .filter(|it| !self.used.contains(it.begins));
        let unused = unused.map(|it| format!("no page needs the exception '{}'", it.begins));
        self.wrong.extend(unused);
        let kept = files_below(Path::new("docs/img")).into_iter();
        let orphans = kept.filter(|it| !self.shown.contains(it));
        self.wrong
            .extend(orphans.map(|it| format!("no page shows {}", it.display())));
        self.wrong
    }

    /// Runs a page, from top to bottom.
    pub fn page(&mut self, page: &Page) {
        let sandbox = Sandbox::new(&self.snapshot);
        let mut printed = Vec::new();
        for block in page.blocks() {
            if let Some(name) = block.file() {
                sandbox.write(name, &block.text);
            } else if block.info.as_deref() == Some("text output") {
                for (at, line) in block.text.lines().enumerate() {
                    self.output(page, block.line + at, line, &mut printed);
                }
            }
            for line in commands::of(page, &block) {
                printed = self.command(page, &line, &sandbox);
            }
        }
        self.pictures(page, &sandbox);
        self.rewrite(page);
        // What it made may be needed by a later page.
        self.sandboxes.push(sandbox);
    }

    /// Runs a command, and gives the lines that it printed, last line first.
    fn command(&mut self, page: &Page, command: &Command, sandbox: &Sandbox) -> Vec<String> {
        let place = format!("{}:{}: {}", page.path.display(), command.line, command.text);
        let (ran, wanted) = match commands::kind(&command.text) {
            Err(error) => {
                self.wrong.push(format!("{place}\n{error}"));
                return Vec::new();
            }
            Ok(Kind::Tool) => return Vec::new(),
            Ok(Kind::Script(_)) if !self.python => (stand_in(sandbox), 0),
            Ok(Kind::Script(name)) => (sandbox.script(&name), 0),
            Ok(Kind::Program(line)) => match self.except(line) {
                Some((line, code)) => (sandbox.shell(&line, &mut self.cache), code),
                None => return Vec::new(),
            },
        };
        self.expect(&place, command.states.unwrap_or(wanted), &ran);
        let lines = ran.said.lines().map(|line| line.trim_end().to_owned());
        lines.rev().collect()
    }

    fn expect(&mut self, place: &str, wanted: i32, ran: &Ran) {
        self.run += 1;
        if ran.code != Some(wanted) {
            let said: String = ran.said.chars().take(2000).collect();
            let ended = format!("ended with {:?}, not {wanted}", ran.code);
            self.wrong.push(format!("{place}\n{ended}:\n{said}"));
        }
    }

    /// A command as it is run here, and the code that it must end with; `None` where another
    /// test runs it.
    fn except(&mut self, line: String) -> Option<(String, i32)> {
        let mut all = EXCEPTIONS.iter();
        let Some(exception) = all.find(|it| line.starts_with(it.begins)) else {
            return Some((line, 0));
        };
        self.used.insert(exception.begins);
        println!("{line}: {}", exception.because);
        match exception.how {
            How::With(more) => Some((format!("{line} {more}"), 0)),
            How::Card if cfg!(feature = "cuda") && Path::new("/dev/nvidiactl").exists() => {
                Some((line, 0))
            }
            How::Card => Some((line, 30)),
            How::Shared(long, short) if shared().join("public").is_dir() => {
                Some((line.replace(long, short), 0))
            }
            How::Shared(..) => Some((line, 2)),
            How::Elsewhere(test) => {
                assert!(root().join(test).exists(), "{test} runs: {line}");
                None
            }
        }
    }

    /// A line that the page shows must be one that the command printed, below the line before.
    fn output(&mut self, page: &Page, at: usize, line: &str, printed: &mut Vec<String>) {
        if line == "..." || line.contains("[..]") {
            return;
        }
        let same = |it: &str| it == line.trim_end() || updates() && begins(it) == begins(line);
        match printed.iter().rposition(|it| same(it)) {
            Some(found) => {
                self.fresh.push((at, printed[found].clone()));
                printed.truncate(found);
            }
            None => {
                let said: Vec<_> = printed.iter().rev().map(String::as_str).collect();
                let place = format!("{}:{at}", page.path.display());
                let said = said.join("\n");
                self.wrong.push(format!(
                    "{place}: the command does not print\n{line}\nbut\n{said}"
                ));
            }
        }
    }

    /// Writes the page anew with what its commands print now.
    fn rewrite(&mut self, page: &Page) {
        let mut lines: Vec<String> = page.text.lines().map(str::to_owned).collect();
        for (at, line) in self.fresh.drain(..) {
            lines[at - 1] = line;
        }
        let text = lines.join("\n") + "\n";
        if updates() && text != page.text {
            fs::write(root().join(&page.path), text).expect("a page");
        }
    }

    /// A picture of `docs/img/` is the file of the same path that the page's commands wrote,
    /// or what a browser showed.
    fn pictures(&mut self, page: &Page, sandbox: &Sandbox) {
        for (line, link) in page.links() {
            let from = page.path.parent().unwrap_or(Path::new(""));
            let picture = pages::plain(&from.join(&link));
            let Ok(name) = picture.strip_prefix("docs/img") else {
                continue;
            };
            let name = name.to_str().expect("plain");
            if name == SCREENSHOT {
                self.shown.insert(picture);
                continue;
            }
            let drawn = fs::read(sandbox.path(name))
                .or_else(|_| fs::read(sandbox.path(RESULTS).join(name)));
            let path = root().join(&picture);
            if let Some(drawn) = drawn.as_ref().ok().filter(|_| updates()) {
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(&path, drawn).expect("a file");
            }
            let place = format!("{}:{line}: {link}", page.path.display());
            match (drawn, fs::read(&path)) {
                (Ok(drawn), Ok(kept)) if drawn == kept => {}
                (Err(_), _) => self
                    .wrong
                    .push(format!("{place}: no command of the page draws it")),
                _ => self
                    .wrong
                    .push(format!("{place}: VRAMLAB_UPDATE=1 draws it anew")),
            }
            self.shown.insert(picture);
        }
    }
}

/// The first word of a line, by which an old line of output is told from others; of a rule a dash.
fn begins(line: &str) -> &str {
    let word = line.split_whitespace().next().unwrap_or("");
    if word.starts_with("---") { "-" } else { word }
}

fn updates() -> bool {
    std::env::var_os("VRAMLAB_UPDATE").is_some()
}

/// Without Python: a recording under each name that the scripts would have written.
fn stand_in(sandbox: &Sandbox) -> Ran {
    for name in ["rmm.dev0.csv", "cupy.csv", "jax.csv", "any.csv"] {
        sandbox.write(name, "op,id,size\nalloc,1,4096\nfree,1,4096\n");
    }
    Ran::nothing()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder))
        .expect("a folder")
        .flatten();
    let here = entries.map(|entry| folder.join(entry.file_name()));
    here.flat_map(|path| match root().join(&path).is_dir() {
        true => files_below(&path),
        false => vec![path],
    })
    .collect()
}
