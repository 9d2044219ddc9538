//! The one way in: opens a file, undoes its compression, finds its format by content,
//! and reads it.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use super::text::{self, Columns, Source};
use super::unpack::{self, Unpacked};
use super::{Trace, TraceError, csv, minimalloc, plain, rep, rmm, vlt, wee};

/// How a trace is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Only this device of a recording of several; all where it is left out.
    pub device: Option<u32>,
    /// The most bytes that may come out of compressed data.
    pub limit_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            device: None,
            limit_bytes: 64 << 30,
        }
    }
}

/// The formats, as content shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Vlt,
    Pickle,
    StrippedPytorch,
    Rmm,
    NativeCsv,
    PlainCsv,
    MiniMalloc,
    Rep,
    Wee,
}

/// The formats as an error lists them.
const KNOWN: &str = "vramlab's own .vlt and csv (event,id,bytes,...), PyTorch snapshots (pickle), \
    stripped PyTorch csv (op,addr,size,stream), RMM logs (Thread,Time,Action,Pointer,Size,Stream), \
    plain csv (op,id,size,...), MiniMalloc csv (id,lower,upper,size), CS:APP .rep, wee_alloc traces; \
    each also as .gz or .zst";

/// Opens a file, or standard input for `-`. A recording of several devices is several
/// traces. Each is named as the file is, without folders and known extensions.
///
/// # Errors
/// What the system says, a file of no known format, or one that breaks its format.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Vec<Trace>, TraceError> {
    let (raw, source): (Box<dyn Read>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), Source::named("stdin"))
    } else {
        let file = path.display().to_string();
        let input = File::open(path).map_err(|error| TraceError::io(&*file, error))?;
        let name = trace_name(path);
        (Box::new(input), Source { file, name })
    };
    let unpacked = unpack::unpack(raw, &source.file, options.limit_bytes)?;
    read(unpacked, &source, options)
}

/// Reads what [`unpack::unpack`] made of a file.
///
/// # Errors
/// As [`open`].
pub fn read(
    unpacked: Unpacked,
    source: &Source,
    options: &OpenOptions,
) -> Result<Vec<Trace>, TraceError> {
    let Some(format) = detect(&unpacked.head) else {
        return Err(unknown(&unpacked.head, source));
    };
    let traces = import(format, unpacked, source)?;
    of_device(traces, source, options.device)
}

/// Reads a file of a known format.
fn import(format: Format, unpacked: Unpacked, source: &Source) -> Result<Vec<Trace>, TraceError> {
    let text: fn(&mut dyn BufRead, &Source) -> Result<Trace, TraceError> = match format {
        Format::Vlt => {
            let mut trace = vlt::read(unpacked.input, &source.file)?;
            trace.name.clone_from(&source.name);
            return Ok(vec![trace]);
        }
        // HOOK: the PyTorch importers are wired here.
        Format::Pickle | Format::StrippedPytorch => {
            return Err(TraceError::whole(&source.file, "a PyTorch recording")
                .or("no reader for it is built in"));
        }
        Format::Rmm => rmm::import,
        Format::NativeCsv => csv::import,
        Format::PlainCsv => plain::import,
        Format::MiniMalloc => minimalloc::import,
        Format::Rep => rep::import,
        Format::Wee => wee::import,
    };
    let mut input = unpacked.input;
    Ok(vec![text(&mut input, source)?])
}

/// The traces of the device that was asked for.
fn of_device(
    traces: Vec<Trace>,
    source: &Source,
    device: Option<u32>,
) -> Result<Vec<Trace>, TraceError> {
    let Some(device) = device else {
        return Ok(traces);
    };
    let held: Vec<String> = traces
        .iter()
        .map(|trace| trace.device.to_string())
        .collect();
    let chosen: Vec<Trace> = traces
        .into_iter()
        .filter(|trace| trace.device == device)
        .collect();
    if chosen.is_empty() {
        return Err(
            TraceError::whole(&source.file, format!("holds no device {device}"))
                .or(format!("it holds device {}", held.join(", "))),
        );
    }
    Ok(chosen)
}

