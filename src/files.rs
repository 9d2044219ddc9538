//! Files that are whole or absent: written beside their place, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

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
    write(path, Box::new(fill), File::sync_all)
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
    write(path, Box::new(fill), |_| Ok(()))
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

/// What fills a file. Boxed, so that what writes files is compiled once.
type Fill<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

/// Writes a file beside its place and puts it there once `settle` has seen to it.
fn write(path: &Path, fill: Fill<'_>, settle: fn(&File) -> io::Result<()>) -> io::Result<()> {
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
fn write_beside(beside: &Path, path: &Path, fill: Fill<'_>) -> io::Result<File> {
    let file = BufWriter::new(File::create(beside)?);
    let file = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => {
            let out = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            behind(out, fill)?.finish()?
        }
        Some("zst") => {
            let mut out = zstd::Encoder::new(file, ZSTD_LEVEL)?;
            out.include_checksum(true)?;
            behind(out, fill)?.finish()?
        }
        _ => {
            let mut out = file;
            fill(&mut out)?;
            out
        }
    };
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

/// How much goes to the writing thread at once, and how many such blocks may wait for it.
const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS: usize = 8;

/// Lets `fill` write to `out` through another thread: a replay or a generator that writes
/// as it goes waits for no compression and no disk.
fn behind<W: Write + Send>(out: W, fill: Fill<'_>) -> io::Result<W> {
    let (sender, blocks) = sync_channel::<Vec<u8>>(BLOCKS);
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut out = out;
            for block in blocks {
                out.write_all(&block)?;
            }
            Ok(out)
        });
        let mut ahead = BufWriter::with_capacity(BLOCK_BYTES, Ahead(sender));
        let filled = fill(&mut ahead).and_then(|()| ahead.flush());
        // Nothing more comes: the writer ends.
        drop(ahead);
        let out: io::Result<W> = writer.join().expect("a writer does not panic");
        // What the disk said is why `fill` could not go on.
        let out = out?;
        filled.map(|()| out)
    })
}

/// Hands blocks to the writing thread.
struct Ahead(SyncSender<Vec<u8>>);

impl Write for Ahead {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(block.to_vec());
        sent.map_err(|_| io::Error::other("the writing thread has ended"))?;
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

    /// A disk that is full after so many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or_else(|| io::Error::other("no space left"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_written_behind_is_all_there_or_the_disks_error_is_told() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
        let written = behind(
            Vec::new(),
            Box::new(|out| bytes.chunks(1000).try_for_each(|part| out.write_all(part))),
        );
        assert_eq!(written.unwrap(), bytes);
        let failed = behind(Full(1_000_000), Box::new(|out| out.write_all(&bytes)));
        assert!(failed.is_err_and(|error| error.to_string() == "no space left"));
        let own = behind(Vec::new(), Box::new(|_| Err(io::Error::other("its own"))));
        assert!(own.is_err_and(|error| error.to_string() == "its own"));
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
