//! The documents name tests and files; a name that leads nowhere fails here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands between backticks.
fn quoted(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).expect("the document exists");
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for part in ["crates", "bench", "fuzz"] {
        sources(&root().join(part), &mut found);
    }
    found
}

#[test]
fn every_test_the_documents_name_exists() {
    let mut functions = BTreeSet::new();
    for path in all_sources() {
        let text = fs::read_to_string(path).expect("readable source");
        let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
        functions.extend(names.map(str::to_owned));
    }
    let is_test_name = |word: &String| {
        let plain = |c: char| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_metric = ["ngit_", "purgatory_sync_"].iter().any(|start| word.starts_with(start));
        word.matches('_').count() >= 3 && word.chars().all(plain) && !is_metric
    };
    let named: Vec<String> = quoted("docs/behavior.md").into_iter().filter(is_test_name).collect();
    assert!(named.len() > 40, "the document names its tests in backticks");
    let missing: Vec<&String> = named.iter().filter(|name| !functions.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/behavior.md names tests that do not exist: {missing:?}");
}

/// Sync of events, the hunt for git data, the way out, and what can be seen of it.
#[test]
fn every_number_of_the_sync_paper_has_a_test_and_a_line_in_the_document() {
    let mut functions = BTreeSet::new();
    for path in all_sources() {
        let text = fs::read_to_string(path).expect("readable source");
        let names = text.split("fn s").skip(1).filter_map(|rest| rest.split_once('_'));
        functions.extend(names.filter_map(|(number, _)| number.parse::<u32>().ok()));
    }
    let named = quoted("docs/behavior.md");
    for number in 1..=43 {
        assert!(functions.contains(&number), "no test is named s{number}_...");
        let prefix = format!("s{number}_");
        let linked = named.iter().any(|name| name.starts_with(&prefix));
        assert!(linked, "docs/behavior.md names no test of S-{number}");
    }
}

#[test]
fn every_file_the_documents_name_exists() {
    let known: Vec<String> =
        all_sources().iter().map(|path| path.display().to_string().replace('\\', "/")).collect();
    for document in ["README.md", "ARCHITECTURE.md", "docs/behavior.md"] {
        for name in quoted(document).iter().filter(|word| word.ends_with(".rs")) {
            let tail = format!("/{}", name.trim_start_matches("crates/"));
            let exists = known.iter().any(|path| path.ends_with(&tail))
                || known
                    .iter()
                    .any(|path| path.contains(&format!("/{}", name.replace('/', "/src/"))));
            assert!(exists, "{document} names {name}, which does not exist");
        }
    }
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).expect("a README").lines().count();
    assert!(lines <= 120, "{lines} lines");
}
