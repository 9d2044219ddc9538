//! Lines of a page that a reader types, and what is done with each kind in a test.

use std::fs;

use crate::pages::{Block, Page, root};

/// A line that a reader types, continuation lines joined, without its comment.
#[derive(Debug)]
pub struct Command {
    /// Number of its first line.
    pub line: usize,
    pub text: String,
    /// The exit code that its comment states: `# exits with 20`.
    pub states: Option<i32>,
}

/// What a command is, and so how it is tested.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// A shell line with the program in it, or a copy of what it made: it is run.
    Program(String),
    /// A script of the page, which is run beside stand-ins for its libraries.
    Script(String),
    /// A tool that is not run here: what the line names is looked for instead.
    Tool,
}

/// The commands of a block: of an indented one, and of a fence `sh`, each line; of a fence
/// `console` those that begin with `$ `. What follows one there, `tests/cmd.rs` compares.
///
/// # Panics
/// Where another block begins a line with the program's name: it would look like a command.
pub fn of(page: &Page, block: &Block) -> Vec<Command> {
    let console = block.info.as_deref() == Some("console");
    let shell = console || block.info.as_deref().is_none_or(|info| info == "sh");
    let mut found: Vec<Command> = Vec::new();
    let mut lines = block.text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let at = block.line + at;
        assert!(
            shell || !first.starts_with("vramlab ") || block.file().is_some(),
            "{}:{at}: a command in a block that is no shell",
            page.path.display(),
        );
        let typed = if console {
            first.strip_prefix("$ ")
        } else {
            Some(first)
        };
        let Some(typed) = typed else {
            let code: Option<i32> = first.strip_prefix("? ").and_then(|code| code.parse().ok());
            if let (Some(code), Some(command)) = (code, found.last_mut()) {
                command.states = Some(code);
            }
            continue;
        };
        if !shell || typed.trim().is_empty() || typed.starts_with('#') {
            continue;
        }
        let mut text = typed.to_owned();
        while let Some(open) = text.strip_suffix('\\') {
            let (_, next) = lines.next().expect("a line follows");
            let next = next.trim_start_matches("> ").trim();
            text = format!("{} {next}", open.trim_end());
        }
        let (typed, comment) = text.split_once(" # ").unwrap_or((&text, ""));
        let states = comment
            .split_once("exits with ")
            .and_then(|(_, code)| code.split_whitespace().next()?.parse().ok());
        found.push(Command {
            line: at,
            text: typed.trim().to_owned(),
            states,
        });
    }
    found
}

/// What a command is.
///
/// # Errors
/// What is wrong with a line of no known kind, or with a tool's line that names what is not there.
pub fn kind(text: &str) -> Result<Kind, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_setting =
        |word: &&&str| word.contains('=') && word.starts_with(|it: char| it.is_ascii_uppercase());
    let settings = words.iter().take_while(is_setting).count();
    let words = &words[settings..];
    match words {
        ["vramlab" | "cp" | "mkdir", ..] => Ok(Kind::Program(text.to_owned())),
        ["cargo", "run", rest @ ..] => through_cargo(text, rest),
        ["cargo", rest @ ..] => cargo(rest).map(|()| Kind::Tool),
        ["just", recipe, ..] => {
            let has = read("justfile").lines().any(|it| {
                it.strip_prefix(recipe)
                    .is_some_and(|rest| rest.starts_with([':', ' ']))
            });
            has.then_some(Kind::Tool)
                .ok_or(format!("no recipe {recipe}"))
        }
        ["python3", "-m", "venv", _] => Ok(Kind::Tool),
        ["python3", script] if !script.contains('/') => Ok(Kind::Script((*script).to_owned())),
        ["python3" | "bash", script, ..] => exists(script).map(|()| Kind::Tool),
        [tool, rest @ ..] if tool.starts_with("target/") => in_environment(tool, rest),
        _ => Err("a command of no known kind".to_owned()),
    }
}

/// `cargo run ... -- ARGUMENTS` is the program with these arguments.
fn through_cargo(text: &str, options: &[&str]) -> Result<Kind, String> {
    let (before, arguments) = text
        .split_once(" -- ")
        .ok_or("no -- before the arguments")?;
    let known = [
        "cargo",
        "run",
        "--release",
        "--locked",
        "--features",
        "cuda",
    ];
    let unknown = before.split_whitespace().find(|word| !known.contains(word));
    match unknown {
        Some(word) => Err(format!("'{word}' of {options:?} is not known")),
        None => Ok(Kind::Program(format!("vramlab {arguments}"))),
    }
}

/// A command of cargo whose targets and features exist.
fn cargo(words: &[&str]) -> Result<(), String> {
    let known = [
        "test", "build", "bench", "install", "doc", "fmt", "clippy", "deny",
    ];
    let verb = words.first().ok_or("cargo alone")?;
    if !known.contains(verb) {
        return Err(format!("cargo {verb} is not known"));
    }
    for pair in words.windows(2) {
        match pair {
            ["--test", name] => exists(&format!("tests/{name}.rs"))?,
            ["--bench", name] => exists(&format!("benches/{name}.rs"))?,
            ["--path", path] => exists(path)?,
            ["--features", name] if !read("Cargo.toml").contains(&format!("\n{name} = [")) => {
                return Err(format!("no feature {name}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A tool of an environment below `target/`, whose files of the repository exist.
fn in_environment(tool: &str, words: &[&str]) -> Result<Kind, String> {
    let known = ["pip", "python", "jupytext", "jupyter-execute", "mdbook"];
    let name = tool.rsplit('/').next().unwrap_or(tool);
    if !known.contains(&name) {
        return Err(format!("{tool} is not known"));
    }
    let named = words
        .iter()
        .filter(|word| word.contains('/') || word.contains(".txt"));
    for file in named.filter(|word| !word.starts_with("target/") && !word.contains("NAME")) {
        exists(file)?;
    }
    Ok(Kind::Tool)
}

fn exists(path: &str) -> Result<(), String> {
    let found = root().join(path).exists();
    found.then_some(()).ok_or(format!("no {path}"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("a file of the repository")
}
