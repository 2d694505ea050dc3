use super::super::facts::Shown;
use super::*;
use std::path::PathBuf;

/// A server with nothing to complain of.
fn well() -> Facts {
    let root =
        |path: &str, setting| DataRoot { path: path.into(), setting, trouble: None, is_new: false };
    let shown = Shown { key: Some("ab".into()), instance: Some("1".into()) };
    Facts {
        notes: vec![],
        git: Ok(("2.47.1".into(), None)),
        roots: vec![
            root("data/relay", "NGIT_RELAY_DATA_PATH"),
            root("data/git", "NGIT_GIT_DATA_PATH"),
        ],
        disks: vec![Disk {
            path: "data/git".into(),
            free_bytes: 10 << 30,
            needed_bytes: 1 << 30,
            setting: Some("NGIT_GIT_MIN_FREE_BYTES"),
        }],
        lock: Lock::Running,
        key: Some(KeyFile { path: "data/relay/relay-owner.nsec".into(), mode: 0o100600 }),
        files: Files { max: Some(65_536), of_server: true },
        store: Some((1 << 20, 10 << 30)),
        proxy: Proxy {
            bind: "127.0.0.1:7334".parse().unwrap(),
            is_expected: true,
            trusted: vec!["127.0.0.1/32".parse().unwrap()],
        },
        public: Public {
            address: "git.example".into(),
            is_named: true,
            is_running: true,
            dns: Some(Ok(2)),
            info: Reach::Got(shown),
            key: Some("ab".into()),
            instance: Some("1".into()),
            socket: Reach::Got(()),
            body: Reach::Got(404),
            body_bytes: 2 << 20,
            git_v2: Reach::Got(true),
        },
        clocks: vec![Clock { host: "relay.example".into(), ahead_secs: 1 }],
        problems: vec![],
    }
}

fn faults(facts: &Facts) -> Vec<(&'static str, String, String)> {
    let fault = |check: Check| match check.outcome {
        Outcome::Wrong { wrong, why, fix } => {
            assert!(!why.is_empty());
            Some((check.name, wrong, fix))
        }
        _ => None,
    };
    judge(facts).into_iter().filter_map(fault).collect()
}

#[test]
fn a_server_that_is_well_is_told_so() {
    assert_eq!(faults(&well()), []);
    let checks = judge(&well());
    assert!(checks.iter().all(|check| matches!(check.outcome, Outcome::Fine(_))), "{checks:?}");
}

