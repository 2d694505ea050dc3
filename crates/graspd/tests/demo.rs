//! `graspd demo`: two servers on one machine agree within a minute, and say so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
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
    for words in ["first says", "second says", "equal", "Both agree"] {
        assert!(stdout.contains(words), "{words} in {stdout}");
    }
    assert!(!stdout.contains("git clone"), "nothing is left to clone from: {stdout}");
}

#[tokio::test]
async fn the_demo_prints_commands_that_work_as_they_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graspd"));
    command.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut demo = command.stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut commands = Vec::new();
    while commands.len() < 6 {
        let line = timeout(Duration::from_secs(90), lines.next_line()).await;
        let line = line.expect("it goes on").unwrap().expect("it keeps running");
        if let Some(command) = line.strip_prefix("  ") {
            commands.push(command.to_owned());
        }
    }
    let elsewhere = tempfile::tempdir().unwrap();
    for command in &commands {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(elsewhere.path()).stdin(Stdio::null());
        let output = timeout(Duration::from_secs(60), shell.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        assert!(!said.contains("no server runs"), "{command}: {said}");
    }
    for name in ["first", "second"] {
        let readme = elsewhere.path().join(format!("hello-from-{name}/README.md"));
        assert!(readme.exists(), "{commands:#?}");
    }
    // Its servers end with it, if it is asked to end.
    let pid = demo.id().unwrap().to_string();
    assert!(Command::new("kill").arg(pid).status().await.unwrap().success());
    let ended = timeout(Duration::from_secs(30), demo.wait()).await.expect("it ends").unwrap();
    assert!(ended.success(), "{ended}");
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
