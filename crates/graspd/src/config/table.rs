//! The table: every setting there is, once. Flags, variables, file keys, help, `config print`,
//! `docs/configuration.md` and the checks are all read from it; the sentence above a row is its
//! documentation. A row marked `Built` must be read by `Config::build`, which a test checks.

use super::setting::Fallback::{Is, Unset};
use super::setting::Part::{Built, Ignored, NotBuilt};
use super::setting::Topic::{
    Connections, Git, Hunt, Links, Messages, Modes, Negentropy, Policy, Questions, Removal,
    Running, Service, Storage, Sync,
};
use super::setting::{Form, Part, Setting, Unit, ascii, shortened};

const SYNC_PLUS: Part = NotBuilt("GRASP-03 sync");
const ARCHIVE: Part = NotBuilt("archive mode (GRASP-05)");
const PRIVATE: Part = NotBuilt("private mode (GRASP-08)");
const RESTORE: Part = NotBuilt("restoring repositories taken off the blacklist");
const RETENTION: Part = NotBuilt("retention of deletion requests");

const U32_MAX: u64 = u32::MAX as u64;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_SECS: u64 = 86_400;
/// Longer than any server runs, and small enough to be added up without care.
const LONG_SECS: u64 = 3_650 * DAY_SECS;

const fn number(unit: Unit, min: u64, max: u64) -> Form {
    Form::Number { unit, min, max }
}
const fn count(min: u64, max: u64) -> Form {
    number(Unit::Count, min, max)
}
const fn bytes(min: u64, max: u64) -> Form {
    number(Unit::Bytes, min, max)
}
const fn secs(min: u64, max: u64) -> Form {
    number(Unit::Secs, min, max)
}
const fn millis(min: u64, max: u64) -> Form {
    number(Unit::Millis, min, max)
}
const fn hours(min: u64) -> Form {
    number(Unit::Hours, min, LONG_SECS / 3_600)
}

