//! The one way in: opens a file, undoes its compression, finds its format by content,
//! and reads it.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use super::pickle::Problem;
use super::pytorch::{self, stripped};
use super::snapshot::{self, SnapshotError};
use super::text::{self, Columns, Source};
use super::unpack::{self, Unpacked};
use super::{Trace, TraceError, csv, minimalloc, plain, rep, rmm, vlt, wee};

/// How a trace is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Only this device of a recording of several; all where it is left out.
    pub device: Option<u32>,
    /// The cap under which a PyTorch recording was made, which the file does not tell.
    pub capacity_bytes: Option<u64>,
    /// The most bytes that may come out of compressed data.
    pub limit_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            device: None,
            capacity_bytes: None,
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
    let traces = import(format, unpacked, source, options)?;
    of_device(traces, source, options.device)
}

/// Reads a file of a known format.
fn import(
    format: Format,
    unpacked: Unpacked,
    source: &Source,
    options: &OpenOptions,
) -> Result<Vec<Trace>, TraceError> {
    let text: fn(&mut dyn BufRead, &Source) -> Result<Trace, TraceError> = match format {
        Format::Vlt => {
            let mut trace = vlt::read(unpacked.input, &source.file)?;
            trace.name.clone_from(&source.name);
            return Ok(vec![trace]);
        }
        Format::Pickle => {
            let mut input = unpacked.guarded(&source.file);
            let snapshot = snapshot::read_from(&mut input);
            let snapshot = snapshot.map_err(|error| {
                // The file is read ahead: a fault counts once the decoder has come to it.
                let fault = input.fault.take().filter(|_| is_unreadable(&error));
                fault.unwrap_or_else(|| placed(&error, source))
            })?;
            return of_pytorch(&snapshot, source, options);
        }
        Format::StrippedPytorch => {
            let snapshot = read_stripped(unpacked, source, options)?;
            return of_pytorch(&snapshot, source, options);
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

/// The traces of a snapshot.
fn of_pytorch(
    snapshot: &snapshot::Snapshot,
    source: &Source,
    options: &OpenOptions,
) -> Result<Vec<Trace>, TraceError> {
    let capacity_bytes = options.capacity_bytes;
    let options = pytorch::Options { capacity_bytes };
    pytorch::import(snapshot, &source.file, &source.name, options)
}

/// Whether the bytes ended where the reader failed.
fn is_unreadable(error: &SnapshotError) -> bool {
    let SnapshotError::Pickle(error) = error else {
        return false;
    };
    matches!(error.problem, Problem::Unreadable { .. })
}

/// What the reader of snapshots says, with the file.
fn placed(error: &SnapshotError, source: &Source) -> TraceError {
    match error {
        SnapshotError::Pickle(error) => {
            TraceError::at_offset(&*source.file, error.offset, error.problem.to_string())
        }
        error => TraceError::whole(&*source.file, error.to_string()),
    }
}

/// Reads `NAME.events.csv`, and `NAME.final.csv` where it lies beside it.
fn read_stripped(
    unpacked: Unpacked,
    source: &Source,
    options: &OpenOptions,
) -> Result<snapshot::Snapshot, TraceError> {
    let events = held_text(unpacked, &source.file)?;
    let beside = source.file.replace("events.csv", "final.csv");
    let last = if beside != source.file && Path::new(&beside).exists() {
        let raw = File::open(&beside).map_err(|error| TraceError::io(&*beside, error))?;
        let unpacked = unpack::unpack(Box::new(raw), &beside, options.limit_bytes)?;
        Some(held_text(unpacked, &beside)?)
    } else {
        None
    };
    let last = last.as_deref().map(|text| (&*beside, text));
    stripped::read((&source.file, &events), last)
}

/// A whole file as text.
fn held_text(unpacked: Unpacked, file: &str) -> Result<String, TraceError> {
    String::from_utf8(unpacked.hold(file)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[at];
        TraceError::at_offset(file, at as u64, format!("byte 0x{byte:02x} is not UTF-8"))
            .or("save the file as UTF-8")
    })
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
    if snapshot::looks_like_pickle(head) {
        return Some(Format::Pickle);
    }
    let line = first_line(head)?;
    if line.starts_with("Alloc(") || line.starts_with("Free(") {
        return Some(Format::Wee);
    }
    if text::is_decimal(line) {
        return Some(Format::Rep);
    }
    // Before it is taken for a header, whose names differ: a row may have equal cells.
    let first = line.split(',').next().unwrap_or("").trim();
    let is_row = csv::WORDS.contains(&&*first.to_ascii_lowercase());
    if is_row {
        return Some(Format::NativeCsv);
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
    has(&["event"]).then_some(Format::NativeCsv)
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
