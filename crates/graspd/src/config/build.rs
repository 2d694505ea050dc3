//! The program's own shape of its configuration, and the one function that makes it. Either every
//! value is sound and fits the others, or all complaints are returned together.

use super::complaint::{Complaint, Layer};
use super::git::GitLimits;
use super::hunt::HuntConfig;
use super::limits::{ConnectionLimits, HttpLimits, RelayLimits, StoreLimits};
use super::owner::OwnerSecret;
use super::raw::RawConfig;
use super::reader::Reader;
use super::setting::Setting;
use super::sync::SyncConfig;
use super::table::*;
use super::value::{Value, log_directives};
use grasp_core::PubKey;
use grasp_core::maintainers::MaintainerRule;
use grasp_core::policy::RepoPattern;
use grasp_core::service::{Authority, Service};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The one header in which a trusted proxy names the client. Others may come from the client itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardingHeader {
    ForwardedFor,
    /// RFC 7239.
    Forwarded,
    RealIp,
}

#[derive(Debug, Clone)]
pub struct Config {
    pub bind_address: SocketAddr,
    pub service: Service,
    pub relay_name: String,
    pub relay_description: String,
    /// From the setting alone; see [`super::configured_owner_key`].
    pub owner_secret: Option<OwnerSecret>,
    pub credentials_directory: Option<PathBuf>,
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they name the client.
    pub forwarding_header: ForwardingHeader,
    pub git_data_path: PathBuf,
    /// Not the default.
    pub git_data_path_is_set: bool,
    pub relay_data_path: PathBuf,
    pub backend: Backend,
    pub policy: PolicyConfig,
    pub relay: RelayLimits,
    pub connections: ConnectionLimits,
    pub http: HttpLimits,
    pub store: StoreLimits,
    pub git: GitLimits,
    pub holding: HoldingConfig,
    pub metrics: MetricsConfig,
    pub sync: SyncConfig,
    pub hunt: HuntConfig,
    /// Directives for a tracing filter.
    pub log_filter: String,
    pub drain: Duration,
    /// What running pushes get besides.
    pub push_drain: Duration,
    /// Sentences for the log: what was ignored, and what an operator should know.
    pub notes: Vec<String>,
    naming: Naming,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Lmdb,
    Memory,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Empty means everybody.
    pub repository_whitelist: Vec<RepoPattern>,
    pub repository_blacklist: Vec<RepoPattern>,
    pub event_blacklist: Vec<PubKey>,
    pub maintainer_rule: MaintainerRule,
    /// False: deletion requests are stored and served, but not obeyed.
    pub respect_deletions: bool,
    pub event_future_secs_max: u64,
    pub grasp_lists_max: u64,
}

/// Repositories that are no longer served but can still come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldingConfig {
    pub retention: Duration,
    pub cleanup_interval: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    pub enabled: bool,
    pub connections_per_ip_suspicious: usize,
    /// How many of the busiest repositories are named.
    pub busiest_repositories_max: usize,
}

impl Config {
    pub fn build(raw: &RawConfig) -> Result<Self, Vec<Complaint>> {
        let mut from = Reader::new(raw);
        let config = Self::read(&mut from, raw);
        match (config, from.finish()) {
            (Some(config), complaints) if complaints.is_empty() => Ok(config),
            (_, complaints) => Err(complaints),
        }
    }

    /// `None` only after a complaint.
    fn read(from: &mut Reader<'_>, raw: &RawConfig) -> Option<Self> {
        let (git_data_path, relay_data_path) = data_paths(from);
        let git_binary = git_binary(from);
        let policy = PolicyConfig::read(from);
        let relay = RelayLimits::read(from);
        let connections = ConnectionLimits::read(from);
        let http = HttpLimits::read(from);
        let store = StoreLimits::read(from);
        let git = GitLimits::read(from, git_binary);
        let holding = HoldingConfig::read(from);
        let metrics = MetricsConfig::read(from);
        let sync = SyncConfig::read(from);
        let hunt = HuntConfig::read(from);
        let (bind_address, naming, service) = Naming::read(from)?;
        let mut config = Self {
            bind_address,
            relay_name: naming.relay_name(&service),
            service,
            relay_description: from.text(&NGIT_RELAY_DESCRIPTION),
            owner_secret: secret(from),
            credentials_directory: raw.credentials_directory.clone(),
            trusted_proxies: networks(from, &NGIT_TRUSTED_PROXY_CIDRS),
            forwarding_header: match from.text(&NGIT_TRUSTED_PROXY_HEADER).as_str() {
                "Forwarded" => ForwardingHeader::Forwarded,
                "X-Real-IP" => ForwardingHeader::RealIp,
                _ => ForwardingHeader::ForwardedFor,
            },
            git_data_path,
            git_data_path_is_set: raw.get(&NGIT_GIT_DATA_PATH).layer != Layer::Default,
            relay_data_path,
            backend: backend(from),
            policy,
            relay,
            connections,
            http,
            store,
            git,
            holding,
            metrics,
            sync,
            hunt,
            log_filter: log_directives(&from.text(&NGIT_LOG_LEVEL)),
            drain: from.duration(&NGIT_DRAIN_SECS),
            push_drain: from.duration(&NGIT_PUSH_DRAIN_SECS),
            notes: raw.notes.clone(),
            naming,
        };
        config.note_what_to_know();
        Some(config)
    }

