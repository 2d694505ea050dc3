//! Configuration as an operator meets it: files in a directory, variables, flags, and what comes of
//! them. The rules are those of `docs/configuration.md`.
// The lints' exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used, clippy::panic)]

use grasp_core::maintainers::MaintainerRule;
use graspd::cli;
use graspd::config::setting::Part;
use graspd::config::{Backend, Complaint, Config, RawConfig, SETTINGS};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

const NSEC: &str = "7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f";
const NPUB: &str = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6";

#[test]
fn nothing_configured_is_a_sound_configuration() {
    let config = Operator::new().config();
    assert_eq!(config.bind_address.to_string(), "127.0.0.1:7334");
    assert_eq!(config.service.address(), "127.0.0.1:7334");
    assert_eq!(config.relay_name, "127.0.0.1:7334 grasp relay");
    assert_eq!(config.git_data_path, Path::new("./data/git"));
    assert_eq!(config.relay_data_path, Path::new("./data/relay"));
    assert_eq!(config.backend, Backend::Lmdb);
    assert_eq!(config.policy.maintainer_rule, MaintainerRule::Confirmed);
    assert_eq!(config.drain, Duration::from_secs(10));
    assert!(config.metrics.enabled);
    assert!(config.log_filter.starts_with("warn,graspd=info"));
}

#[test]
fn the_serving_limits_default_to_what_was_decided() {
    let config = Operator::new().config();
    let relay = config.relay;
    assert_eq!(relay.event_bytes_max, 256 << 10);
    assert_eq!(relay.event_tags_max, 5_000);
    assert_eq!(relay.message_bytes_max, 1 << 20);
    assert_eq!(relay.subscriptions_max, 500);
    assert_eq!(relay.filters_per_req_max, 20);
    assert_eq!(relay.filter_bytes_per_connection_max, 5 << 20);
    assert_eq!(relay.filter_bytes_per_ip_max, 16 << 20);
    assert_eq!(relay.subid_chars_max, 64);
    assert_eq!(relay.query_events_max, 5_000);
    assert_eq!(relay.query_budget, Duration::from_secs(2));
    assert_eq!(relay.outbox_bytes_max, 4 << 20);
    assert_eq!(relay.negentropy.sessions_max, 10);
    assert_eq!(relay.negentropy.items_max, 1_000_000);
    assert_eq!(relay.negentropy.items_total_max, 4_000_000);
    assert_eq!(relay.negentropy.frame_bytes_max, 60_000);
    assert_eq!(relay.negentropy.rounds_max, 64);
    let connections = config.connections;
    assert_eq!(connections.connections_max, None);
    assert_eq!(connections.descriptor_reserve_percent, 10);
    assert_eq!(connections.connections_per_ip_max, 64);
    assert_eq!(connections.ip.events_per_minute, 1_200);
    assert_eq!(connections.ip.events_burst, 2_400);
    assert_eq!(connections.ip.announcements_per_hour, 120);
    assert_eq!(connections.ip.repositories_per_day, 100);
    assert_eq!(config.store.disk_budget_bytes, 10 << 30);
    assert_eq!(config.store.held_per_key_max, 250);
    assert_eq!(config.store.held_per_ip_per_hour, 200);
    assert_eq!(config.store.held, grasp_core::hold::Patience::default());
}

