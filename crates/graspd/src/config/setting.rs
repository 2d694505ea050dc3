//! What a setting is: its names, its form, its default and which part of the server it belongs to.
//! It knows nothing of where values come from. The three spellings of a name are derived from one,
//! so a flag, a variable and a file key can never drift apart.

use std::fmt;

/// One row of the table in [`super::table`].
#[derive(Debug)]
pub struct Setting {
    /// `NGIT_RELAY_NAME`, in the environment and in `.env`.
    pub name: &'static str,
    /// `relay_name`, in the TOML file.
    pub key: &'static str,
    /// `relay-name`, on the command line.
    pub flag: &'static str,
    pub form: Form,
    pub default: Fallback,
    pub topic: Topic,
    pub part: Part,
    pub(super) documentation: &'static str,
}

impl Setting {
    pub fn documentation(&self) -> &'static str {
        self.documentation.trim()
    }

    /// A secret is never printed, and is taken from the environment only: flags show in process
    /// lists and files get copied.
    pub fn is_secret(&self) -> bool {
        matches!(self.form, Form::Secret)
    }

    pub fn has_flag(&self) -> bool {
        !self.is_secret()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    Is(&'static str),
    /// Empty, and worked out at the start as the words say.
    Unset(&'static str),
}

impl Fallback {
    pub fn text(self) -> &'static str {
        match self {
            Self::Is(text) => text,
            Self::Unset(_) => "",
        }
    }
}

/// Whether setting it has an effect today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Built,
    /// Only the default is accepted; anything else stops the start, naming this part.
    NotBuilt(&'static str),
    /// Accepted whatever it says, because operators have it set and the outcome is the same.
    Ignored(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Service,
    Storage,
    Policy,
    Messages,
    Negentropy,
    Git,
    Connections,
    Running,
    Removal,
    Sync,
    Links,
    Questions,
    Hunt,
    Modes,
}

impl Topic {
    pub const ALL: [Topic; 14] = [
        Self::Service,
        Self::Storage,
        Self::Policy,
        Self::Messages,
        Self::Negentropy,
        Self::Git,
        Self::Connections,
        Self::Running,
        Self::Removal,
        Self::Sync,
        Self::Links,
        Self::Questions,
        Self::Hunt,
        Self::Modes,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Storage => "Storage",
            Self::Policy => "What is accepted",
            Self::Messages => "Relay limits",
            Self::Negentropy => "Negentropy limits",
            Self::Git => "Git",
            Self::Connections => "Connections and budgets",
            Self::Running => "Running",
            Self::Removal => "Removal and retention",
            Self::Sync => "Sync with other servers",
            Self::Links => "Sync: links to other relays",
            Self::Questions => "Sync: what other relays are asked",
            Self::Hunt => "Sync: git data from other servers",
            Self::Modes => "Archive, contributor and private modes",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A boolean that needs no value on the command line.
    Switch,
    /// A boolean that needs one.
    Bool,
    Number {
        unit: Unit,
        min: u64,
        max: u64,
    },
    Text,
    LogFilter,
    Path,
    Socket,
    Authority,
    Authorities,
    BasePath,
    Networks,
    Keys,
    Repositories,
    Identifiers,
    RelayUrl,
    RelayUrls,
    /// `host:concurrent,per_minute;...`
    DomainLimits,
    Choice(&'static [&'static str]),
    /// A relay owner's secret key.
    Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    Millis,
    Secs,
    Hours,
    Percent,
}

impl Unit {
    /// "a whole number" of what.
    fn noun(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => " of bytes",
            Self::Millis => " of milliseconds",
            Self::Secs => " of seconds",
            Self::Hours => " of hours",
            Self::Percent => " of percent",
        }
    }
}

impl Form {
    /// How to put a value right, as the end of a complaint.
    pub(super) fn advice(self) -> String {
        let example = match self {
            Self::Number { unit: Unit::Bytes, .. } => ", or a size such as `64MiB`",
            Self::Number { unit: Unit::Millis, .. } => ", or a time such as `30s`",
            Self::Number { unit: Unit::Secs, .. } => ", or a time such as `30m`",
            Self::Number { unit: Unit::Hours, .. } => ", or a time such as `2d`",
            _ => "",
        };
        format!("use {self}{example}")
    }

    pub fn is_list(self) -> bool {
        use Form::{Authorities, Identifiers, Keys, Networks, RelayUrls, Repositories};
        matches!(self, Authorities | Networks | Keys | Repositories | Identifiers | RelayUrls)
    }
}

/// What a value must look like, as the end of "use ...".
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Switch | Self::Bool => "`true` or `false`",
            Self::Number { unit, min, max } => return number_range(f, *unit, *min, *max),
            Self::Text => "text without control characters",
            Self::LogFilter => {
                "`error`, `warn`, `info`, `debug`, `trace` or a filter such as `warn,graspd=debug`"
            }
            Self::Path => "a path",
            Self::Socket => "an IP address and port, such as `127.0.0.1:7334` or `[::1]:7334`",
            Self::Authority => "a host or host:port without scheme and path, such as `git.example`",
            Self::Authorities => "hosts separated by commas, such as `git.example,old.example`",
            Self::BasePath => "a path such as `/` or `/grasp`",
            Self::Networks => "networks separated by commas, such as `10.0.0.0/8,::1`",
            Self::Keys => "public keys (npub or hex) separated by commas",
            Self::Repositories => "`npub`, `npub/identifier` or `identifier`, separated by commas",
            Self::Identifiers => "repository identifiers separated by commas",
            Self::RelayUrl => "a relay URL such as `wss://relay.example`",
            Self::RelayUrls => "relay URLs separated by commas, such as `wss://relay.example`",
            Self::DomainLimits => {
                "`host:concurrent,per_minute` separated by semicolons, such as `git.example:10,60`"
            }
            Self::Secret => "an `nsec1...` key or 64 hex characters",
            Self::Choice(words) => return write!(f, "`{}`", words.join("` or `")),
        })
    }
}

fn number_range(f: &mut fmt::Formatter<'_>, unit: Unit, min: u64, max: u64) -> fmt::Result {
    write!(f, "a whole number{}", unit.noun())?;
    match max {
        u64::MAX => write!(f, ", {min} or more"),
        max => write!(f, " from {min} to {max}"),
    }
}

/// `NGIT_RELAY_NAME` in lower case, without its prefix and with another separator; `N` is its
/// length. Evaluated while compiling, hence the plain loop.
pub(super) const fn shortened<const N: usize>(name: &str, separator: u8) -> [u8; N] {
    let bytes = name.as_bytes();
    let mut out = [0; N];
    let mut at = 0;
    while at < N {
        let byte = bytes[at + bytes.len() - N];
        out[at] = if byte == b'_' { separator } else { byte.to_ascii_lowercase() };
        at += 1;
    }
    out
}

pub(super) const fn ascii(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}
