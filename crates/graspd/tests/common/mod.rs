//! What most stories begin with: a running server, and a repository it serves.
#![allow(dead_code, reason = "each file of tests needs its own part of this")]

pub(crate) mod hosted;
pub(crate) mod mirrors;
pub(crate) mod verdicts;
pub(crate) mod wire;

use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Home, Repository, Server};
use std::path::{Path, PathBuf};

/// Long ago, so that nothing here depends on the day it runs.
pub(crate) const THEN: u64 = 1_700_000_000;

pub(crate) fn home(settings: &[(&str, &str)]) -> Home {
    Home::new(Path::new(env!("CARGO_BIN_EXE_graspd")), settings)
}

/// A server with nothing in it.
pub(crate) async fn server(settings: &[(&str, &str)]) -> Server {
    home(settings).serve().await
}

/// A server that serves one repository.
pub(crate) async fn serving(settings: &[(&str, &str)]) -> (Server, Repository) {
    let repository = acme();
    let home = home(settings);
    home.imports(&[repository.announcement(THEN)]).await;
    (home.serve().await, repository)
}

/// A program that runs this script. Installed by another process: a file that this one has open for
/// writing cannot be run.
pub(crate) async fn install_script(directory: &Path, script: &str) -> PathBuf {
    let (draft, program) = (directory.join("draft"), directory.join("program"));
    std::fs::write(&draft, format!("#!/bin/sh\n{script}\n")).expect("a writable directory");
    let mut install = tokio::process::Command::new("install");
    let installed = install.args(["-m", "755"]).args([&draft, &program]).status().await;
    assert!(installed.is_ok_and(|status| status.success()));
    program
}

pub(crate) fn acme() -> Repository {
    Repository::new(Author::number(1), "acme")
}

/// Somebody without a part in anything yet.
pub(crate) fn alice() -> Author {
    Author::number(1001)
}

pub(crate) fn bob() -> Author {
    Author::number(1002)
}

/// The one event anybody may publish anywhere: which servers its author uses.
pub(crate) fn grasp_list(by: &Author, at: u64) -> VerifiedEvent {
    by.signs(Draft::new(Kind::GRASP_LIST, at))
}

/// Kind 5 for events by id.
pub(crate) fn deletion(by: &Author, at: u64, of: &[&VerifiedEvent]) -> VerifiedEvent {
    let draft = Draft::new(Kind::DELETION, at);
    by.signs(of.iter().fold(draft, |draft, event| draft.tag(&["e", &event.id.to_hex()])))
}