#[test]
fn the_git_limits_default_to_what_was_decided() {
    let config = Operator::new().config();
    let git = config.git;
    assert_eq!(git.binary, None);
    assert_eq!(git.pack_bytes_max, 2 << 30);
    assert_eq!(git.proposal_pack_bytes_max, 32 << 20);
    assert_eq!(git.object_bytes_max, 512 << 20);
    assert_eq!(git.objects_max, 5_000_000);
    assert_eq!(git.refs_max, 50_000);
    assert_eq!(git.request_bytes_max, 16 << 20);
    assert_eq!(git.timeout, Duration::from_secs(3_600));
    assert_eq!((git.uploads_max, git.pushes_max), (None, None));
    assert_eq!((git.uploads_per_ip_max, git.pushes_per_ip_max), (4, 4));
    assert_eq!(git.queue_wait, Duration::from_secs(30));
    assert_eq!(git.unclaimed.bytes_per_ip_max, 256 << 20);
    assert_eq!(git.unclaimed.bytes_per_repository_max, 256 << 20);
    assert_eq!(git.unclaimed.bytes_total_max, 2 << 30);
    assert_eq!(git.unclaimed.per_repository_max, 100);
    assert_eq!(git.unclaimed.per_ip_per_hour, 20);
    assert_eq!(git.unclaimed.kept, Duration::from_secs(20 * 60));
    assert_eq!(git.free_bytes_min, 1 << 30);
    assert_eq!(config.push_drain, Duration::from_secs(60));
    assert_eq!(config.holding.retention, Duration::from_secs(90 * 86_400));
    assert_eq!(config.metrics.busiest_repositories_max, 10);
}

#[test]
fn the_numbers_of_sync_default_to_what_was_decided() {
    let sync = Operator::new().config().sync;
    assert!(sync.enabled && !sync.allow_non_global);
    assert_eq!(sync.bootstrap, None);
    // Their values are fixed by the engine's own tests.
    assert_eq!(sync.engine, grasp_engine::Settings::default());
    assert_eq!(sync.patience, grasp_engine::Patience::default());
    assert_eq!(sync.engine.links_per_address_max, 32);
    assert_eq!((sync.probe_timeout, sync.probe_bytes_max), (Duration::from_secs(3), 256 << 10));
    assert_eq!(sync.rejected_hot, Duration::from_secs(120));
    assert_eq!(sync.rejected_cold, Duration::from_secs(7 * 86_400));
    assert_eq!(sync.verdict_age_max, Duration::from_secs(86_400));
}

#[test]
fn sync_is_told_what_the_operator_wrote() {
    let mut operator = Operator::new();
    operator.env("NGIT_SYNC_BOOTSTRAP_RELAY_URL", "wss://Relay.Example:443/");
    operator.env("NGIT_SYNC_BATCH_WINDOW_MS", "50");
    operator.env("NGIT_SYNC_DAILY_MIN_HOURS", "2");
    operator.env("NGIT_NAUGHTY_LIST_EXPIRATION_HOURS", "1");
    operator.env("NGIT_SYNC_AUTH", "false");
    operator.args(&["--sync-disable-negentropy", "--sync-links-max=7", "--sync-enabled=false"]);
    operator.file("graspd.toml", "sync_strays_max = 3\nsync_allow_non_global_targets = true\n");
    let sync = operator.config().sync;
    assert_eq!(sync.bootstrap.unwrap().as_str(), "wss://relay.example");
    assert_eq!(sync.engine.window, Duration::from_millis(50));
    assert_eq!(sync.engine.daily_min, Duration::from_secs(2 * 3_600));
    assert_eq!(sync.engine.banned_for, Duration::from_secs(3_600));
    assert_eq!((sync.engine.authenticate, sync.engine.negentropy), (false, false));
    assert_eq!(sync.engine.links_max, 7);
    assert_eq!(sync.patience.strays_max, 3);
    assert!(sync.allow_non_global && !sync.enabled);
}

#[test]
fn a_bootstrap_relay_has_a_plain_address() {
    for bad in ["relay.example", "https://relay.example", "wss://user:word@relay.example"] {
        let mut operator = Operator::new();
        operator.env("NGIT_SYNC_BOOTSTRAP_RELAY_URL", bad);
        operator.complains(&["NGIT_SYNC_BOOTSTRAP_RELAY_URL", "wss://relay.example"]);
    }
}

#[test]
fn what_is_risky_or_useless_about_sync_is_said_at_the_start() {
    let mut operator = Operator::new();
    operator.env("NGIT_DOMAIN", "git.example");
    operator.env("NGIT_SYNC_BOOTSTRAP_RELAY_URL", "wss://git.example");
    operator.env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");
    let notes = operator.config().notes.join("\n");
    assert!(notes.contains("this very server") && notes.contains("NON_GLOBAL"), "{notes}");
}

