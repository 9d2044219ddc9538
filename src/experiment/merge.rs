//! Joins the shards of an experiment: the same rows as one run, byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::journal::{CELLS, JournalError, Lines};
use super::manifest::Manifest;
use super::plan::Shard;

/// Why folders cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A folder's cells cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A folder that holds no shard.
    #[error("{} holds no finished shard: there is no {CELLS}", .0.display())]
    NoShard(PathBuf),
    /// A shard of another experiment, or of another state of it.
    #[error("{} and {} differ in {}", one.display(), other.display(), differs.join(", "))]
    Different {
        /// The first folder.
        one: PathBuf,
        /// The folder that differs from it.
        other: PathBuf,
        /// The keys of the manifest that differ.
        differs: Vec<String>,
    },
    /// A shard that is there twice.
    #[error("{} and {} both hold shard {shard}", one.display(), other.display())]
    Twice {
        /// Which one.
        shard: String,
        /// The first folder.
        one: PathBuf,
        /// The second folder.
        other: PathBuf,
    },
    /// Shards that no folder holds.
    #[error("shards {} of {of} are not there", missing.join(", "))]
    Missing {
        /// Which ones.
        missing: Vec<String>,
        /// How many there should be.
        of: usize,
    },
    /// Shards whose cells do not add up.
    #[error("the shards hold {have} of {want} cells")]
    Cells {
        /// Cells that are there.
        have: usize,
        /// Cells of the experiment.
        want: usize,
    },
}

/// Finds the cells of all shards, in order, and the manifest of the whole.
///
/// # Errors
/// A folder that is no shard, shards of different experiments, one that is there twice or
/// not at all.
pub fn join(folders: &[PathBuf]) -> Result<(Manifest, Lines), MergeError> {
    let paths: Vec<PathBuf> = folders.iter().map(|folder| folder.join(CELLS)).collect();
    if let Some(at) = paths.iter().position(|path| !path.exists()) {
        return Err(MergeError::NoShard(folders[at].clone()));
    }
    let lines = Lines::of(&paths)?;
    let whole = lines.manifests[0].whole();
    for (folder, manifest) in folders.iter().zip(&lines.manifests) {
        let mut differs = whole.differences(&manifest.whole());
        if differs.is_empty() && part(manifest).of != part(&lines.manifests[0]).of {
            differs.push("the number of shards".into());
        }
        if !differs.is_empty() {
            return Err(MergeError::Different {
                one: folders[0].clone(),
                other: folder.clone(),
                differs,
            });
        }
    }
    complete(folders, &lines.manifests)?;
    if lines.len() != whole.cells {
        return Err(MergeError::Cells {
            have: lines.len(),
            want: whole.cells,
        });
    }
    Ok((whole, lines))
}

/// Whether every shard is there once.
fn complete(folders: &[PathBuf], manifests: &[Manifest]) -> Result<(), MergeError> {
    let mut known: BTreeMap<usize, &Path> = BTreeMap::new();
    for (folder, manifest) in folders.iter().zip(manifests) {
        let shard = part(manifest);
        if let Some(one) = known.insert(shard.index, folder) {
            return Err(MergeError::Twice {
                shard: shard.to_string(),
                one: one.to_owned(),
                other: folder.clone(),
            });
        }
    }
    let of = part(&manifests[0]).of;
    let missing = (1..=of).filter(|index| !known.contains_key(index));
    let missing: Vec<String> = missing.map(|index| index.to_string()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(MergeError::Missing { missing, of })
}

/// The shard that a manifest is of; the whole is the one of one.
fn part(manifest: &Manifest) -> Shard {
    let told = manifest.shard.as_deref().and_then(|text| text.parse().ok());
    told.unwrap_or(Shard { index: 1, of: 1 })
}
