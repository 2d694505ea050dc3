//! `graspd demo`: two servers on one machine agree within a minute, and say so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::time::timeout;

async fn demo(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graspd"));
    command.arg("demo").args(args).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(Duration::from_secs(90), command.output()).await;
    let output = output.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn s30_two_servers_agree_within_a_minute_and_say_so_of_each_other() {
    let began = Instant::now();
    let (ok, stdout, stderr) = demo(&["--exit"]).await;
    assert!(ok, "{stdout}\n{stderr}");
    assert!(began.elapsed() < Duration::from_secs(75));
    for chapter in ["announcement seen", "git data fetched", "refs equal", "agreed"] {
        assert!(stderr.contains(chapter), "{chapter} in {stderr}");
    }
    for words in ["first says", "second says", "equal", "Both agree", "git clone http://127.0.0.1:"]
    {
        assert!(stdout.contains(words), "{words} in {stdout}");
    }
}

#[tokio::test]
async fn s30_the_same_for_programs() {
    let (ok, stdout, stderr) = demo(&["--exit", "--json"]).await;
    assert!(ok, "{stdout}\n{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["agreed"], true);
    assert_eq!(report["verdicts"][0]["verdict"], "equal");
    assert_eq!(report["verdicts"][1]["verdict"], "equal");
}