#[test]
fn each_of_the_five_layers_yields_to_the_one_above() {
    let mut operator = Operator::new();
    assert_eq!(operator.config().relay.subscriptions_max, 500);
    operator.file("graspd.toml", "relay_max_subscriptions = 1\n");
    assert_eq!(operator.config().relay.subscriptions_max, 1);
    operator.file(".env", "export NGIT_RELAY_MAX_SUBSCRIPTIONS='2' # two\n");
    assert_eq!(operator.config().relay.subscriptions_max, 2);
    operator.env("NGIT_RELAY_MAX_SUBSCRIPTIONS", "3");
    assert_eq!(operator.config().relay.subscriptions_max, 3);
    operator.args(&["--relay-max-subscriptions", "4"]);
    assert_eq!(operator.config().relay.subscriptions_max, 4);
}

#[test]
fn a_file_given_by_name_replaces_the_usual_one_and_must_exist() {
    let mut operator = Operator::new();
    operator.file("graspd.toml", "relay_name = 'usual'\n");
    operator
        .file("other.toml", "relay_name = 'other'\ntrusted_proxy_cidrs = ['10.0.0.0/8', '::1']\n");
    operator.args(&["--config", "other.toml"]);
    let config = operator.config();
    assert_eq!(config.relay_name, "other");
    assert_eq!(config.trusted_proxies.len(), 2);
    operator.args(&["--config", "missing.toml"]);
    operator.complains(&["missing.toml", "cannot be read"]);
}

#[test]
fn all_complaints_come_at_once_and_each_tells_setting_place_and_fix() {
    let mut operator = Operator::new();
    operator
        .file("graspd.toml", "bind_address = 'localhost:7334'\nrelay_nam = 'x'\ndomain = 7.5\n");
    operator.file(".env", "# ours\nNGIT_HTTP_HEADER_TIMEOUT_SECS=0\nNGIT_LOG_LEVEL=\"info\n");
    operator.env("NGIT_REPOSITORY_BLACKLIST", "acme,npub1wrong");
    operator.env("NGIT_DOMIAN", "git.example");
    operator.env("NGIT_PRIVATE_MODE", "true");
    operator.args(&["--relay-max-subscriptions", "none"]);
    let complaints = operator.complaints();
    for parts in [
        ["bind_address", "graspd.toml", "localhost:7334", "127.0.0.1:7334"],
        ["relay_nam ", "graspd.toml", "not a setting", "`relay_name`"],
        ["domain", "graspd.toml", "type", "host"],
        ["NGIT_HTTP_HEADER_TIMEOUT_SECS", ".env line 2", "too small", "from 1 to 3600"],
        ["NGIT_LOG_LEVEL", ".env line 3", "quote", "NAME=value"],
        ["NGIT_REPOSITORY_BLACKLIST", "environment", "npub1wrong", "npub/identifier"],
        ["NGIT_DOMIAN", "environment", "not a setting", "NGIT_DOMAIN"],
        ["NGIT_PRIVATE_MODE", "environment", "private mode", "remove it"],
        ["--relay-max-subscriptions", "command line", "`none`", "whole number"],
    ] {
        let tells = |complaint: &&Complaint| {
            let text = complaint.to_string();
            parts.iter().all(|part| text.contains(part))
        };
        assert!(complaints.iter().any(|c| tells(&c)), "{parts:?} in {complaints:#?}");
    }
    assert_eq!(complaints.len(), 9, "{complaints:#?}");
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    for (small, large) in [
        ("NGIT_RELAY_MAX_EVENT_SIZE_BYTES=200000", "NGIT_RELAY_MAX_MESSAGE_BYTES=100000"),
        ("NGIT_RELAY_MAX_EVENT_SIZE_BYTES=200000", "NGIT_RELAY_MAX_OUTBOX_BYTES=100000"),
        ("NGIT_RELAY_MAX_NEG_ITEMS=9", "NGIT_RELAY_MAX_NEG_TOTAL_ITEMS=8"),
        ("NGIT_RELAY_PING_SECS=9", "NGIT_RELAY_IDLE_TIMEOUT_SECS=8"),
        ("NGIT_GIT_DATA_PATH=/srv/x/", "NGIT_RELAY_DATA_PATH=/srv/x"),
        ("NGIT_SYNC_DAILY_MIN_HOURS=9", "NGIT_SYNC_DAILY_MAX_HOURS=8"),
        ("NGIT_SYNC_BASE_BACKOFF_SECS=9", "NGIT_SYNC_MAX_BACKOFF_SECS=8"),
        ("NGIT_SYNC_COOLDOWN_SECS=9", "NGIT_SYNC_COOLDOWN_MAX_SECS=8"),
        ("NGIT_SYNC_MISSING_RETRY_MIN_SECS=9", "NGIT_SYNC_MISSING_RETRY_MAX_SECS=8"),
        ("NGIT_SYNC_IDS_PER_REQUEST_MAX=100", "NGIT_SYNC_REQUEST_BYTES_MAX=4096"),
    ] {
        let mut operator = Operator::new();
        for assignment in [small, large] {
            let (name, value) = assignment.split_once('=').unwrap();
            operator.env(name, value);
        }
        let name = large.split_once('=').unwrap().0;
        operator.complains(&[name, small.split_once('=').unwrap().0]);
    }
}

