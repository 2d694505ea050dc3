//! A repository as real git reads it on the disk, past the server.

use super::project::Refs;
use grasp_core::Oid;
use grasp_testkit::WorkTree;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One repository's directory; everything is empty while there is none.
#[derive(Debug, Default)]
pub(crate) struct OnDisk {
    directory: PathBuf,
    /// Branches and tags.
    pub(crate) governed: Refs,
    /// By event id.
    pub(crate) proposals: BTreeMap<String, Oid>,
    pub(crate) internal: BTreeSet<Oid>,
    /// Names that belong to none of these.
    pub(crate) strange: Vec<String>,
    pub(crate) head: Option<String>,
    pub(crate) exists: bool,
}

impl OnDisk {
    pub(crate) async fn read(directory: &Path, by: &WorkTree) -> Self {
        let mut it = Self { directory: directory.to_owned(), ..Self::default() };
        it.exists = directory.is_dir();
        if !it.exists {
            return it;
        }
        let listed = it.git(by, &["for-each-ref", "--format=%(refname) %(objectname)"], b"").await;
        for (name, oid) in listed.lines().filter_map(|line| line.split_once(' ')) {
            it.put(name, oid.parse().expect("an object id"));
        }
        it.head = Some(it.git(by, &["symbolic-ref", "HEAD"], b"").await);
        it
    }

    fn put(&mut self, name: &str, oid: Oid) {
        if name.starts_with("refs/heads/") || name.starts_with("refs/tags/") {
            self.governed.insert(name.to_owned(), oid);
        } else if let Some(id) = name.strip_prefix("refs/nostr/") {
            self.proposals.insert(id.to_owned(), oid);
        } else if name.starts_with("refs/internal/") {
            self.internal.insert(oid);
        } else {
            self.strange.push(name.to_owned());
        }
    }

    async fn git(&self, by: &WorkTree, args: &[&str], input: &[u8]) -> String {
        let directory = self.directory.display().to_string();
        by.git_reading(&[&["--git-dir", &directory], args].concat(), input).await
    }

    /// Which of these objects are here.
    pub(crate) async fn holds(&self, by: &WorkTree, of: &BTreeSet<Oid>) -> BTreeSet<Oid> {
        if !self.exists {
            return BTreeSet::new();
        }
        let asked: String = of.iter().map(|oid| format!("{oid}\n")).collect();
        let said = self.git(by, &["cat-file", "--batch-check"], asked.as_bytes()).await;
        let here = said.lines().filter(|line| !line.ends_with("missing"));
        here.filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
    }

    /// Everything that refs lead to is here; with `all`, everything anything leads to.
    pub(crate) async fn is_sound(&self, by: &WorkTree, all: bool) {
        if self.exists {
            let depth = if all { "--full" } else { "--connectivity-only" };
            // Git does not sync the list of its commit-graphs. Without it everything works, and the
            // next maintenance writes it anew.
            let args = ["-c", "core.commitGraph=false", "fsck", depth, "--no-dangling"];
            self.git(by, &args, b"").await;
        }
    }
}

/// Every file that means somebody is in the middle of changing refs. Those of maintenance, among the
/// objects, are its own business: the next one removes what a crash left there.
pub(crate) fn locks(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let own = name == "graspd.lock" && directory == root;
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                todo.extend((name != "objects").then_some(path));
            } else if (name.ends_with(".lock") && !own) || name == "packed-refs.new" {
                found.push(path);
            }
        }
    }
    found
}

/// The names of what lies in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a readable directory");
    entries.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}
