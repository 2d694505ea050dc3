//! A bare repository with one commit, and as many copies of it as somebody needs: git data where
//! only its being there matters.

use crate::git::hosted::{ALL, bare, git, push};
use anyhow::{Context, Result};
use grasp_testkit::{Repository, WorkTree};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) const MAIN: &str = "refs/heads/main";

#[derive(Debug)]
pub(crate) struct Seedling {
    home: TempDir,
    /// What `main` is in every copy.
    pub(crate) tip: String,
}

impl Seedling {
    pub(crate) async fn with_readme(text: &str) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let tree = WorkTree::init(&git()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let tip = tree.commit("README.md", text).await.to_hex();
        let seedling = Self { home, tip };
        let path = seedling.path();
        push(&tree, &bare(&tree, &path).await, &ALL).await?;
        // Nothing that a server would not have.
        fs::remove_dir_all(path.join("hooks"))?;
        fs::write(path.join("HEAD"), format!("ref: {MAIN}\n"))?;
        Ok(seedling)
    }

    /// Puts a copy below a server's root for each of these.
    pub(crate) fn plant(&self, repositories: &[Repository], root: &Path) -> Result<()> {
        for repository in repositories {
            let owner = root.join(repository.owner.key.to_npub());
            let directory = owner.join(format!("{}.git", repository.identifier));
            copy(&self.path(), &directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("seedling.git")
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = {
            let entry = entry?;
            let to = to.join(entry.file_name());
            (entry, to)
        };
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}
