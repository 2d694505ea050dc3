//! Which file of a commit is its README, and what is made of it. Blocking, and bounded in bytes.

use super::{Readme, markdown};
use grasp_core::{Oid, RefName};
use grasp_git::{Objects, RefTable, RootFile, Unread};

pub(super) const BYTES_MAX: u64 = 256 << 10;
/// In the order in which they are preferred, whatever their case.
const NAMES: [&str; 4] = ["readme.md", "readme.markdown", "readme.txt", "readme"];

/// The commit HEAD leads to.
pub(super) fn head(refs: &RefTable) -> Option<Oid> {
    let main = || "refs/heads/main".parse::<RefName>().ok();
    let head = refs.head.clone().or_else(main)?;
    refs.governed.get(&head).map(|entry| entry.oid)
}

/// `Ok(None)` if the commit has none; an error if that could not be found out.
pub(super) fn readme(objects: &Objects, commit: &Oid) -> Result<Option<Readme>, Unread> {
    let files = objects.files(commit, |name| rank(name).is_some()).ok_or(Unread::Absent)?;
    let best = files.iter().min_by_key(|file| (rank(&file.name), &file.name));
    let Some(RootFile { name, oid }) = best else { return Ok(None) };
    let name = String::from_utf8_lossy(name);
    match objects.blob(oid, BYTES_MAX) {
        Ok(bytes) => Ok(rendered(&name, &bytes)),
        Err(Unread::Large) => {
            let html = "<p>This file is too large to be shown here.</p>".to_owned();
            Ok(Some(Readme::new(&name, html)))
        }
        Err(unread) => Err(unread),
    }
}

fn rank(name: &[u8]) -> Option<usize> {
    NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// None if it is not text.
fn rendered(name: &str, bytes: &[u8]) -> Option<Readme> {
    if bytes.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let html = match rank(name.as_bytes()) {
        Some(0 | 1) => markdown::html(&text),
        _ => markdown::plain(&text),
    };
    Some(Readme::new(name, html))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bare repository with these files in one commit.
    fn committed(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Oid) {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let mut tree = repo.treebuilder(None).unwrap();
        for (name, content) in files {
            let mode = if content.starts_with(b"-> ") { 0o120_000 } else { 0o100_644 };
            tree.insert(name, repo.blob(content).unwrap(), mode).unwrap();
        }
        let nested = repo.treebuilder(None).unwrap().write().unwrap();
        tree.insert("a", nested, 0o040_000).unwrap();
        let tree = repo.find_tree(tree.write().unwrap()).unwrap();
        let who = git2::Signature::new("A", "a@b", &git2::Time::new(0, 0)).unwrap();
        let commit = repo.commit(None, &who, &who, "x", &tree, &[]).unwrap();
        (dir, Oid::from_bytes(commit.as_bytes().try_into().unwrap()))
    }

    fn found(files: &[(&str, &[u8])]) -> Option<Readme> {
        let (dir, commit) = committed(files);
        readme(&Objects::open(dir.path()).unwrap(), &commit).unwrap()
    }

    #[test]
    fn the_readme_is_found_in_any_case_and_markdown_is_preferred() {
        let files: [(&str, &[u8]); 4] =
            [("README", b"plain"), ("ReadMe.TXT", b"text"), ("Readme.MD", b"*hi*"), ("x", b"y")];
        let readme = found(&files).unwrap();
        assert_eq!(readme.name(), "Readme.MD");
        assert_eq!(readme.html().to_string().trim(), "<p><em>hi</em></p>");
        assert_eq!(found(&files[..2]).unwrap().name(), "ReadMe.TXT");
        let plain = found(&files[..1]).unwrap().html().to_string();
        assert_eq!(plain, "<pre><code>plain</code></pre>\n");
        assert!(found(&files[3..]).is_none());
    }

    #[test]
    fn links_binaries_and_large_files_are_not_read() {
        assert!(found(&[("README.md", b"-> /etc/passwd")]).is_none());
        assert!(found(&[("README", b"a\0b")]).is_none());
        let large = vec![b'x'; 256 * 1_024 + 1];
        let html = found(&[("README.md", &large)]).unwrap().html().to_string();
        assert!(html.contains("too large"), "{html}");
        assert!(found(&[("README.md", &large[1..])]).unwrap().html().to_string().len() > 200_000);
    }

    #[test]
    fn what_is_not_there_is_an_error_and_not_the_absence_of_a_readme() {
        let (dir, _) = committed(&[]);
        let objects = Objects::open(dir.path()).unwrap();
        assert!(readme(&objects, &Oid::from_bytes([9; 20])).is_err());
    }
}