    /// The address the listener really got, which differs from the configured one for port 0.
    /// Without a configured domain it is also our public name.
    pub fn bound_to(&mut self, address: SocketAddr) {
        self.bind_address = address;
        if let Some(service) = self.naming.service(address) {
            self.relay_name = self.naming.relay_name(&service);
            self.service = service;
        }
    }

    fn note_what_to_know(&mut self) {
        if self.trusted_proxies.is_empty() {
            self.notes.push(
                "connections from this machine have no per-address budget; behind a proxy on this \
                 machine, set NGIT_TRUSTED_PROXY_CIDRS"
                    .to_owned(),
            );
        }
        if self.naming.domain.is_none() && !self.bind_address.ip().is_loopback() {
            self.notes.push(format!(
                "NGIT_DOMAIN is not set, so only announcements that name {} are accepted",
                self.service.address()
            ));
        }
        if self.backend == Backend::Memory {
            self.notes.push("events are kept in a temporary directory and lost at the end; git data too, unless \
                 NGIT_GIT_DATA_PATH is set".into());
        }
        if let Some(own) =
            self.sync.bootstrap.as_ref().filter(|it| self.service.names_relay(it.as_str()))
        {
            self.notes.push(format!(
                "NGIT_SYNC_BOOTSTRAP_RELAY_URL is this very server ({own}) and leads nowhere"
            ));
        }
        if self.sync.enabled && self.sync.allow_non_global {
            self.notes.push(
                "NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS is set: whoever publishes an announcement can \
                 make this server connect to addresses in its own network"
                    .to_owned(),
            );
        }
    }
}

/// What our public name is made of, kept because the port may only be known once we listen.
#[derive(Debug, Clone)]
struct Naming {
    domain: Option<Authority>,
    aliases: Vec<Authority>,
    base_path: String,
    relay_name: Option<String>,
}

impl Naming {
    fn read(from: &mut Reader<'_>) -> Option<(SocketAddr, Self, Service)> {
        let naming = Self {
            domain: authorities(from, &NGIT_DOMAIN).pop(),
            aliases: authorities(from, &NGIT_DOMAIN_ALIASES),
            base_path: from.text(&NGIT_BASE_PATH),
            relay_name: from.text_if_set(&NGIT_RELAY_NAME),
        };
        let bound = socket(from)?;
        let service = naming.service(bound);
        if service.is_none() {
            let problem = "cannot be made from the bind address".to_owned();
            from.complain(&NGIT_DOMAIN, problem, format!("use {}", NGIT_DOMAIN.form));
        }
        Some((bound, naming, service?))
    }

    fn service(&self, bound: SocketAddr) -> Option<Service> {
        let authority = self.domain.clone().or_else(|| authority_of(bound))?;
        Some(Service::new(authority, self.aliases.clone(), &self.base_path))
    }

    fn relay_name(&self, service: &Service) -> String {
        let default = || format!("{} grasp relay", service.authority());
        self.relay_name.clone().unwrap_or_else(default)
    }
}

fn backend(from: &mut Reader<'_>) -> Backend {
    match from.text(&NGIT_DATABASE_BACKEND).as_str() {
        "memory" => Backend::Memory,
        _ => Backend::Lmdb,
    }
}

/// The git and the relay data directory: each has its own marker, so they cannot be one.
fn data_paths(from: &mut Reader<'_>) -> (PathBuf, PathBuf) {
    let git = path(from, &NGIT_GIT_DATA_PATH);
    let relay = path(from, &NGIT_RELAY_DATA_PATH);
    if git.components().eq(relay.components()) && !git.as_os_str().is_empty() {
        let problem = "is the relay data directory too".to_owned();
        let fix = format!("give each its own directory (see {})", NGIT_RELAY_DATA_PATH.name);
        from.complain(&NGIT_GIT_DATA_PATH, problem, fix);
    }
    (git, relay)
}

