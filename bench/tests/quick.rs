//! The whole bench over tiny sizes against the real server, so that it never rots.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

use serde_json::Value;
use std::process::Command;

#[test]
fn every_figure_of_the_report_can_still_be_measured() {
    can_be_measured(
        "relay",
        &[
            "schnorr",
            "ingest",
            "one publish",
            "query mix",
            "fan-out",
            "memory",
            "scan",
            "negentropy",
        ],
    );
}

#[test]
fn so_can_those_of_the_git_host() {
    can_be_measured(
        "git",
        &[
            "info/refs of 10 refs, v0",
            "info/refs of 10 refs, v2",
            "clone of",
            "push of 0.0 MB",
            "branches and its state",
            "REQ of others",
            "git processes",
            "above idle, push",
            "above idle, clone",
            "of gzip",
        ],
    );
}

#[test]
fn and_those_of_sync() {
    can_be_measured(
        "sync",
        &[
            "engine, memory",
            "engine, one new root",
            "engine, one in the largest",
            "engine, inputs",
            "engine, state",
            "visible elsewhere",
            "did not arrive",
            "kill -9 and restart, received",
            "from nothing",
            "beside REQ alone",
            "second start",
            "99 % held",
        ],
    );
}

#[test]
fn and_those_of_git_data_that_nobody_brings() {
    can_be_measured(
        "coldsync",
        &["all defaults", "limits raised", "cold start, received", "here, p50", "here, p99"],
    );
}

#[test]
fn and_those_of_what_the_server_tells_about_itself() {
    can_be_measured(
        "visible",
        &[
            "page /, p99",
            "page of a repository, p99",
            "report status, p50",
            "report purgatory, p99",
            "report of an event that waits",
            "its last whole page, p50",
            "after a pause",
            "REQ while",
            "publish while",
            "reports meanwhile",
            "upkeep with 24 h",
            "refs compared",
            "events compared",
            "found equal",
            "after its rounds",
        ],
    );
}

fn can_be_measured(what: &str, topics: &[&str]) {
    let bench = env!("CARGO_BIN_EXE_bench");
    let output = Command::new(bench).args([what, "--quick", "--json"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for topic in topics {
        let about_it: Vec<_> =
            rows.iter().filter(|row| row["name"].as_str().unwrap().contains(topic)).collect();
        assert!(!about_it.is_empty(), "nothing about {topic} in {report}");
        assert!(about_it.iter().all(|row| row["figure"].as_f64().unwrap() >= 0.0), "{about_it:?}");
    }
    assert_eq!(report["judged"], false, "tiny sizes say nothing about requirements");
}

#[test]
fn a_word_it_does_not_know_is_refused_with_the_words_it_knows() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(["relay", "--qiuck"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("--qiuck") && complaint.contains("--quick"), "{complaint}");
    for words in [["git", "--only", "negentropy"], ["git", "--events", "500"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}
