//! `graspd doctor` finds what operators get wrong, one fault at a time, each with its remedy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;
mod gateway;

use common::mirrors::announcement;
use common::{THEN, acme, home};
use gateway::{Faults, Gateway};
use grasp_testkit::{Home, Server, until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const TRUSTED: (&str, &str) = ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.1/32");
/// The others are on this machine too.
const CLOSED_NET: (&str, &str) = ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");

/// What the doctor says, and whether all is well.
#[derive(Debug)]
struct Diagnosis {
    code: Option<i32>,
    report: Value,
}

impl Diagnosis {
    async fn of(home: &Home, args: &[&str]) -> Self {
        let output = home.runs(&[&["doctor", "--json"], args].concat()).await;
        let text = String::from_utf8(output.stdout).unwrap();
        let report = serde_json::from_str(&text).unwrap_or_else(|_| {
            panic!("no report: {text} {}", String::from_utf8_lossy(&output.stderr))
        });
        Self { code: output.status.code(), report }
    }

    /// The names of all checks that found something.
    fn faults(&self) -> Vec<&str> {
        let checks = self.report["checks"].as_array().unwrap().iter();
        let faults = checks.filter(|check| check["ok"] == false);
        faults.map(|check| check["check"].as_str().unwrap()).collect()
    }

    /// This one thing is wrong, it is said so, and what to do about it.
    fn finds(&self, check: &str, says: &str, fix: &str) {
        assert_eq!(self.faults(), [check], "{:#}", self.report);
        assert_eq!(self.code, Some(1));
        let checks = self.report["checks"].as_array().unwrap();
        let found = checks.iter().find(|it| it["check"] == check && it["ok"] == false).unwrap();
        assert!(found["said"].as_str().unwrap().contains(says), "{found:#}");
        assert!(found["fix"].as_str().unwrap().contains(fix), "{found:#}");
        assert!(!found["why"].as_str().unwrap().is_empty());
    }

    fn is_well(&self) {
        assert_eq!(self.faults(), [""; 0], "{:#}", self.report);
        assert_eq!((self.code, &self.report["ok"]), (Some(0), &Value::Bool(true)));
    }

    fn check(&self, name: &str) -> &Value {
        let checks = self.report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap()
    }

    fn was_checked(&self, name: &str) -> bool {
        self.check(name)["ok"] == true
    }
}

/// A server with a repository, known by the name of a proxy in front of it.
async fn behind(faults: Faults) -> (Server, Gateway) {
    let gateway = Gateway::start(faults).await;
    let name = gateway.address.to_string();
    let home = home(&[("NGIT_DOMAIN", &name), TRUSTED]);
    home.imports(&[acme().announcement_listing(&name, THEN)]).await;
    let server = home.serve().await;
    gateway.leads_to(&bound(&server));
    (server, gateway)
}

/// A server that follows this relay, and is linked with it.
async fn following(relay: &str) -> Server {
    let home = home(&[CLOSED_NET]);
    home.imports(&[announcement(&acme(), &[], &[relay.to_owned()])]).await;
    let server = home.serve().await;
    until("the relay is followed", || async {
        let output = server.home().runs(&["relays", "--json"]).await;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["relays"].as_array().unwrap().iter().any(|it| it["connected"] == true)
    })
    .await;
    server
}

/// The greeting tells the public name; the port is found where the server listens.
fn bound(server: &Server) -> String {
    let listening = fs::read_to_string("/proc/net/tcp").unwrap();
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| {
            let text = link.to_string_lossy().into_owned();
            Some(text.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let port = listening.lines().skip(1).find_map(|line| {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let is_ours = parts[3] == "0A" && sockets.contains(&parts[9].to_owned());
        let (_, port) = parts[1].split_once(':')?;
        is_ours.then(|| u16::from_str_radix(port, 16).unwrap())
    });
    format!("127.0.0.1:{}", port.expect("the server listens"))
}

#[tokio::test]
async fn a_server_behind_a_good_proxy_is_well() {
    let (server, _gateway) = behind(Faults::default()).await;
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    diagnosis.is_well();
    let clock = diagnosis.check("clock");
    assert!(clock["ok"].is_null(), "its own clock says nothing: {clock}");
    for name in ["git", "public address", "websocket", "body limit", "trusted proxy"] {
        assert!(diagnosis.was_checked(name), "{name} in {:#}", diagnosis.report);
    }
    let shown = server.home().runs(&["doctor"]).await;
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("nothing is wrong") && !text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn a_server_before_its_first_start_is_well() {
    let home = home(&[]);
    Diagnosis::of(&home, &[]).await.is_well();
    assert!(!home.relay_path().exists(), "nothing was made");
}

#[tokio::test]
async fn fault_1_a_value_that_makes_no_sense() {
    let home = home(&[("NGIT_BIND_ADDRESS", "everywhere")]);
    Diagnosis::of(&home, &[]).await.finds("configuration", "NGIT_BIND_ADDRESS", "127.0.0.1");
}

#[tokio::test]
async fn fault_2_a_git_that_is_too_old() {
    let mut home = home(&[]);
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = bin.join("git");
    fs::write(&script, "#!/bin/sh\necho git version 2.20.1\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    home.set("PATH", &format!("{}:/usr/bin:/bin", bin.display()));
    Diagnosis::of(&home, &[]).await.finds("git", "2.20.1 is too old", "2.39 or newer");
}

#[tokio::test]
async fn fault_3_a_file_where_the_data_should_be() {
    let home = home(&[]);
    fs::write(home.path().join("git"), "in the way").unwrap();
    Diagnosis::of(&home, &[]).await.finds(
        "data directory",
        "not a directory",
        "NGIT_GIT_DATA_PATH",
    );
}

#[tokio::test]
async fn fault_4_a_disk_with_too_little_room() {
    let home = home(&[("NGIT_GIT_MIN_FREE_BYTES", "9223372036854775807")]);
    Diagnosis::of(&home, &[]).await.finds("disk space", "are free", "NGIT_GIT_MIN_FREE_BYTES");
}

#[tokio::test]
async fn fault_5_a_clock_that_is_wrong() {
    let date = Some("Fri, 01 Jan 2100 00:00:00 GMT");
    let (other, _) = common::serving(&[]).await;
    let gateway = Gateway::start(Faults { date, ..Faults::default() }).await;
    gateway.leads_to(&other.address);
    let server = following(&format!("ws://{}", gateway.address)).await;
    Diagnosis::of(server.home(), &[]).await.finds("clock", "behind", "timedatectl set-ntp true");
}

#[tokio::test]
async fn a_clock_is_compared_with_those_of_others_alone() {
    let (other, _) = common::serving(&[]).await;
    let server = following(&other.url()).await;
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    diagnosis.is_well();
    assert!(diagnosis.was_checked("clock"), "{:#}", diagnosis.report);
    // Our own address with a strange time, and nobody else.
    let date = Some("Fri, 01 Jan 2100 00:00:00 GMT");
    let (server, _gateway) = behind(Faults { date, ..Faults::default() }).await;
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    diagnosis.is_well();
    assert!(!diagnosis.was_checked("clock"), "{:#}", diagnosis.report);
}

#[tokio::test]
async fn fault_6_a_name_that_leads_nowhere() {
    let home = home(&[("NGIT_DOMAIN", "nowhere.invalid"), TRUSTED]);
    Diagnosis::of(&home, &[]).await.finds("name", "nowhere.invalid", "A or AAAA record");
}

#[tokio::test]
async fn fault_7_a_name_that_leads_to_another_server() {
    let other = "ab".repeat(32).leak();
    let (server, _gateway) = behind(Faults { key: Some(other), ..Faults::default() }).await;
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    assert!(diagnosis.faults().contains(&"public address"), "{:#}", diagnosis.report);
    let text = diagnosis.report.to_string();
    assert!(text.contains("another key") && text.contains("NGIT_DOMAIN"), "{text}");
}

#[tokio::test]
async fn fault_8_a_proxy_that_refuses_large_bodies() {
    let faults = Faults { body_bytes_max: Some(1 << 20), ..Faults::default() };
    let (server, _gateway) = behind(faults).await;
    Diagnosis::of(server.home(), &[]).await.finds("body limit", "413", "client_max_body_size 0;");
}

#[tokio::test]
async fn fault_9_a_proxy_that_passes_no_upgrades_on() {
    let (server, _gateway) = behind(Faults { without_upgrade: true, ..Faults::default() }).await;
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    diagnosis.finds("websocket", "no WebSocket comes through", "Upgrade $http_upgrade");
}

#[tokio::test]
async fn fault_10_a_key_that_everybody_can_read() {
    let (server, _) = common::serving(&[]).await;
    let key = server.home().relay_path().join("relay-owner.nsec");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    Diagnosis::of(server.home(), &[]).await.finds("relay key", "mode 0644", "chmod 600");
}

#[tokio::test]
async fn fault_11_a_proxy_nobody_was_told_of() {
    let gateway = Gateway::start(Faults::default()).await;
    let home = home(&[("NGIT_DOMAIN", &gateway.address.to_string())]);
    let diagnosis = Diagnosis::of(&home, &[]).await;
    diagnosis.finds("trusted proxy", "does not name it", "NGIT_TRUSTED_PROXY_CIDRS");
}

#[tokio::test]
async fn fault_12_too_few_open_files() {
    let home = home(&[]).with_descriptors(512);
    Diagnosis::of(&home, &[]).await.finds("open files", "512 files", "LimitNOFILE=65536");
}

#[tokio::test]
async fn fault_12_too_few_open_files_for_the_server_that_runs() {
    let (server, _) = common::serving(&[]).await;
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let few = Rlimit { current: Some(512), maximum: Some(512) };
    prlimit(pid, Resource::Nofile, few).unwrap();
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    diagnosis.finds("open files", "the running server may open 512 files", "LimitNOFILE=65536");
}

#[tokio::test]
async fn fault_13_data_that_is_not_ours() {
    let home = home(&[]);
    fs::create_dir(home.path().join("git")).unwrap();
    fs::write(home.path().join("git/HEAD"), "somebody else's").unwrap();
    Diagnosis::of(&home, &[]).await.finds("data directory", "`HEAD`", "empty directory");
    assert_eq!(fs::read_dir(home.path().join("git")).unwrap().count(), 1, "nothing was added");
}

#[tokio::test]
async fn fault_14_a_data_directory_on_two_filesystems() {
    let (mut server, _) = common::serving(&[]).await;
    assert!(server.stop().await);
    let home = server.into_home();
    let elsewhere = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    symlink(elsewhere.path(), home.path().join("git/elsewhere")).unwrap();
    Diagnosis::of(&home, &[]).await.finds("data directory", "another filesystem", "unmount");
}

#[tokio::test]
async fn fault_15_a_process_that_holds_the_data_and_does_not_answer() {
    let (server, _) = common::serving(&[]).await;
    fs::remove_file(server.home().relay_path().join("control.sock")).unwrap();
    Diagnosis::of(server.home(), &[]).await.finds("lock", "another process", "fuser -v");
}

#[tokio::test]
async fn fault_16_a_proxy_that_drops_what_git_asks_for() {
    let faults = Faults { without_git_protocol: true, ..Faults::default() };
    let (server, _gateway) = behind(faults).await;
    let diagnosis = Diagnosis::of(server.home(), &[]).await;
    diagnosis.finds("git protocol", "Git-Protocol", "$http_git_protocol");
}