type Fault = (&'static str, fn(&mut Facts), &'static str, &'static str);

const FAULTS: &[Fault] = &[
    ("git", |it| it.git = Err("git 2.20.1 is too old".into()), "too old", "apt install git"),
    ("git", |it| it.git = Err("git is not installed".into()), "not installed", "NGIT_GIT_BINARY"),
    (
        "data directory",
        |it| trouble(it, Trouble::NotADirectory),
        "not a directory",
        "NGIT_GIT_DATA",
    ),
    (
        "data directory",
        |it| trouble(it, Trouble::NotWritable(PathBuf::from("data"))),
        "data cannot be written to",
        "chown graspd data",
    ),
    ("data directory", |it| trouble(it, Trouble::Foreign("`x`".into())), "`x`", "empty directory"),
    ("data directory", |it| trouble(it, Trouble::CaseInsensitive), "upper from lower", "ext4"),
    (
        "data directory",
        |it| trouble(it, Trouble::TwoFilesystems("data/git/x".into())),
        "another filesystem",
        "unmount",
    ),
    ("disk space", |it| it.disks[0].free_bytes = 5, "5 bytes are free", "NGIT_GIT_MIN_FREE_BYTES"),
    ("lock", |it| it.lock = Lock::Held("data/graspd.lock".into()), "another process", "fuser -v"),
    (
        "relay key",
        |it| it.key.as_mut().unwrap().mode = 0o100644,
        "mode 0644",
        "chmod 600 data/relay",
    ),
    ("event store", |it| it.store = Some((91, 100)), "are used", "NGIT_RELAY_DISK_BUDGET_BYTES"),
    (
        "open files",
        |it| it.files.max = Some(1_024),
        "server may open 1024 files",
        "LimitNOFILE=65536",
    ),
    (
        "open files",
        |it| it.files = Files { max: Some(512), of_server: false },
        "this shell may open 512 files",
        "LimitNOFILE=65536",
    ),
    (
        "clock",
        |it| it.clocks[0].ahead_secs = 61,
        "61 s behind that of relay.example",
        "set-ntp true",
    ),
    ("clock", |it| it.clocks[0].ahead_secs = -3_600, "3600 s ahead of that", "timedatectl"),
    ("name", |it| it.public.dns = Some(Err("no".into())), "leads nowhere", "A or AAAA record"),
    (
        "public address",
        |it| it.public.info = Reach::Failed("connection refused".into()),
        "does not answer: connection refused",
        "NGIT_BIND_ADDRESS",
    ),
    (
        "public address",
        |it| it.public.info = Reach::Got(Shown::default()),
        "not as a relay",
        "Accept among them",
    ),
    ("public address", |it| it.public.key = Some("cd".into()), "another key (ab)", "NGIT_DOMAIN"),
    (
        "public address",
        |it| it.public.instance = Some("2".into()),
        "another process with the same key",
        "stop the other one",
    ),
    (
        "websocket",
        |it| it.public.socket = Reach::Failed("it answers with status 400".into()),
        "status 400",
        "proxy_set_header Upgrade $http_upgrade",
    ),
    ("body limit", |it| it.public.body = Reach::Got(413), "2.0 MiB", "client_max_body_size 0;"),
    ("git protocol", |it| it.public.git_v2 = Reach::Got(false), "lost", "$http_git_protocol"),
    (
        "trusted proxy",
        |it| it.proxy.trusted.clear(),
        "does not name it",
        "NGIT_TRUSTED_PROXY_CIDRS to the proxy's address, such as 127.0.0.1/32",
    ),
    (
        "trusted proxy",
        |it| it.proxy.trusted = vec!["10.0.0.0/8".parse().unwrap()],
        "only this machine can reach the port",
        "add 127.0.0.1/32",
    ),
    (
        "trusted proxy",
        |it| it.proxy.trusted = vec!["0.0.0.0/0".parse().unwrap()],
        "which is everybody",
        "name the proxy alone",
    ),
];

fn trouble(facts: &mut Facts, trouble: Trouble) {
    facts.roots[1].trouble = Some(trouble);
}

#[test]
fn each_fault_is_found_alone_with_its_remedy() {
    for (name, plant, says, fix) in FAULTS {
        let mut facts = well();
        plant(&mut facts);
        let found = faults(&facts);
        let [(found, wrong, remedy)] = found.as_slice() else { panic!("{name}: {found:?}") };
        assert_eq!(found, name);
        assert!(wrong.contains(says), "{name}: no `{says}` in `{wrong}`");
        assert!(remedy.contains(fix), "{name}: no `{fix}` in `{remedy}`");
    }
}

#[test]
fn one_strange_clock_among_others_is_not_ours() {
    let clock = |host: &str, ahead_secs| Clock { host: host.into(), ahead_secs };
    let mut facts = well();
    facts.clocks = vec![clock("a", 9_000), clock("b", 0), clock("c", -2)];
    assert_eq!(faults(&facts), []);
    facts.clocks = vec![clock("a", 9_000), clock("b", 8_990), clock("c", -2)];
    assert_eq!(faults(&facts).len(), 1);
    for pair in [[9_000, 0], [-9_000, 0], [0, 9_000]] {
        facts.clocks = pair.map(|secs| clock("x", secs)).to_vec();
        assert_eq!(faults(&facts), [], "{pair:?}");
    }
    facts.clocks = vec![clock("a", 9_000), clock("b", -9_000)];
    assert_eq!(faults(&facts).len(), 1, "nobody agrees");
    facts.clocks.clear();
    assert_eq!(faults(&facts), [], "nobody to compare with is no fault");
}

#[test]
fn a_server_without_a_name_is_asked_nothing_by_it() {
    let mut facts = well();
    let untried = || "NGIT_DOMAIN is not set".to_owned();
    facts.public.dns = None;
    facts.public.info = Reach::Untried(untried());
    facts.public.socket = Reach::Untried(untried());
    facts.public.body = Reach::Untried(untried());
    facts.public.git_v2 = Reach::Untried(untried());
    facts.proxy.is_expected = false;
    facts.proxy.trusted.clear();
    assert_eq!(faults(&facts), []);
}

#[test]
fn every_problem_that_the_server_lists_is_wrong_here_too_and_says_what_to_do() {
    use crate::metrics::FullTable;
    use crate::report::Problem;
    let now = grasp_core::Time::from_secs(1_700_000_000);
    let mut facts = well();
    let full = Problem::TableFull { table: FullTable::Held, refused: 3 };
    let disk = Problem::DiskLow { free_bytes: 1, reserve_bytes: 2 };
    facts.problems = vec![full.report(now), disk.report(now)];
    let found = faults(&facts);
    let [(name, wrong, fix)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*name, "held-full");
    assert!(wrong.contains("events that wait for git data is full"), "{wrong}");
    assert!(fix.contains("NGIT_RELAY_MAX_HELD_EVENTS"), "{fix}");
}