#[test]
fn an_address_that_cannot_be_a_name_asks_for_a_domain() {
    let mut operator = Operator::new();
    operator.env("NGIT_BIND_ADDRESS", "[fe80::1%2]:7334");
    operator.complains(&["NGIT_DOMAIN", "bind address"]);
    operator.env("NGIT_DOMAIN", "git.example/x");
    operator.complaints();
    operator.env("NGIT_DOMAIN", "git.example");
    operator.env("NGIT_BASE_PATH", "grasp/");
    assert_eq!(operator.config().service.address(), "git.example/grasp");
}

#[test]
fn old_names_and_strangers_are_ignored_with_a_note() {
    let mut operator = Operator::new();
    operator.env("NGIT_TEST", "1");
    operator.env("NGIT_HTTP_IO_TIMEOUT_MS", "5");
    operator.file(".env", "NGIT_SYNC_STARTUP_DELAY_SECS=3\nDATABASE_URL=x\nsomething else\n");
    let notes = operator.config().notes.join("\n");
    for name in ["NGIT_TEST", "NGIT_SYNC_STARTUP_DELAY_SECS", "NGIT_HTTP_IO_TIMEOUT_MS"] {
        assert!(notes.contains(name), "{notes}");
    }
    assert!(!notes.contains("DATABASE_URL"));
}

#[test]
fn a_part_not_built_accepts_its_default_and_nothing_else() {
    for (name, default, asked) in [
        ("NGIT_PRIVATE_MODE", "FALSE", "true"),
        ("NGIT_PRIVATE_MEMBERS", "", NPUB),
        ("NGIT_ARCHIVE_ALL", "no", "1"),
        ("NGIT_ARCHIVE_READ_ONLY", "false", "true"),
        ("NGIT_GRASP06_ENABLE", "0", "true"),
        ("NGIT_STARTUP_INTEGRITY_IDENTIFIERS", "", "acme"),
        ("NGIT_SYNC_RECURSIVE_DESCENDANT_LIMIT", "500", "60"),
        (
            "NGIT_SYNC_PLUS_FALLBACK_RELAYS",
            "wss://relay.ditto.pub/,wss://relay.damus.io,wss://nos.lol,wss://relay.primal.net",
            "wss://relay.example",
        ),
        ("NGIT_BLACKLIST_AUTO_RESTORE", "false", "true"),
    ] {
        let mut operator = Operator::new();
        operator.env(name, default);
        operator.config();
        operator.env(name, asked);
        operator.complains(&[name, "does not have"]);
    }
    for either in ["true", "false"] {
        let mut operator = Operator::new();
        operator.env("NGIT_SYNC_PLUS_ENABLED", either);
        operator.config();
    }
}