macro_rules! settings {
    ($($(#[doc = $sentence:literal])+ $name:ident: $form:expr, $default:expr, $topic:expr, $part:expr;)+) => {
        $(
            $(#[doc = $sentence])+
            pub static $name: Setting = {
                const NAME: &str = stringify!($name);
                const LEN: usize = NAME.len() - "NGIT_".len();
                const KEY: [u8; LEN] = shortened(NAME, b'_');
                const FLAG: [u8; LEN] = shortened(NAME, b'-');
                Setting {
                    name: NAME,
                    key: ascii(&KEY),
                    flag: ascii(&FLAG),
                    form: $form,
                    default: $default,
                    topic: $topic,
                    part: $part,
                    documentation: concat!($($sentence),+),
                }
            };
        )+
        pub static SETTINGS: &[&Setting] = &[$(&$name),+];
    };
}

settings! {
    /// Public `host[:port]` of this server, without scheme and path; announcements must name it.
    NGIT_DOMAIN: Form::Authority, Unset("the bind address"), Service, Built;
    /// Other `host[:port]` names that also mean this server.
    NGIT_DOMAIN_ALIASES: Form::Authorities, Is(""), Service, Built;
    /// Public path everything is mounted under; a trailing slash makes no difference.
    NGIT_BASE_PATH: Form::BasePath, Is("/"), Service, Built;
    /// Address and port to listen on.
    NGIT_BIND_ADDRESS: Form::Socket, Is("127.0.0.1:7334"), Service, Built;
    /// Networks of proxies whose forwarding header (`NGIT_TRUSTED_PROXY_HEADER`) is believed. While it
    /// is empty, peers on loopback have no per-address budget.
    NGIT_TRUSTED_PROXY_CIDRS: Form::Networks, Is(""), Service, Built;
    /// The one header in which the trusted proxy names the client. The proxy must set it itself, so that
    /// no client can; other forwarding headers are ignored.
    NGIT_TRUSTED_PROXY_HEADER: Form::Choice(&["X-Forwarded-For", "Forwarded", "X-Real-IP"]), Is("X-Forwarded-For"), Service, Built;
    /// Secret key of the relay owner (`nsec` or hex); a systemd credential `relay_owner_nsec` goes
    /// before it. Only from the environment or `.env`, and never printed.
    NGIT_RELAY_OWNER_NSEC: Form::Secret, Unset("the key file in the relay data directory, created on the first run"), Service, Built;
    /// Name shown in the relay information document.
    NGIT_RELAY_NAME: Form::Text, Unset("`<domain> grasp relay`"), Service, Built;
    /// Description shown in the relay information document.
    NGIT_RELAY_DESCRIPTION: Form::Text, Is("Git Nostr Relay - a grasp implementation"), Service, Built;

    /// Directory of the git repositories.
    NGIT_GIT_DATA_PATH: Form::Path, Is("./data/git"), Storage, Built;
    /// Directory of the event store and of the owner's key file.
    NGIT_RELAY_DATA_PATH: Form::Path, Is("./data/relay"), Storage, Built;
    /// `lmdb` keeps events in the relay data directory, `memory` in a temporary one that is gone at
    /// the end.
    NGIT_DATABASE_BACKEND: Form::Choice(&["lmdb", "memory"]), Is("lmdb"), Storage, Built;
    /// Disk space for events; at 95 % of it new events are refused while deletions still work.
    NGIT_RELAY_DISK_BUDGET_BYTES: bytes(16 * MIB, 16_384 * GIB), Is("10737418240"), Storage, Built;
    /// Repositories the start-up checks look at; empty means all.
    NGIT_STARTUP_INTEGRITY_IDENTIFIERS: Form::Identifiers, Is(""), Storage, NotBuilt("the start-up integrity checks");

    /// If not empty, only announcements matching an entry (`npub`, `npub/identifier` or
    /// `identifier`) are accepted. A malformed entry stops the start.
    NGIT_REPOSITORY_WHITELIST: Form::Repositories, Is(""), Policy, Built;
    /// Announcements matching an entry are refused, and stored ones are no longer served. A
    /// malformed entry stops the start.
    NGIT_REPOSITORY_BLACKLIST: Form::Repositories, Is(""), Policy, Built;
    /// Authors none of whose events are accepted.
    NGIT_EVENT_BLACKLIST: Form::Keys, Is(""), Policy, Built;
    /// Who counts as a maintainer: `confirmed` needs both sides to say so, `listed` trusts the
    /// owner's list alone.
    NGIT_MAINTAINER_RULE: Form::Choice(&["confirmed", "listed"]), Is("confirmed"), Policy, Built;
    /// Store deletion and vanish requests but do not act on them.
    NGIT_DELETION_REQUEST_DISRESPECTOR: Form::Switch, Is("false"), Policy, Built;
    /// How far ahead of our clock an event may be dated.
    NGIT_RELAY_MAX_FUTURE_SECS: secs(0, 3_650 * DAY_SECS), Is("900"), Policy, Built;
    /// Events that wait for something and are not served yet, and beside them half as many announcements; at the limit newcomers are refused.
    NGIT_RELAY_MAX_HELD_EVENTS: count(1, u64::MAX), Is("50000"), Policy, Built;
    /// Their size in all.
    NGIT_RELAY_MAX_HELD_BYTES: bytes(MIB, u64::MAX), Is("67108864"), Policy, Built;
    /// How many of them one author may have.
    NGIT_RELAY_MAX_HELD_PER_KEY: count(1, u64::MAX), Is("250"), Policy, Built;
    /// How long an event waits for its git data; a push or a newer state starts the time anew.
    NGIT_HELD_SECS: secs(1, 365 * DAY_SECS), Is("1800"), Policy, Built;
    /// How much longer an announcement is remembered without git service; a state wakes it.
    NGIT_HELD_ANNOUNCEMENT_SECS: secs(0, 365 * DAY_SECS), Is("86400"), Policy, Built;
    /// Deletion requests kept aside because their author has nothing here yet.
    NGIT_RELAY_MAX_ASIDE_EVENTS: count(0, u64::MAX), Is("10000"), Policy, Built;
    /// Their size in all.
    NGIT_RELAY_MAX_ASIDE_BYTES: bytes(0, u64::MAX), Is("16777216"), Policy, Built;
    /// Deleted events and coordinates remembered for one author.
    NGIT_RELAY_MAX_AUTHOR_TOMBSTONES: count(1, u64::MAX), Is("10000"), Policy, Built;
    /// User GRASP lists (kind 10317) kept in all, since anybody may publish one.
    NGIT_RELAY_MAX_GRASP_LISTS: count(0, u64::MAX), Is("100000"), Policy, Built;

    /// Largest event, as JSON.
    NGIT_RELAY_MAX_EVENT_SIZE_BYTES: bytes(1, 5 * MIB), Is("262144"), Messages, Built;
    /// Tags of one event.
    NGIT_RELAY_MAX_EVENT_TAGS: count(1, 1_000_000), Is("5000"), Messages, Built;
    /// Largest WebSocket message and frame; nothing else bounds the values of a filter.
    NGIT_RELAY_MAX_MESSAGE_BYTES: bytes(1_024, 64 * MIB), Is("1048576"), Messages, Built;
    /// Open subscriptions of one connection.
    NGIT_RELAY_MAX_SUBSCRIPTIONS: count(1, 1_000_000), Is("500"), Messages, Built;
    /// Filters of one REQ or COUNT.
    NGIT_RELAY_MAX_FILTERS: count(1, 256), Is("20"), Messages, Built;
    /// Memory for the filters of one connection's open subscriptions.
    NGIT_RELAY_MAX_CONNECTION_FILTERS_BYTES: bytes(1_024, u64::MAX), Is("5242880"), Messages, Built;
    /// Memory for the filters of all connections of one address.
    NGIT_RELAY_MAX_IP_FILTERS_BYTES: bytes(1_024, u64::MAX), Is("16777216"), Messages, Built;
    /// Length of a subscription id.
    NGIT_RELAY_MAX_SUBID_CHARS: count(1, 256), Is("64"), Messages, Built;
    /// Events of one stored answer: the largest `limit`, and the one used when a filter has none.
    NGIT_RELAY_FILTER_LIMIT: count(1, 1_000_000), Is("5000"), Messages, Built;
    /// Time for one query; a query cut short ends with CLOSED, never with EOSE.
    NGIT_RELAY_QUERY_BUDGET_MS: number(Unit::Millis, 1, 600_000), Is("2000"), Messages, Built;
    /// Answers waiting for one slow reader; live events beyond it are skipped and the reader is told.
    NGIT_RELAY_MAX_OUTBOX_BYTES: bytes(64 * 1_024, GIB), Is("4194304"), Messages, Built;
    /// Keys one connection may authenticate as.
    NGIT_RELAY_MAX_AUTH_KEYS: count(1, 1_000), Is("16"), Messages, Built;
    /// How far from our clock an authentication may be dated.
    NGIT_RELAY_MAX_AUTH_SKEW_SECS: secs(1, DAY_SECS), Is("600"), Messages, Built;
    /// Threads that check signatures; 0 means one per core.
    NGIT_RELAY_VERIFY_THREADS: count(0, 1_024), Is("0"), Messages, Built;

    /// Reconciliations one connection may have open.
    NGIT_RELAY_MAX_NEG_SESSIONS: count(1, 10_000), Is("10"), Negentropy, Built;
    /// Events one reconciliation may cover.
    NGIT_RELAY_MAX_NEG_ITEMS: count(1, u64::MAX), Is("1000000"), Negentropy, Built;
    /// Events all open reconciliations may cover together.
    NGIT_RELAY_MAX_NEG_TOTAL_ITEMS: count(1, u64::MAX), Is("4000000"), Negentropy, Built;
    /// Largest reconciliation message we send.
    NGIT_RELAY_MAX_NEG_FRAME_BYTES: bytes(4_096, 16 * MIB), Is("60000"), Negentropy, Built;
    /// Messages one reconciliation may take.
    NGIT_RELAY_MAX_NEG_ROUNDS: count(1, 1_000_000), Is("64"), Negentropy, Built;

    /// The git program, as an absolute path; 2.39 or newer.
    NGIT_GIT_BINARY: Form::Path, Unset("`git` on `PATH`, resolved once at the start to an absolute path"), Git, Built;
    /// Largest pack of a push that a signed state allows.
    NGIT_GIT_MAX_PACK_BYTES: bytes(MIB, u64::MAX), Is("2147483648"), Git, Built;
    /// Largest pack, and largest object in it, of a push to `refs/nostr` alone, which anybody may make.
    NGIT_GIT_MAX_PROPOSAL_PACK_BYTES: bytes(64 * 1_024, u64::MAX), Is("33554432"), Git, Built;
    /// Largest object, unpacked.
    NGIT_GIT_MAX_OBJECT_BYTES: bytes(MIB, u64::MAX), Is("536870912"), Git, Built;
    /// Objects of one pack.
    NGIT_GIT_MAX_OBJECTS: count(1, U32_MAX), Is("5000000"), Git, Built;
    /// Ref updates of one push; how many refs a state can name is bounded by the tags of an event.
    NGIT_GIT_MAX_REFS: count(1, 1_000_000), Is("50000"), Git, Built;
    /// Largest fetch request, after decompression; packs are not counted here.
    NGIT_GIT_MAX_REQUEST_BYTES: bytes(64 * 1_024, GIB), Is("16777216"), Git, Built;
    /// Time for one clone, fetch or push. Besides, a client that moves less than 1 KiB/s over 30 s
    /// is dropped.
    NGIT_GIT_TIMEOUT_SECS: secs(1, DAY_SECS), Is("3600"), Git, Built;
    /// Clones and fetches served at a time.
    NGIT_GIT_MAX_UPLOADS: count(1, 100_000), Unset("two per core and two more"), Git, Built;
    /// Pushes received at a time.
    NGIT_GIT_MAX_PUSHES: count(1, 100_000), Unset("one per core and one more"), Git, Built;
    /// Clones and fetches of one address at a time.
    NGIT_GIT_MAX_UPLOADS_PER_IP: count(1, U32_MAX), Is("4"), Git, Built;
    /// Pushes of one address at a time.
    NGIT_GIT_MAX_PUSHES_PER_IP: count(1, U32_MAX), Is("4"), Git, Built;
    /// Requests of clones, fetches and pushes that one address may send per minute. NIP-11 publishes it
    /// as `git_limits.requests_per_minute`; further requests are answered with 429 and `Retry-After`.
    NGIT_GIT_REQUESTS_PER_MINUTE_PER_IP: count(1, U32_MAX), Is("3000"), Git, Built;
    /// How long a clone, fetch or push waits for its turn before it is told to come back later.
    NGIT_GIT_QUEUE_SECS: secs(0, 3_600), Is("30"), Git, Built;
    /// Uploads to `refs/nostr` whose event has not come: their bytes from one address.
    NGIT_GIT_MAX_UNCLAIMED_BYTES_PER_IP: bytes(0, u64::MAX), Is("268435456"), Git, Built;
    /// Their bytes for one repository.
    NGIT_GIT_MAX_UNCLAIMED_BYTES_PER_REPOSITORY: bytes(0, u64::MAX), Is("268435456"), Git, Built;
    /// Their bytes in all.
    NGIT_GIT_MAX_UNCLAIMED_BYTES_TOTAL: bytes(0, u64::MAX), Is("2147483648"), Git, Built;
    /// Their number for one repository.
    NGIT_GIT_MAX_UNCLAIMED_PER_REPOSITORY: count(0, u64::MAX), Is("100"), Git, Built;
    /// How many of them one address may bring per hour.
    NGIT_GIT_MAX_UNCLAIMED_PER_IP_PER_HOUR: count(0, U32_MAX), Is("20"), Git, Built;
    /// How long they are kept.
    NGIT_GIT_UNCLAIMED_SECS: secs(1, 365 * DAY_SECS), Is("1200"), Git, Built;
    /// Free disk space below which pushes with objects are refused; 0 never refuses.
    NGIT_GIT_MIN_FREE_BYTES: bytes(0, u64::MAX), Is("1073741824"), Git, Built;

    /// WebSocket connections in all.
    NGIT_MAX_CONNECTIONS: count(1, u64::MAX), Unset("as many as the file descriptors allow, less the reserve"), Connections, Built;
    /// File descriptors kept free of connections, for the store and for git.
    NGIT_DESCRIPTOR_RESERVE_PERCENT: number(Unit::Percent, 0, 90), Is("10"), Connections, Built;
    /// Connections of one address (IPv6: one /64).
    NGIT_MAX_CONNECTIONS_PER_IP: count(1, U32_MAX), Is("64"), Connections, Built;
    /// Addresses whose budgets are remembered at a time.
    NGIT_MAX_IPS: count(1_000, U32_MAX), Is("100000"), Connections, Built;
    /// Events one address may publish per minute.
    NGIT_RELAY_MAX_IP_EVENTS_PER_MINUTE: count(1, U32_MAX), Is("1200"), Connections, Built;
    /// Events one address may publish at once after a quiet time.
    NGIT_RELAY_MAX_IP_EVENTS_BURST: count(1, U32_MAX), Is("2400"), Connections, Built;
    /// Repository announcements one address may publish per hour.
    NGIT_RELAY_MAX_IP_ANNOUNCEMENTS_PER_HOUR: count(1, U32_MAX), Is("120"), Connections, Built;
    /// New repositories one address may announce per day.
    NGIT_RELAY_MAX_IP_REPOSITORIES_PER_DAY: count(1, U32_MAX), Is("100"), Connections, Built;
    /// Events one address may publish per hour that have to wait for git data.
    NGIT_RELAY_MAX_IP_HELD_PER_HOUR: count(1, U32_MAX), Is("200"), Connections, Built;
    /// Events with a wrong id or signature before a connection is closed.
    NGIT_RELAY_MAX_BAD_EVENTS: count(1, U32_MAX), Is("20"), Connections, Built;
    /// Size of a request's headers.
    NGIT_HTTP_MAX_HEADER_BYTES: bytes(8_192, MIB), Is("16384"), Connections, Built;
    /// Number of a request's headers.
    NGIT_HTTP_MAX_HEADERS: count(8, 1_024), Is("64"), Connections, Built;
    /// Time for a whole request head to arrive, counted from the opening of the connection or from its first byte; also the longest pause between an answer and the next request, except after a list of refs for a push, where it is 5 minutes.
    NGIT_HTTP_HEADER_TIMEOUT_SECS: secs(1, 3_600), Is("10"), Connections, Built;
    /// Requests one connection may make.
    NGIT_HTTP_MAX_REQUESTS_PER_CONNECTION: count(1, u64::MAX), Is("1000"), Connections, Built;
    /// Silence after which a WebSocket client is sent a ping.
    NGIT_RELAY_PING_SECS: secs(1, 3_600), Is("55"), Connections, Built;
    /// Silence after which a WebSocket connection is closed.
    NGIT_RELAY_IDLE_TIMEOUT_SECS: secs(2, DAY_SECS), Is("120"), Connections, Built;

    /// `error`, `warn`, `info`, `debug` or `trace` for the server itself, or a full tracing filter.
    NGIT_LOG_LEVEL: Form::LogFilter, Is("info"), Running, Built;
    /// Time sockets get to finish after SIGTERM.
    NGIT_DRAIN_SECS: secs(0, 3_600), Is("10"), Running, Built;
    /// Time running pushes get to finish after SIGTERM.
    NGIT_PUSH_DRAIN_SECS: secs(0, 3_600), Is("60"), Running, Built;
    /// Serve `/metrics`.
    NGIT_METRICS_ENABLED: Form::Switch, Is("true"), Running, Built;
    /// Connections of one address from which it is counted as suspicious; nothing is refused by it.
    NGIT_METRICS_CONNECTION_PER_IP_ABUSE_THRESHOLD: count(1, u64::MAX), Is("10"), Running, Built;
    /// Repositories in the list of the busiest, by bytes moved since the start.
    NGIT_METRICS_TOP_N_REPOS: count(0, 1_000), Is("10"), Running, Built;

    /// How long a removed repository can be restored.
    NGIT_HOLDING_RETENTION_SECS: secs(1, u64::MAX), Is("7776000"), Removal, Built;
    /// How often removed repositories are looked through for those whose time is over.
    NGIT_HOLDING_CLEANUP_INTERVAL_SECS: secs(1, u64::MAX), Is("86400"), Removal, Built;
    /// Restore a repository once it is off the blacklist.
    NGIT_BLACKLIST_AUTO_RESTORE: Form::Switch, Is("false"), Removal, RESTORE;
    /// How long a deletion request that deleted nothing is served.
    NGIT_DELETION_REQUEST_RETENTION_UNUSED_SERVED_SECS: secs(0, u64::MAX), Is("2592000"), Removal, RETENTION;
    /// How much longer it still keeps its targets out.
    NGIT_DELETION_REQUEST_RETENTION_UNUSED_UNSERVED_GATING_ADDITIONAL_SECS: secs(0, u64::MAX), Is("15552000"), Removal, RETENTION;
    /// How long a deletion request is served after it last deleted something.
    NGIT_DELETION_REQUEST_RETENTION_USED_SERVED_AFTER_LAST_USED_SECS: secs(0, u64::MAX), Is("23328000"), Removal, RETENTION;
    /// How much longer that one still keeps its targets out.
    NGIT_DELETION_REQUEST_RETENTION_USED_UNSERVED_GATING_ADDITIONAL_SECS: secs(0, u64::MAX), Is("7776000"), Removal, RETENTION;

    /// Follow the relays that announcements name and fetch what they have (GRASP-02). Without it
    /// this server only takes what is brought to it, and does not claim GRASP-02.
    NGIT_SYNC_ENABLED: Form::Switch, Is("true"), Sync, Built;
    /// A relay to follow besides those that announcements name; it may be at any address.
    NGIT_SYNC_BOOTSTRAP_RELAY_URL: Form::RelayUrl, Unset("none"), Sync, Built;
    /// Also talk to addresses that are not on the public internet. Strangers choose the addresses,
    /// so this is for tests and closed networks.
    NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS: Form::Switch, Is("false"), Sync, Built;
    /// Authenticate with this relay's own key to relays that ask for it.
    NGIT_SYNC_AUTH: Form::Switch, Is("true"), Sync, Built;
    /// Never reconcile (NIP-77), only ask for pages.
    NGIT_SYNC_DISABLE_NEGENTROPY: Form::Switch, Is("false"), Sync, Built;
    /// How long new repositories and threads are collected before they are asked for together.
    NGIT_SYNC_BATCH_WINDOW_MS: millis(0, 600_000), Is("5000"), Sync, Built;
    /// An absence shorter than this is caught up with instead of starting over; also how far back
    /// beyond it the catching up reaches.
    NGIT_SYNC_RESUME_WITHIN_SECS: secs(1, 7 * DAY_SECS), Is("900"), Sync, Built;
    /// Every relay is compared in full once in a while, at a random moment after this many hours
    /// at the earliest.
    NGIT_SYNC_DAILY_MIN_HOURS: hours(1), Is("23"), Sync, Built;
    /// And after this many at the latest.
    NGIT_SYNC_DAILY_MAX_HOURS: hours(1), Is("25"), Sync, Built;
    /// How often relays that nobody names any more are looked for, to leave them.
    NGIT_SYNC_DISCONNECT_CHECK_INTERVAL_SECS: secs(1, LONG_SECS), Is("60"), Sync, Built;
    /// How long a refused announcement or state is kept whole, in case what it lacked appears.
    NGIT_REJECTED_HOT_CACHE_DURATION_SECS: secs(0, LONG_SECS), Is("120"), Sync, Built;
    /// How long the ids of refused events are remembered.
    NGIT_REJECTED_COLD_INDEX_EXPIRY_SECS: secs(0, LONG_SECS), Is("604800"), Sync, Built;
    /// How old a verdict about another server may become; each is renewed before that.
    NGIT_SYNC_VERDICT_MAX_AGE_SECS: secs(5, LONG_SECS), Is("86400"), Sync, Built;

    /// Follow authors to the relays they use (GRASP-03).
    NGIT_SYNC_PLUS_ENABLED: Form::Bool, Is("true"), Sync, Ignored("GRASP-03 sync");
    /// Relays asked for the relay lists of authors.
    NGIT_USER_INDEX_RELAYS: Form::RelayUrls, Is("wss://purplepag.es,wss://index.hzrd149.com,wss://indexer.coracle.social"), Sync, SYNC_PLUS;
    /// Relays used for authors without a relay list.
    NGIT_SYNC_PLUS_FALLBACK_RELAYS: Form::RelayUrls, Is("wss://relay.ditto.pub,wss://relay.damus.io,wss://nos.lol,wss://relay.primal.net"), Sync, SYNC_PLUS;
    /// Events followed below one thread.
    NGIT_SYNC_RECURSIVE_DESCENDANT_LIMIT: count(1, u64::MAX), Is("500"), Sync, SYNC_PLUS;

    /// After an event of a user lacks git data, how long a push is waited for before its data is
    /// looked for elsewhere.
    NGIT_SYNC_HUNT_DELAY_SECS: secs(0, DAY_SECS), Is("180"), Hunt, Built;
    /// The same for an event that another relay brought.
    NGIT_SYNC_HUNT_SYNCED_DELAY_MS: millis(0, 600_000), Is("500"), Hunt, Built;
    /// The pause after a first attempt that did not find everything; it doubles each time.
    NGIT_SYNC_HUNT_RETRY_MIN_SECS: secs(1, DAY_SECS), Is("20"), Hunt, Built;
    /// The longest pause while some event is held.
    NGIT_SYNC_HUNT_RETRY_MAX_SECS: secs(1, DAY_SECS), Is("120"), Hunt, Built;
    /// The longest pause for events that gave up waiting, whose data is still wanted.
    NGIT_SYNC_WANTED_RETRY_MAX_SECS: secs(1, DAY_SECS), Is("3600"), Hunt, Built;
    /// How long the data of an event that gave up waiting is wanted.
    NGIT_SYNC_WANTED_KEPT_SECS: secs(0, LONG_SECS), Is("604800"), Hunt, Built;
    /// How many such events are kept.
    NGIT_SYNC_WANTED_EVENTS_MAX: count(0, 10_000_000), Is("10000"), Hunt, Built;
    /// And how many bytes of them.
    NGIT_SYNC_WANTED_BYTES_MAX: bytes(0, 64 * GIB), Is("67108864"), Hunt, Built;
    /// A second server is asked when the first takes longer than this.
    NGIT_SYNC_HEDGE_SECS: secs(1, DAY_SECS), Is("30"), Hunt, Built;
    /// Fetches from one host at a time.
    NGIT_SYNC_DOMAIN_CONCURRENT: count(1, 10_000), Is("5"), Hunt, Built;
    /// Requests to one host in any minute.
    NGIT_SYNC_DOMAIN_RATE_LIMIT: count(1, 1_000_000), Is("30"), Hunt, Built;
    /// The same for a host that says it is a GRASP server, until it objects. A number that it publishes
    /// (`git_limits.requests_per_minute`) is used instead, up to 3,000.
    NGIT_SYNC_GRASP_RATE_LIMIT: count(1, 1_000_000), Is("300"), Hunt, Built;
    /// Own limits for some hosts, as `host:concurrent,per_minute;...`; a host may have a port.
    NGIT_SYNC_DOMAIN_OVERRIDES: Form::DomainLimits, Is(""), Hunt, Built;
    /// Requests to one address in any minute, under however many names; more if a server there
    /// publishes more. Relay dials never use more than this.
    NGIT_SYNC_ADDRESS_RATE_LIMIT: count(1, 1_000_000), Is("300"), Hunt, Built;
    /// How long a host that asked for less gets no more than the common limits.
    NGIT_SYNC_DOMAIN_OBJECTED_SECS: secs(0, LONG_SECS), Is("3600"), Hunt, Built;
    /// How long a host is left alone that asks for it without saying how long.
    NGIT_SYNC_SLOW_DOWN_SECS: secs(1, DAY_SECS), Is("60"), Hunt, Built;
    /// However long it says.
    NGIT_SYNC_SLOW_DOWN_MAX_SECS: secs(1, 7 * DAY_SECS), Is("3600"), Hunt, Built;
    /// Fetches from all hosts at a time.
    NGIT_SYNC_FETCHES_MAX: count(1, 10_000), Is("20"), Hunt, Built;
    /// What one source may send for one repository in a day; a history that is larger goes on the next
    /// day. For pull requests the limit of pushes for them holds as well.
    NGIT_SYNC_FETCH_BYTES_MAX: bytes(MIB, 1_024 * GIB), Is("2147483648"), Hunt, Built;
    /// What one host may send us in a day; a sixteenth more for looks how it stands.
    NGIT_SYNC_DOMAIN_BYTES_PER_DAY_MAX: bytes(MIB, 16_384 * GIB), Is("53687091200"), Hunt, Built;
    /// What all of them may.
    NGIT_SYNC_BYTES_PER_DAY_MAX: bytes(MIB, 16_384 * GIB), Is("214748364800"), Hunt, Built;
    /// A fetch that brings less than NGIT_SYNC_FETCH_SILENCE_BYTES in this time is ended.
    NGIT_SYNC_FETCH_SILENCE_SECS: secs(1, DAY_SECS), Is("300"), Hunt, Built;
    /// See NGIT_SYNC_FETCH_SILENCE_SECS.
    NGIT_SYNC_FETCH_SILENCE_BYTES: bytes(1, GIB), Is("65536"), Hunt, Built;
    /// Clone addresses followed of one announcement or pull request; the rest are not.
    NGIT_SYNC_CLONE_URLS_MAX: count(1, 1_000), Is("20"), Hunt, Built;
    /// Places one family of repositories is looked for in.
    NGIT_SYNC_HUNT_SOURCES_MAX: count(1, 10_000), Is("40"), Hunt, Built;
    /// Families of repositories that are looked for at a time.
    NGIT_SYNC_HUNTS_MAX: count(1, 10_000_000), Is("100000"), Hunt, Built;
    /// Hosts whose limits are kept in mind.
    NGIT_SYNC_HUNT_DOMAINS_MAX: count(1, 10_000_000), Is("10000"), Hunt, Built;
    /// A repository that waits this long for its second try at a host counts like one that had
    /// none.
    NGIT_SYNC_HUNT_AGED_SECS: secs(1, LONG_SECS), Is("600"), Hunt, Built;
    /// How long it is kept in mind what a host did not have.
    NGIT_SYNC_HUNT_ABSENT_SECS: secs(0, DAY_SECS), Is("15"), Hunt, Built;
    /// How often served repositories are looked through for lost or damaged objects.
    NGIT_SYNC_REPAIR_SECS: secs(1, LONG_SECS), Is("3600"), Hunt, Built;

    /// Relays followed of one announcement; the rest are not.
    NGIT_SYNC_RELAYS_PER_ANNOUNCEMENT_MAX: count(1, 10_000), Is("20"), Links, Built;
    /// Relays followed in all.
    NGIT_SYNC_RELAYS_MAX: count(1, 10_000_000), Is("50000"), Links, Built;
    /// Links to other relays at a time; when more are wanted, they take turns.
    NGIT_SYNC_LINKS_MAX: count(1, 100_000), Is("500"), Links, Built;
    /// Links to one IP address, whatever the names that lead there.
    NGIT_SYNC_LINKS_PER_ADDRESS_MAX: count(1, 100_000), Is("32"), Links, Built;
    /// How long a link with nothing left to fetch stays while others wait for its place.
    NGIT_SYNC_LINK_TURN_SECS: secs(1, LONG_SECS), Is("600"), Links, Built;
    /// Of the links: for relays that only repositories without git data name.
    NGIT_SYNC_HELD_LINKS_PERCENT: number(Unit::Percent, 0, 100), Is("10"), Links, Built;
    /// Time between two attempts to reach one host for their sake.
    NGIT_SYNC_HELD_DIAL_GAP_SECS: secs(0, LONG_SECS), Is("600"), Links, Built;
    /// Relays being dialled at a time.
    NGIT_SYNC_DIALS_MAX: count(1, 1_000), Is("8"), Links, Built;
    /// Time between two dials.
    NGIT_SYNC_DIAL_GAP_MS: millis(0, 600_000), Is("250"), Links, Built;
    /// A dial that takes longer no longer keeps others from dialling.
    NGIT_SYNC_DIAL_PATIENCE_MS: millis(1, 600_000), Is("2000"), Links, Built;
    /// Time for a relay to say what it is and allows (NIP-11).
    NGIT_SYNC_PROBE_TIMEOUT_MS: millis(1, 600_000), Is("3000"), Links, Built;
    /// Size of that answer.
    NGIT_SYNC_PROBE_BYTES_MAX: bytes(1_024, 16 * MIB), Is("262144"), Links, Built;

    /// First pause before a relay is tried again; it doubles with every failure.
    NGIT_SYNC_BASE_BACKOFF_SECS: secs(1, LONG_SECS), Is("5"), Links, Built;
    /// Longest pause before a relay is tried again.
    NGIT_SYNC_MAX_BACKOFF_SECS: secs(1, LONG_SECS), Is("3600"), Links, Built;
    /// A relay that failed without a break for so long is dead.
    NGIT_SYNC_DEAD_AFTER_HOURS: hours(1), Is("24"), Links, Built;
    /// How often a dead relay is tried.
    NGIT_SYNC_DEAD_RETRY_HOURS: hours(1), Is("24"), Links, Built;
    /// A link that held for so long makes its relay healthy again.
    NGIT_SYNC_STABLE_SECS: secs(0, LONG_SECS), Is("300"), Links, Built;
    /// How long a relay is left in peace that says we ask too much; it doubles each time.
    NGIT_SYNC_COOLDOWN_SECS: secs(1, LONG_SECS), Is("65"), Links, Built;
    /// The longest such time.
    NGIT_SYNC_COOLDOWN_MAX_SECS: secs(1, LONG_SECS), Is("3600"), Links, Built;
    /// Unhindered for so long, and it starts small again.
    NGIT_SYNC_COOLDOWN_FORGET_SECS: secs(1, LONG_SECS), Is("300"), Links, Built;
    /// How long a relay is not asked again for what it refused for good.
    NGIT_SYNC_PAUSE_HOURS: hours(1), Is("24"), Links, Built;
    /// How long a relay is left alone that lies, or whose address can never be right.
    NGIT_NAUGHTY_LIST_EXPIRATION_HOURS: hours(1), Is("12"), Links, Built;

    /// Values of one filter in a request to another relay.
    NGIT_SYNC_FILTER_VALUES_MAX: count(1, 10_000), Is("100"), Questions, Built;
    /// Filters of one request.
    NGIT_SYNC_FILTERS_PER_REQUEST_MAX: count(1, 256), Is("10"), Questions, Built;
    /// Size of one request.
    NGIT_SYNC_REQUEST_BYTES_MAX: bytes(4_096, 16 * MIB), Is("98304"), Questions, Built;
    /// Events asked for by name in one request.
    NGIT_SYNC_IDS_PER_REQUEST_MAX: count(1, 100_000), Is("300"), Questions, Built;
    /// With more live filters than this on one link they are packed anew.
    NGIT_SYNC_REPACK_FILTERS: count(1, 1_000_000), Is("70"), Questions, Built;
    /// Subscriptions on a relay that does not say how many it allows.
    NGIT_SYNC_SUBSCRIPTIONS_DEFAULT: count(1, 1_000_000), Is("20"), Questions, Built;
    /// How often what does not fit into live subscriptions is asked for.
    NGIT_SYNC_ROTATION_SECS: secs(1, LONG_SECS), Is("300"), Questions, Built;
    /// How far each such question reaches back beyond the one before.
    NGIT_SYNC_ROTATION_OVERLAP_SECS: secs(0, LONG_SECS), Is("900"), Questions, Built;

    /// Questions about the past that may start on one relay per second.
    NGIT_SYNC_STARTS_PER_SECOND: count(1, 1_000_000), Is("1"), Questions, Built;
    /// How many may start at once after a quiet time.
    NGIT_SYNC_STARTS_BURST: count(1, 1_000_000), Is("30"), Questions, Built;
    /// The same per second for a relay that says it is a GRASP server, until it objects.
    NGIT_SYNC_GRASP_STARTS_PER_SECOND: count(1, 1_000_000), Is("20"), Questions, Built;
    /// Questions about the past open on one relay at a time.
    NGIT_SYNC_PAGES_AT_ONCE_MAX: count(1, 1_000), Is("5"), Questions, Built;
    /// Reconciliations open with one relay at a time.
    NGIT_SYNC_NEGENTROPY_AT_ONCE_MAX: count(1, 1_000), Is("4"), Questions, Built;
    /// Events one relay may make us look for at a time.
    NGIT_SYNC_NEEDED_IDS_MAX: count(1, 100_000_000), Is("200000"), Questions, Built;
    /// How often one relay is asked for an event it says it has.
    NGIT_SYNC_ID_ATTEMPTS_MAX: count(1, 1_000_000), Is("12"), Questions, Built;
    /// First pause before it is asked again.
    NGIT_SYNC_MISSING_RETRY_MIN_SECS: secs(1, LONG_SECS), Is("30"), Questions, Built;
    /// Longest pause before it is asked again.
    NGIT_SYNC_MISSING_RETRY_MAX_SECS: secs(1, LONG_SECS), Is("900"), Questions, Built;
    /// Relays whose past is asked for at a time; the others wait for their turn.
    NGIT_SYNC_TURNS_MAX: count(1, 100_000), Is("64"), Questions, Built;
    /// Time without progress after which a relay gives its turn to others.
    NGIT_SYNC_TURN_IDLE_MS: millis(1, 3_600_000), Is("2000"), Questions, Built;
    /// Events after which a relay gives its turn to others.
    NGIT_SYNC_TURN_EVENTS_MAX: count(1, U32_MAX), Is("50000"), Questions, Built;
    /// Bytes after which a relay gives its turn to others.
    NGIT_SYNC_TURN_BYTES_MAX: bytes(1, u64::MAX), Is("67108864"), Questions, Built;

    /// Silence after which a question to another relay is given up.
    NGIT_SYNC_SILENCE_SECS: secs(1, 3_600), Is("30"), Questions, Built;
    /// Events one question may bring.
    NGIT_SYNC_QUESTION_EVENTS_MAX: count(1, U32_MAX), Is("50000"), Questions, Built;
    /// Bytes one question may bring.
    NGIT_SYNC_QUESTION_BYTES_MAX: bytes(MIB, u64::MAX), Is("67108864"), Questions, Built;
    /// Events nobody asked for before a link is cut.
    NGIT_SYNC_STRAYS_MAX: count(1, U32_MAX), Is("20"), Questions, Built;
    /// Events with a wrong id or signature before a link is cut.
    NGIT_SYNC_FORGERIES_MAX: count(1, U32_MAX), Is("5"), Questions, Built;

    /// Mirror every repository.
    NGIT_ARCHIVE_ALL: Form::Switch, Is("false"), Modes, ARCHIVE;
    /// Mirror these repositories.
    NGIT_ARCHIVE_WHITELIST: Form::Repositories, Is(""), Modes, ARCHIVE;
    /// Mirror what lists these servers.
    NGIT_ARCHIVE_GRASP_SERVICES: Form::Authorities, Is(""), Modes, ARCHIVE;
    /// Take no announcements of our own.
    NGIT_ARCHIVE_READ_ONLY: Form::Switch, Is("false"), Modes, ARCHIVE;
    /// Let contributors push pull requests below `/prs`.
    NGIT_GRASP06_ENABLE: Form::Switch, Is("false"), Modes, NotBuilt("contributor pull requests (GRASP-06)");
    /// Serve members only.
    NGIT_PRIVATE_MODE: Form::Switch, Is("false"), Modes, PRIVATE;
    /// The members.
    NGIT_PRIVATE_MEMBERS: Form::Keys, Is(""), Modes, PRIVATE;
    /// Public `http(s)` origin that requests are signed for.
    NGIT_PRIVATE_PUBLIC_ORIGIN: Form::Text, Is(""), Modes, PRIVATE;
}

/// Names of older servers that mean nothing any more: ignored, and said so.
pub static DEAD_NAMES: &[&str] = &[
    "NGIT_AUTH_REQUIRED",
    "NGIT_OWNER_NPUB",
    "NGIT_RATE_LIMIT_ENABLED",
    "NGIT_SYNC_RECONNECT_DELAY_SECS",
    "NGIT_SYNC_RECONNECT_LOOKBACK_DAYS",
    "NGIT_SYNC_STARTUP_DELAY_SECS",
    "NGIT_SYNC_STARTUP_JITTER_MS",
    "NGIT_TEST",
];

pub fn by_name(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().copied().find(|setting| setting.name == name)
}

pub fn by_key(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().copied().find(|setting| setting.key == key)
}
