//! How much of what arrived is what was asked for: git walks from the wanted objects, and what it
//! meets is looked up in the arrived packs. Never trusts a number that came with a pack.

use crate::process::{Git, GitError, Running};
use crate::quarantine::{PACK_PREFIX, Quarantine};
use gix_odb::pack::index;
use grasp_core::Oid;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Ids at a time, between git and us.
const PIECE_BYTES: usize = 64 << 10;

/// How many objects in the packs of a quarantine are behind `wants` and not behind `has`; both must
/// be there or in what it borrows from.
pub async fn reachable_count(
    git: &Git,
    quarantine: &Quarantine,
    wants: &BTreeSet<Oid>,
    has: &BTreeSet<Oid>,
) -> Result<u64, GitError> {
    let failed = |source| GitError::Start { what: "rev-list", source };
    let path = quarantine.path().to_owned();
    let packs = tokio::task::spawn_blocking(move || indexes(&path)).await;
    let packs = packs.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
    let mut count = 0;
    walk(git, quarantine.path(), &revisions(wants, has), |oid| {
        let id = gix_hash::ObjectId::Sha1(*oid.as_bytes());
        count += u64::from(packs.iter().any(|pack| pack.lookup(id).is_some()));
        true
    })
    .await?;
    Ok(count)
}

/// Objects behind `wants` and not behind `has`, all in `dir`. `None` if there are more than `max`.
pub async fn reachable(
    git: &Git,
    dir: &Path,
    wants: &BTreeSet<Oid>,
    has: &BTreeSet<Oid>,
    max: usize,
) -> Result<Option<HashSet<Oid>>, GitError> {
    let mut met = HashSet::new();
    let whole = walk(git, dir, &revisions(wants, has), |oid| {
        met.insert(oid);
        met.len() <= max
    })
    .await?;
    Ok(whole.then_some(met))
}

/// Tells every object that git meets, until it is told to stop; false if it was.
async fn walk(
    git: &Git,
    dir: &Path,
    revisions: &str,
    mut meet: impl FnMut(Oid) -> bool,
) -> Result<bool, GitError> {
    let failed = |source| GitError::Start { what: "rev-list", source };
    let Running { mut stdin, stdout, exit } = git.rev_list(dir)?;
    let ask = async move {
        // If git does not listen any more, its exit says why.
        let _ = stdin.write_all(revisions.as_bytes()).await;
    };
    let listen = async {
        let mut met = BufReader::with_capacity(PIECE_BYTES, stdout).lines();
        while let Some(line) = met.next_line().await? {
            if !meet(line.parse().map_err(io::Error::other)?) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let ((), whole) = tokio::join!(ask, listen);
    // Who was told to stop need not end well.
    match whole.map_err(failed)? {
        true => exit.finish().await.map(|()| true),
        false => Ok(false),
    }
}

/// For git's input: what to walk from, and where to stop.
pub(crate) fn revisions(wants: &BTreeSet<Oid>, has: &BTreeSet<Oid>) -> String {
    let mut lines = String::new();
    for oid in wants {
        lines.push_str(&format!("{oid}\n"));
    }
    for oid in has {
        lines.push_str(&format!("^{oid}\n"));
    }
    lines
}

fn indexes(quarantine: &Path) -> io::Result<Vec<index::File>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(quarantine.join("objects/pack"))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(PACK_PREFIX.as_bytes()) && name.as_bytes().ends_with(b".idx")
        {
            let file = index::File::at(entry.path(), gix_hash::Kind::Sha1);
            found.push(file.map_err(io::Error::other)?);
        }
    }
    Ok(found)
}