/// Looking it up again for every child would let whoever changes `PATH` or the working directory
/// choose what we run.
fn git_binary(from: &mut Reader<'_>) -> Option<PathBuf> {
    let binary = Some(path(from, &NGIT_GIT_BINARY)).filter(|path| !path.as_os_str().is_empty())?;
    if !binary.is_absolute() {
        let problem = format!("`{}` is not an absolute path", binary.display());
        from.complain(&NGIT_GIT_BINARY, problem, "use one such as `/usr/bin/git`".to_owned());
    }
    Some(binary)
}

impl HoldingConfig {
    fn read(from: &mut Reader<'_>) -> Self {
        Self {
            retention: from.duration(&NGIT_HOLDING_RETENTION_SECS),
            cleanup_interval: from.duration(&NGIT_HOLDING_CLEANUP_INTERVAL_SECS),
        }
    }
}

impl MetricsConfig {
    fn read(from: &mut Reader<'_>) -> Self {
        let threshold = &NGIT_METRICS_CONNECTION_PER_IP_ABUSE_THRESHOLD;
        Self {
            enabled: from.flag(&NGIT_METRICS_ENABLED),
            connections_per_ip_suspicious: from.count(threshold),
            busiest_repositories_max: from.count(&NGIT_METRICS_TOP_N_REPOS),
        }
    }
}

impl PolicyConfig {
    fn read(from: &mut Reader<'_>) -> Self {
        Self {
            repository_whitelist: patterns(from, &NGIT_REPOSITORY_WHITELIST),
            repository_blacklist: patterns(from, &NGIT_REPOSITORY_BLACKLIST),
            event_blacklist: keys(from, &NGIT_EVENT_BLACKLIST),
            maintainer_rule: match from.text(&NGIT_MAINTAINER_RULE).as_str() {
                "listed" => MaintainerRule::Listed,
                _ => MaintainerRule::Confirmed,
            },
            respect_deletions: !from.flag(&NGIT_DELETION_REQUEST_DISRESPECTOR),
            event_future_secs_max: from.number(&NGIT_RELAY_MAX_FUTURE_SECS),
            grasp_lists_max: from.number(&NGIT_RELAY_MAX_GRASP_LISTS),
        }
    }
}

/// Nobody can dial "all addresses", so a wildcard is named by the loopback address it includes.
fn authority_of(mut bound: SocketAddr) -> Option<Authority> {
    match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => bound.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => bound.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Authority::parse(&bound.to_string()).ok()
}

/// A reader for one form of value. The empty one stands in after a complaint and is never used.
macro_rules! readers {
    ($($name:ident: $variant:ident -> $type:ty;)+) => {
        $(fn $name(from: &mut Reader<'_>, setting: &'static Setting) -> $type {
            let pick = |value: &Value| match value {
                Value::$variant(found) => Some(found.clone()),
                _ => None,
            };
            from.given(setting, pick).unwrap_or_default()
        })+
    };
}

readers! {
    authorities: Authorities -> Vec<Authority>;
    networks: Networks -> Vec<IpNet>;
    patterns: Repositories -> Vec<RepoPattern>;
    keys: Keys -> Vec<PubKey>;
    path: Path -> PathBuf;
}

fn socket(from: &mut Reader<'_>) -> Option<SocketAddr> {
    from.given(&NGIT_BIND_ADDRESS, |value| match value {
        Value::Socket(address) => Some(*address),
        _ => None,
    })
}

fn secret(from: &mut Reader<'_>) -> Option<OwnerSecret> {
    from.given(&NGIT_RELAY_OWNER_NSEC, |value| match value {
        Value::Secret(secret) => Some(secret.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_setting_is_read() {
        let raw = RawConfig::default();
        let mut from = Reader::new(&raw);
        assert!(Config::read(&mut from, &raw).is_some());
        assert_eq!(from.unread().collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn without_a_domain_the_address_we_listen_on_is_our_name() {
        let mut config = Config::build(&RawConfig::default()).unwrap();
        assert_eq!(config.service.address(), "127.0.0.1:7334");
        config.bound_to("127.0.0.1:4000".parse().unwrap());
        assert!(config.service.names_relay("ws://127.0.0.1:4000"));
        assert_eq!(config.relay_name, "127.0.0.1:4000 grasp relay");
        config.bound_to("[::]:4000".parse().unwrap());
        assert_eq!(config.service.address(), "[::1]:4000");
    }
}
