//! Bare repositories in bulk, each made by one git process. The same words make the same objects, so
//! a part of a repository is made by telling less of its story.
#![allow(dead_code, reason = "each file of tests needs its own part of this")]

use grasp_core::Oid;
use grasp_testkit::{Git, Random, WorkTree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) type Refs = BTreeMap<String, Oid>;

#[derive(Debug)]
pub(crate) struct Workshop {
    tree: WorkTree,
    shelf: TempDir,
}

impl Workshop {
    pub(crate) async fn open() -> Self {
        let tree = WorkTree::init(&Git::any()).await;
        Self { tree, shelf: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn makes(&self, name: &str, story: &Story) -> PathBuf {
        let dir = self.shelf.path().join(name);
        let path = dir.display().to_string();
        self.tree.git(&["init", "-q", "--bare", "--template=", "-b", "main", &path]).await;
        self.adds(&dir, story).await;
        dir
    }

    pub(crate) async fn adds(&self, dir: &Path, story: &Story) {
        // Noise does not get smaller, however long git tries; and a pack is sent as it is.
        let mut args = Vec::new();
        for quick in ["core.compression=0", "pack.compression=0", "fastimport.unpackLimit=1"] {
            args.extend(["-c", quick]);
        }
        args.extend(["fast-import", "--quiet"]);
        self.git(dir, &args, &story.0).await;
    }

    pub(crate) async fn refs(&self, dir: &Path) -> Refs {
        let listed = self.git(dir, &["for-each-ref", "--format=%(refname) %(objectname)"], b"");
        let listed = listed.await;
        let rows = listed.lines().filter_map(|line| line.split_once(' '));
        rows.map(|(name, oid)| (name.to_owned(), oid.parse().unwrap())).collect()
    }

    /// Nothing is broken or missing, and there is nothing that no ref leads to.
    pub(crate) async fn inspects(&self, dir: &Path) {
        let said = self.git(dir, &["fsck", "--full", "--strict", "--unreachable"], b"").await;
        assert_eq!(said, "", "{}", dir.display());
    }

    /// Everything a server shows, the way git copies it.
    pub(crate) async fn clones(&self, url: &str) -> Refs {
        let copy = tempfile::tempdir_in(self.shelf.path()).unwrap();
        let path = copy.path().display().to_string();
        self.tree.git(&["clone", "-q", "--mirror", url, &path]).await;
        self.refs(copy.path()).await
    }

    async fn git(&self, dir: &Path, args: &[&str], input: &[u8]) -> String {
        let dir = dir.display().to_string();
        self.tree.git_reading(&[&["--git-dir", &dir], args].concat(), input).await
    }
}

/// What a repository consists of, as `git fast-import` hears it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story(Vec<u8>);

impl Story {
    /// One commit with one file that is new or other than before. `on` is a branch, which has `^0`
    /// behind it if it is there already; without one the commit has no parent.
    pub(crate) fn commit(
        mut self,
        branch: &str,
        on: Option<&str>,
        text: &str,
        file: &[u8],
    ) -> Self {
        let head = format!(
            "commit refs/heads/{branch}\ncommitter A <a@example.com> 1700000000 +0000\n\
             data {}\n{text}\n",
            text.len()
        );
        self.0.extend(head.as_bytes());
        if let Some(on) = on {
            self.0.extend(format!("from refs/heads/{on}\n").as_bytes());
        }
        self.file(text, file)
    }

    /// One more file in the last commit.
    pub(crate) fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.0.extend(format!("M 100644 inline {name}\ndata {}\n", content.len()).as_bytes());
        self.0.extend(content);
        self.0.push(b'\n');
        self
    }
}

/// Bytes that nothing can make smaller.
pub(crate) fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// As `Repository::state` takes them.
pub(crate) fn hex(refs: &Refs) -> Vec<(String, String)> {
    refs.iter().map(|(name, oid)| (name.clone(), oid.to_hex())).collect()
}

/// Bytes of all files below a directory.
pub(crate) fn disk_bytes(below: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(below) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(it) if it.is_dir() => disk_bytes(&entry.path()),
        // It may be gone since it was listed.
        it => it.map_or(0, |it| it.len()),
    });
    sizes.sum()
}