#[test]
fn the_defaults_of_every_setting_are_accepted_when_spelled_out() {
    let mut operator = Operator::new();
    for setting in SETTINGS.iter().filter(|setting| !setting.is_secret()) {
        operator.env(setting.name, setting.default.text());
    }
    operator.config();
}

#[test]
fn a_secret_is_never_printed_wherever_it_is_put() {
    for (place, text) in [
        ("env", NSEC.to_owned()),
        ("env", format!("{NSEC}00")),
        (".env", format!("NGIT_RELAY_OWNER_NSEC={NSEC}\n")),
        (".env", format!("NGIT_RELAY_OWNER_NSEC=\"{NSEC}\n")),
        (".env", format!("NGIT_RELAY_OWNER_NSEC {NSEC}\n")),
        (".env", format!("NGIT_RELAY_OWNER_NSEC:{NSEC}\n")),
        (".env", format!("NGIT_RELAY_OWNER_NSEK={NSEC}\n")),
        ("graspd.toml", format!("relay_owner_nsec = '{NSEC}'\n")),
        ("graspd.toml", format!("relay_owner_nsec = {NSEC}\n")),
        ("graspd.toml", format!("relay_owner_nsec = nsec1{NSEC}\n")),
        ("graspd.toml", format!("relay_owner_nsec: {NSEC}\n")),
        ("graspd.toml", format!("relay_owner_nsec = 'x{NSEC}\n")),
    ] {
        let mut operator = Operator::new();
        match place {
            "env" => operator.env("NGIT_RELAY_OWNER_NSEC", &text),
            file => operator.file(file, &text),
        }
        let raw = operator.raw();
        let built = Config::build(&raw);
        let shown =
            format!("{raw:?} {built:?} {}", graspd::config::print(&raw, built.as_ref().ok()));
        assert!(!shown.contains(&NSEC[..12]), "{place}: {shown}");
    }
}

#[test]
fn an_empty_owner_key_is_refused_rather_than_replaced() {
    let mut operator = Operator::new();
    operator.env("NGIT_RELAY_OWNER_NSEC", "");
    operator.complains(&["NGIT_RELAY_OWNER_NSEC", "is empty"]);
}

#[test]
fn print_tells_every_value_and_its_origin() {
    let mut operator = Operator::new();
    operator.file(".env", "\nNGIT_RELAY_NAME='my relay'\n");
    operator.env("NGIT_RELAY_OWNER_NSEC", NSEC);
    operator.args(&["--domain", "git.example"]);
    let raw = operator.raw();
    let shown = graspd::config::print(&raw, Config::build(&raw).ok().as_ref());
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("NGIT_DOMAIN=").starts_with("NGIT_DOMAIN=git.example "));
    assert!(line("NGIT_DOMAIN=").ends_with("# command line"));
    assert!(line("NGIT_RELAY_NAME").contains("\"my relay\""));
    assert!(line("NGIT_RELAY_NAME").ends_with(".env line 2"));
    assert!(line("# NGIT_RELAY_OWNER_NSEC is set and never printed").ends_with("(environment)"));
    assert!(line("# NGIT_GIT_BINARY=").contains("# default: `git` on `PATH`"));
    assert!(line("NGIT_DRAIN_SECS").ends_with("# default"));
    for setting in SETTINGS {
        let is_its = |line: &str| line.trim_start_matches("# ").starts_with(setting.name);
        assert!(shown.lines().any(is_its), "{}", setting.name);
    }
}

#[test]
fn what_config_print_says_is_the_same_configuration_again() {
    let mut first = Operator::new();
    first.file(
        "graspd.toml",
        "domain_aliases = ['old.example', 'older.example:8080']\nrelay_description = 'a # \"b\"'\n",
    );
    first.file(".env", "NGIT_HELD_SECS=30m\nNGIT_GIT_MAX_PACK_BYTES='1 GiB'\n");
    first.env("NGIT_RELAY_NAME", " $HOME \\ it's `mine` ");
    first.env("NGIT_SYNC_DOMAIN_OVERRIDES", "git.example:10,60;git.other:8080:2,10");
    first.args(&["--repository-blacklist", "acme", "--sync-auth=false"]);
    let untouched = Operator::new();
    for operator in [first, untouched] {
        let raw = operator.raw();
        let config = operator.config();
        let mut again = Operator::new();
        again.file(".env", &graspd::config::print(&raw, Some(&config)));
        assert_eq!(format!("{:#?}", again.config()), format!("{config:#?}"));
    }
    // The key is the one thing that is not told, and its absence is no mistake.
    let mut secret = Operator::new();
    secret.env("NGIT_RELAY_OWNER_NSEC", NSEC);
    let raw = secret.raw();
    let mut again = Operator::new();
    again.file(".env", &graspd::config::print(&raw, Some(&secret.config())));
    assert_eq!(again.config().owner_secret, None);
}

