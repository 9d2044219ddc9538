//! Files that are whole or absent: written beside their place, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Strong enough to pay, quick enough not to be noticed on a million events.
const ZSTD_LEVEL: i32 = 9;

/// Writes `path` by `fill`; a reader sees the old file or the whole new one. What is
/// written is compressed where the name ends in `.gz` or `.zst`.
///
/// # Errors
/// What the system or `fill` says; nothing is left behind then.
pub fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    write(path, fill, File::sync_all)
}

/// As [`write_atomically`], for one of many files that can be made again: the disk is not
/// waited for, so after a loss of power the new file may be empty.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_without_waiting(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    write(path, fill, |_| Ok(()))
}

/// The most memory that this process has held at once; none where the system has no file
/// that tells it.
#[must_use]
pub fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Writes a file beside its place and puts it there once `settle` has seen to it.
fn write(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    settle: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let beside = path.with_file_name(format!(
        ".{}.{}.partial",
        name.to_string_lossy(),
        std::process::id()
    ));
    let written = write_beside(&beside, path, fill)
        .and_then(|file| settle(&file))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to tell; the partial file may not exist at all.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// The blake3 hash of a file, in hexadecimal.
///
/// # Errors
/// What the system says.
pub fn blake3_of(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Writes the partial file.
fn write_beside(
    beside: &Path,
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<File> {
    let file = BufWriter::new(File::create(beside)?);
    let file = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => {
            let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            fill(&mut out)?;
            out.finish()?
        }
        Some("zst") => {
            let mut out = zstd::Encoder::new(file, ZSTD_LEVEL)?;
            out.include_checksum(true)?;
            fill(&mut out)?;
            out.finish()?
        }
        _ => {
            let mut out = file;
            fill(&mut out)?;
            out
        }
    };
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("no more"))
        });
        assert!(error.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_name_chooses_the_compression() {
        let folder = tempfile::tempdir().unwrap();
        let gz = folder.path().join("a.csv.gz");
        write_atomically(&gz, |out| out.write_all(b"text")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(&gz).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "text");
        let zst = folder.path().join("a.csv.zst");
        write_atomically(&zst, |out| out.write_all(b"text")).unwrap();
        assert_eq!(
            zstd::decode_all(File::open(&zst).unwrap()).unwrap(),
            b"text"
        );
    }
}
