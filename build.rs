//! Lists the preset and device files, so that the binary carries them and a new one is
//! one file and no line of code.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let mut code = String::new();
    for (name, folder, doc) in [
        (
            "PRESETS",
            "policies",
            "The files of `policies/`: name and text, by name.",
        ),
        (
            "DEVICES",
            "experiments/devices",
            "The files of `experiments/devices/`.",
        ),
        (
            "WORKLOADS",
            "traces/synthetic",
            "The files of `traces/synthetic/`: name and text, by name.",
        ),
    ] {
        println!("cargo::rerun-if-changed={folder}");
        let list = embed(&Path::new(&root).join(folder));
        let _ = writeln!(
            code,
            "/// {doc}\npub static {name}: &[(&str, &str)] = &[{list}];"
        );
    }
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("embedded.rs"), code).expect("the output folder is writable");
}

/// `("name", include_str!("path")),` for every TOML file of a folder, by name.
fn embed(folder: &Path) -> String {
    let mut files: Vec<_> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    let mut list = String::new();
    for path in files {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path
            .file_stem()
            .expect("a file has a stem")
            .to_string_lossy()
            .into_owned();
        let _ = write!(
            list,
            "({name:?}, include_str!({:?})),",
            path.display().to_string()
        );
    }
    list
}