/// The format of a file that begins with `head`.
fn detect(head: &[u8]) -> Option<Format> {
    if head.starts_with(&vlt::MAGIC) {
        return Some(Format::Vlt);
    }
    if is_pickle(head) {
        return Some(Format::Pickle);
    }
    let line = first_line(head)?;
    if line.starts_with("Alloc(") || line.starts_with("Free(") {
        return Some(Format::Wee);
    }
    if text::is_decimal(line) {
        return Some(Format::Rep);
    }
    let mut columns = Columns::of(line).ok()?;
    let mut has = |names: &[&str]| columns.find(names).is_some();
    if has(&["thread"]) && has(&["action"]) && has(&["pointer"]) {
        return Some(Format::Rmm);
    }
    if has(&["op"]) && has(&["id"]) {
        return Some(Format::PlainCsv);
    }
    if has(&["op"]) && has(&["addr"]) {
        return Some(Format::StrippedPytorch);
    }
    let has_end = has(&minimalloc::UPPER) || has(&minimalloc::END);
    if has(&minimalloc::ID) && has(&minimalloc::LOWER) && has_end {
        return Some(Format::MiniMalloc);
    }
    let first = line.split(',').next().unwrap_or("").trim();
    let is_row = csv::WORDS.contains(&&*first.to_ascii_lowercase());
    (is_row || has(&["event"])).then_some(Format::NativeCsv)
}

/// Whether the bytes begin as a pickle of any protocol does.
fn is_pickle(head: &[u8]) -> bool {
    match head {
        [0x80, protocol, ..] => (1..=8).contains(protocol),
        // Protocols 0 and 1 begin at once with a mark, a list or a dictionary.
        [b'(', b'd' | b'l' | b't', ..] => true,
        [b']' | b'}', b'q' | b'r' | b'(' | b'.', ..] => true,
        _ => false,
    }
}

/// The first line that is neither blank nor a comment.
fn first_line(head: &[u8]) -> Option<&str> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    head.split(|byte| *byte == b'\n')
        .map_while(|line| std::str::from_utf8(line).ok())
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("//"))
}

/// The error of a file that is none of the formats.
fn unknown(head: &[u8], source: &Source) -> TraceError {
    if head.is_empty() {
        return TraceError::whole(&source.file, "the file is empty")
            .or(format!("expected one of: {KNOWN}"));
    }
    let first = head[..head.len().min(48)].escape_ascii();
    TraceError::at_offset(
        &source.file,
        0,
        format!("no known format begins with '{first}'"),
    )
    .or(format!("known are {KNOWN}"))
}

/// The name of a trace: the file's, without folders and known extensions.
#[must_use]
pub fn trace_name(path: &Path) -> String {
    const EXTENSIONS: [&str; 10] = [
        ".gz", ".zst", ".vlt", ".csv", ".pickle", ".pkl", ".rep", ".trace", ".log", ".txt",
    ];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut name = &*name;
    while let Some(stem) = EXTENSIONS
        .iter()
        .find_map(|extension| name.strip_suffix(extension))
        .filter(|stem| !stem.is_empty())
    {
        name = stem;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_content() {
        for (head, format) in [
            (&b"\x89VLT\r\n\x1a\n\x01"[..], Format::Vlt),
            (b"\x80\x04\x95", Format::Pickle),
            (b"(dp0\nS'segments'", Format::Pickle),
            (b"}q\x00(X", Format::Pickle),
            (b"Thread,Time,Action,Pointer,Size,Stream\r\n", Format::Rmm),
            (b"\xef\xbb\xbfevent,id,bytes\n", Format::NativeCsv),
            (b"# capacity 8GiB\n\nalloc,a,1024\n", Format::NativeCsv),
            (b"op,id,size\n", Format::PlainCsv),
            (b"op,addr,size,stream\n", Format::StrippedPytorch),
            (b"id,lower,upper,size\n", Format::MiniMalloc),
            (b"size,buffer,end,begin\n", Format::MiniMalloc),
            (b"20000\n2847\n", Format::Rep),
            (b"Alloc(7),\n", Format::Wee),
        ] {
            assert_eq!(detect(head), Some(format), "{}", head.escape_ascii());
        }
        for head in [
            &b""[..],
            b"\0\0\0",
            b"hello, world\n",
            b"{\"a\":1}",
            b"\xff\xfeo\0p\0",
        ] {
            assert_eq!(detect(head), None, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn names_lose_folders_and_known_extensions() {
        for (path, name) in [
            ("a/gpt2.vlt.zst", "gpt2"),
            ("rmm.rmmlog.dev0.csv.gz", "rmm.rmmlog.dev0"),
            ("A.1048576.csv", "A.1048576"),
            (".csv", ".csv"),
        ] {
            assert_eq!(trace_name(Path::new(path)), name);
        }
    }
}
