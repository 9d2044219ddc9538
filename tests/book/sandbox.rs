//! A folder in which the commands of one page run, as a reader would run them.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::pages::root;

/// Folders of the repository that pages read from.
const FOLDERS: [&str; 2] = ["traces", "policies"];
/// What pages call a recording of the reader's, and what stands for it.
const RECORDINGS: [&str; 5] = [
    "snapshot.pickle",
    "run.pickle",
    "next-run.pickle",
    "recorded.pickle",
    "TRACE",
];
/// Where results go by default.
pub const RESULTS: &str = "vramlab-out";
/// Other files of the reader's.
const FILES: [(&str, &str); 2] = [
    ("mine.toml", "policies/best-fit.toml"),
    ("plan.toml", "traces/synthetic/plan-training.toml"),
];

/// What a command did.
#[derive(Debug, Clone)]
pub struct Ran {
    pub code: Option<i32>,
    /// Standard output, then standard error.
    pub said: String,
    /// Where it ran.
    folder: PathBuf,
    /// What it left there.
    made: Vec<PathBuf>,
}

/// What ran before, by the command and the files that it named, so that no command runs twice.
pub type Cache = HashMap<String, Ran>;

/// The folder.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// A fresh folder, with the repository's folders and the reader's files.
    pub fn new(snapshot: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let link = |from: PathBuf, name: &str| {
            symlink(from, folder.path().join(name)).expect("a link");
        };
        for name in FOLDERS {
            link(root().join(name), name);
        }
        fs::create_dir(folder.path().join("snapshots")).expect("a folder");
        for rank in ["rank0.pickle", "rank1.pickle"] {
            fs::copy(snapshot, folder.path().join("snapshots").join(rank)).expect("a copy");
        }
        fs::create_dir(folder.path().join("tests")).expect("a folder");
        link(root().join("tests/data"), "tests/data");
        // A copy, because `calibrate` writes there.
        copy(
            &root().join("experiments"),
            &folder.path().join("experiments"),
        );
        // A copy, because a script of a page may write its own recording over it.
        for name in RECORDINGS {
            fs::copy(snapshot, folder.path().join(name)).expect("a copy");
        }
        for (name, from) in FILES {
            link(root().join(from), name);
        }
        Sandbox { folder }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the page, in the place of a stand-in if there is one.
    pub fn write(&self, name: &str, text: &str) {
        let _ = fs::remove_file(self.path(name));
        fs::write(self.path(name), text).expect("a file");
    }

    /// What lies in the folder, and in the one where results go by default.
    fn names(&self) -> BTreeSet<PathBuf> {
        let below = |folder: &str| {
            let entries = fs::read_dir(self.path(folder)).into_iter().flatten();
            let names = entries.flatten().map(|entry| entry.file_name());
            names
                .map(|name| Path::new(folder).join(name))
                .collect::<Vec<_>>()
        };
        let mut names: BTreeSet<_> = below("").into_iter().chain(below(RESULTS)).collect();
        names.remove(Path::new(RESULTS));
        names
    }

    /// Runs a line in a shell, or takes what it did where it ran before on the same files.
    pub fn shell(&self, line: &str, cache: &mut Cache) -> Ran {
        let named = line.split(|it: char| " =:,".contains(it));
        let inputs = named.filter_map(|word| fs::read(self.path(word)).ok());
        let hash = |bytes: Vec<u8>| blake3::hash(&bytes).to_hex().to_string();
        let key = inputs
            .map(hash)
            .fold(line.to_owned(), |key, hash| key + "\n" + &hash);
        let before = self.names();
        if let Some(ran) = cache.get(&key) {
            for name in ran.made.iter().filter(|name| !before.contains(*name)) {
                let here = self.folder.path().join(name);
                fs::create_dir_all(here.parent().expect("a folder")).expect("a folder");
                symlink(ran.folder.join(name), here).expect("a link");
            }
            return ran.clone();
        }
        let begun = Instant::now();
        let output = self
            .command("bash")
            .args(["-euo", "pipefail", "-c", line])
            .stdin(Stdio::null())
            .output();
        println!("{:6.2} s  {line}", begun.elapsed().as_secs_f64());
        let mut ran = Ran::of(output.expect("a shell"));
        let made = self.names().into_iter();
        ran.made = made.filter(|name| !before.contains(name)).collect();
        ran.folder = self.folder.path().to_owned();
        cache.insert(key, ran.clone());
        ran
    }

    /// Runs a script beside the stand-ins for its libraries.
    pub fn script(&self, name: &str) -> Ran {
        let fakes = root().join("tests/book/fakes");
        let output = self
            .command("python3")
            .args(["-B", "-W", "error"])
            .arg(fakes.join("run.py"))
            .arg(name)
            .stdin(Stdio::null())
            .output();
        Ran::of(output.expect("python3 was found"))
    }

    fn command(&self, program: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_vramlab"));
        let mut paths = vec![binary.parent().expect("a folder").to_owned()];
        paths.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("PATH", std::env::join_paths(paths).expect("plain paths"))
            .env("NO_COLOR", "1")
            .env("COLUMNS", "200")
            .env("VRAMLAB_SHARED", shared());
        command
    }
}

impl Ran {
    /// A command that had nothing to do.
    pub fn nothing() -> Self {
        Ran {
            code: Some(0),
            said: String::new(),
            folder: PathBuf::new(),
            made: Vec::new(),
        }
    }

    fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            code: output.status.code(),
            said: text(&output.stdout) + &text(&output.stderr),
            folder: PathBuf::new(),
            made: Vec::new(),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}

/// Where material lies that is too large for the repository, or belongs to others.
pub fn shared() -> PathBuf {
    let beside = root().join("../shared");
    std::env::var_os("VRAMLAB_SHARED").map_or(beside, PathBuf::from)
}
