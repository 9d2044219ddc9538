//! Pages of Markdown: their blocks of code, links, pictures and headings.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page, by its path from the root.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

/// A block of code: indented, or between fences.
#[derive(Debug)]
pub struct Block {
    /// Number of its first line, from 1.
    pub line: usize,
    /// What stands behind the fence; `None` for an indented block.
    pub info: Option<String>,
    pub text: String,
}

impl Page {
    pub fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let read = fs::read_to_string(root().join(&path));
        let text = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { path, text }
    }

    /// The blocks of code, from top to bottom.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut fence, mut indented, mut blank) = (false, false, true);
        for (at, line) in self.text.lines().enumerate() {
            let info = line.strip_prefix("```");
            if fence && info.is_none() {
                let block = blocks.last_mut().expect("a fence began one");
                block.text += line;
                block.text.push('\n');
                continue;
            }
            if let Some(info) = info {
                fence = !fence;
                if fence {
                    blocks.push(Block::begin(at + 2, Some(info.trim())));
                }
            } else if let Some(code) = line.strip_prefix("    ").filter(|_| blank || indented) {
                if !indented {
                    blocks.push(Block::begin(at + 1, None));
                }
                let block = blocks.last_mut().expect("just begun");
                block.text += code;
                block.text.push('\n');
            }
            // A blank line inside an indented block is one of its lines.
            indented =
                line.starts_with("    ") && (blank || indented) || indented && line.is_empty();
            if let Some(block) = blocks.last_mut().filter(|_| indented && line.is_empty()) {
                block.text.push('\n');
            }
            blank = line.is_empty() || info.is_some();
        }
        assert!(!fence, "{}: a fence stays open", self.path.display());
        blocks
    }

    /// The lines that are prose: outside of blocks.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let mut code = vec![false; self.text.lines().count() + 2];
        for block in self.blocks() {
            for at in 0..block.text.lines().count() {
                code[block.line + at] = true;
            }
        }
        let lines = self.text.lines().enumerate();
        lines
            .map(|(at, line)| (at + 1, line))
            .filter(|(at, _)| !code[*at])
            .collect()
    }

    /// What links and pictures point at, with their lines.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (at, line) in self.prose() {
            let mut rest = &*without_code(line);
            while let Some((_, after)) = rest.split_once("](") {
                let (link, after) = after.split_once(')').expect("a link ends on its line");
                links.push((at, link.to_owned()));
                rest = after;
            }
        }
        links
    }

    /// Spans of code in prose, with their lines.
    pub fn spans(&self) -> Vec<(usize, String)> {
        let spans = |(at, line): (usize, &str)| {
            let odd = line.split('`').skip(1).step_by(2).map(str::to_owned);
            odd.map(move |span| (at, span)).collect::<Vec<_>>()
        };
        self.prose().into_iter().flat_map(spans).collect()
    }

    /// The anchors of the headings, as GitHub and mdBook make them.
    pub fn anchors(&self) -> Vec<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let prose = self.prose();
        let headings = prose.iter().filter(|(_, line)| line.starts_with('#'));
        headings
            .map(|(_, line)| {
                let plain = anchor(line.trim_start_matches('#').trim());
                let again = seen.entry(plain.clone()).or_default();
                *again += 1;
                match *again {
                    1 => plain,
                    more => format!("{plain}-{}", more - 1),
                }
            })
            .collect()
    }
}

impl Block {
    fn begin(line: usize, info: Option<&str>) -> Self {
        Block {
            line,
            info: info.map(str::to_owned),
            text: String::new(),
        }
    }

    /// The name of the file that the block is, where its first line tells one: `# NAME.EXT`.
    pub fn file(&self) -> Option<&str> {
        let name = self.text.lines().next()?.strip_prefix("# ")?;
        let plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        let fits = self.info.is_some() && name.contains('.') && name.chars().all(plain);
        fits.then_some(name)
    }
}

/// A line with its spans of code blanked.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 0 { part } else { "" })
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = |it: &char| it.is_alphanumeric() || " -_".contains(*it);
    let lower = heading.to_lowercase();
    lower
        .chars()
        .filter(kept)
        .map(|it| if it == ' ' { '-' } else { it })
        .collect()
}

/// A path without `.` and `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The pages below a folder of the root, itself with `deep` its folders too.
pub fn below(folder: &str, deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let here = root().join(folder);
    for entry in fs::read_dir(&here).expect("a folder").flatten() {
        let name = Path::new(folder).join(entry.file_name());
        if entry.path().is_dir() && deep {
            found.extend(below(name.to_str().expect("plain"), deep));
        } else if name.extension().is_some_and(|end| end == "md") {
            found.push(plain(&name));
        }
    }
    found.sort();
    found
}
