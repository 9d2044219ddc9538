//! The book and the READMEs: every command runs, every output is what is printed, every picture
//! is what a command draws, and every link leads somewhere.

#[path = "book/commands.rs"]
mod commands;
#[path = "book/pages.rs"]
mod pages;
#[path = "book/sandbox.rs"]
mod sandbox;
#[path = "book/walk.rs"]
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pages::{Page, root};
use walk::Walk;

/// The pages of the book, in its order.
fn chapters() -> Vec<PathBuf> {
    let summary = Page::read("docs/SUMMARY.md");
    let links = summary.links().into_iter();
    links
        .map(|(_, link)| Path::new("docs").join(link))
        .collect()
}

/// Pages beside the book whose commands run too.
const BESIDE: [&str; 5] = [
    "README.md",
    "README.zh-CN.md",
    "CONTRIBUTING.md",
    "results/README.md",
    "notebooks/README.md",
];

fn pages() -> Vec<Page> {
    let beside = BESIDE.iter().map(PathBuf::from);
    beside.chain(chapters()).map(Page::read).collect()
}

#[test]
fn every_command_of_the_book_does_what_its_page_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = folder.path().join("snapshot.pickle");
    let made = Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(["trace", "convert"])
        .arg(root().join("traces/graph-capture.vlt.zst"))
        .arg(&snapshot)
        .output()
        .expect("the command starts");
    assert!(made.status.success(), "{made:?}");
    let mut walk = Walk::new(snapshot);
    for page in pages() {
        walk.page(&page);
    }
    let wrong = walk.end();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_summary_names_every_page_once() {
    let mut named = chapters();
    named.push("docs/SUMMARY.md".into());
    named.sort();
    assert_eq!(named, pages::below("docs", false));
}

/// Commands in running text and tables: the subcommand and its options must exist.
#[test]
fn commands_in_running_text_exist() {
    let mut help: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut checked = 0;
    for page in pages() {
        for (line, span) in page.spans() {
            let Some(words) = span.strip_prefix("vramlab ") else {
                continue;
            };
            let words: Vec<&str> = words
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .collect();
            let is_name = |word: &&&str| word.starts_with(|it: char| it.is_ascii_lowercase());
            let group = matches!(words[0], "trace" | "policy");
            let depth = words
                .iter()
                .take(1 + usize::from(group))
                .take_while(is_name)
                .count();
            let subcommand: Vec<String> =
                words[..depth].iter().map(|it| (*it).to_owned()).collect();
            let told = help
                .entry(subcommand.clone())
                .or_insert_with(|| told(&subcommand));
            let place = format!("{}:{line}: `{span}`", page.path.display());
            assert!(!told.is_empty(), "{place}: no such subcommand");
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let name = option.split('=').next().unwrap_or(option);
                assert!(told.contains(name), "{place}: no option {name}");
            }
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} spans were found");
}

/// What a subcommand's help says; nothing where there is no such subcommand.
fn told(subcommand: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(subcommand)
        .arg("--help")
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        said
    } else {
        String::new()
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut files = pages::below(".", false);
    for folder in [
        "docs",
        "results",
        "notebooks",
        "traces",
        "examples",
        "experiments",
    ] {
        files.extend(pages::below(folder, true));
    }
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in files.into_iter().map(Page::read) {
        for (line, link) in page.links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = page.path.parent().unwrap_or(Path::new(""));
            let target = match file {
                "" => page.path.clone(),
                file => pages::plain(&folder.join(file)),
            };
            let place = format!("{}:{line}: {link}", page.path.display());
            if !root().join(&target).exists() {
                wrong.push(format!("{place}: no such file"));
            } else if !anchor.is_empty()
                && !Page::read(&target).anchors().iter().any(|it| it == anchor)
            {
                wrong.push(format!("{place}: no such heading"));
            }
        }
    }
    println!("{checked} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