#[test]
fn sizes_and_times_may_have_units_wherever_they_are_written() {
    let mut operator = Operator::new();
    operator.file("graspd.toml", "relay_disk_budget_bytes = '10GB'\ngit_timeout_secs = 60\n");
    operator.file(".env", "NGIT_HELD_SECS=30m\nNGIT_SYNC_BATCH_WINDOW_MS=2s\n");
    operator.env("NGIT_SYNC_DEAD_AFTER_HOURS", "2d");
    operator.args(&["--git-max-pack-bytes", "1GiB", "--git-min-free-bytes=0"]);
    let config = operator.config();
    assert_eq!(config.store.disk_budget_bytes, 10_000_000_000);
    assert_eq!(config.git.timeout, Duration::from_secs(60));
    assert_eq!(config.store.held.awake, Duration::from_secs(30 * 60));
    assert_eq!(config.sync.engine.window, Duration::from_secs(2));
    assert_eq!(config.sync.engine.dead_after, Duration::from_secs(48 * 3_600));
    assert_eq!(config.git.pack_bytes_max, 1 << 30);
    let mut operator = Operator::new();
    operator.env("NGIT_HELD_SECS", "half an hour");
    operator.complains(&["NGIT_HELD_SECS", "is not a whole number", "a time such as `30m`"]);
    let mut operator = Operator::new();
    operator.env("NGIT_GIT_MAX_PACK_BYTES", "10G");
    operator.complains(&["NGIT_GIT_MAX_PACK_BYTES", "GiB", "a size such as `64MiB`"]);
}

#[test]
fn names_are_one_word_in_three_spellings() {
    for setting in SETTINGS {
        let short = setting.name.strip_prefix("NGIT_").unwrap();
        assert_eq!(setting.key, short.to_lowercase());
        assert_eq!(setting.flag, short.to_lowercase().replace('_', "-"));
    }
    let not_built = SETTINGS.iter().filter(|setting| setting.part != Part::Built).count();
    assert!(not_built > 0 && not_built < SETTINGS.len());
}

#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == graspd::config::markdown(),
        "docs/configuration.md is stale; run: cargo run -- config docs > docs/configuration.md"
    );
}

/// Someone with a working directory, an environment and a command line.
struct Operator {
    directory: tempfile::TempDir,
    env: Vec<(OsString, OsString)>,
    args: Vec<OsString>,
}

impl Operator {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, env: Vec::new(), args: Vec::new() }
    }

    fn file(&mut self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.into(), value.into()));
    }

    fn args(&mut self, args: &[&str]) {
        self.args = args.iter().map(OsString::from).collect();
    }

    fn raw(&self) -> RawConfig {
        let args = std::iter::once("graspd".into()).chain(self.args.clone());
        cli::parse(args, self.env.clone(), self.directory.path()).unwrap().1
    }

    fn config(&self) -> Config {
        Config::build(&self.raw()).unwrap_or_else(|complaints| panic!("{complaints:#?}"))
    }

    fn complaints(&self) -> Vec<Complaint> {
        Config::build(&self.raw()).expect_err("there should be complaints")
    }

    /// Exactly one complaint, which tells all of this.
    fn complains(&self, parts: &[&str]) {
        let complaints = self.complaints();
        let [complaint] = &complaints[..] else { panic!("{complaints:#?}") };
        let text = complaint.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in {text}");
    }
}
