//! Text to typed value, by the form of the setting. One parser per form, used for what the operator
//! wrote and for the defaults alike, so that "differs from its default" compares meaning and not
//! spelling. Errors are the middle of a sentence and never repeat a secret.

use super::owner::OwnerSecret;
use super::quantity::parse_quantity;
use super::setting::{Form, Unit};
use grasp_core::policy::RepoPattern;
use grasp_core::service::Authority;
use grasp_core::{Domain, Identifier, PubKey, RelayUrl};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Empty where empty means "not set".
    Unset,
    Bool(bool),
    Number(u64),
    Text(String),
    Path(PathBuf),
    Socket(SocketAddr),
    Authorities(Vec<Authority>),
    Networks(Vec<IpNet>),
    Keys(Vec<PubKey>),
    Repositories(Vec<RepoPattern>),
    Identifiers(Vec<Identifier>),
    Relays(Vec<RelayUrl>),
    DomainLimits(Vec<DomainLimit>),
    Secret(OwnerSecret),
}

/// How many fetches at a time, how many requests in a minute.
pub(super) type DomainLimit = (Domain, (u32, u32));

/// What is wrong with the text.
type Wrong = String;

pub(super) fn parse(form: Form, text: &str) -> Result<Value, Wrong> {
    let text = text.trim();
    match form {
        Form::Switch | Form::Bool => boolean(text).map(Value::Bool),
        Form::Number { unit, min, max } => number(unit, text, min, max).map(Value::Number),
        Form::Text => plain(text).map(|text| Value::Text(text.to_owned())),
        Form::LogFilter => log_filter(text).map(Value::Text),
        Form::Path => path(text).map(Value::Path),
        Form::Socket => single(text).map(Value::Socket),
        Form::Authority => single(text).map(|one: Host| Value::Authorities(vec![one.0])),
        Form::Authorities => {
            list(text, |item| single(item).map(|one: Host| one.0)).map(Value::Authorities)
        }
        Form::BasePath => base_path(text).map(Value::Text),
        Form::Networks => list(text, network).map(Value::Networks),
        Form::Keys => list(text, key).map(Value::Keys),
        Form::Repositories => list(text, pattern).map(Value::Repositories),
        Form::Identifiers => list(text, single).map(Value::Identifiers),
        Form::RelayUrl => relay_url(text).map(|url| Value::Relays(vec![url])),
        Form::RelayUrls => list(text, relay_url).map(Value::Relays),
        Form::DomainLimits => domain_limits(text).map(Value::DomainLimits),
        Form::Choice(words) => choice(text, words).map(Value::Text),
        Form::Secret => text.parse().map(Value::Secret).map_err(|_| {
            let state = if text.is_empty() { "is empty" } else { "is not a secret key" };
            state.to_owned()
        }),
    }
}

/// `warn` for everything else when only a level is given: other crates' chatter helps nobody.
pub(super) fn log_directives(filter: &str) -> String {
    let level = filter.to_ascii_lowercase();
    if !LEVELS.contains(&level.as_str()) {
        return filter.to_owned();
    }
    let own = ["graspd", "grasp_core", "grasp_engine", "grasp_git", "grasp_relay", "grasp_store"];
    own.iter().fold("warn".to_owned(), |all, name| format!("{all},{name}={level}"))
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn log_filter(text: &str) -> Result<String, Wrong> {
    // A single misspelt level would pass as the name of a module that does not exist.
    let bare_word = !text.contains(['=', ',', ':']);
    let known = LEVELS.contains(&text.to_ascii_lowercase().as_str());
    let sound = if bare_word { known } else { EnvFilter::builder().parse(text).is_ok() };
    if sound { Ok(text.to_owned()) } else { Err(format!("`{text}` is no level and no filter")) }
}

fn boolean(text: &str) -> Result<bool, Wrong> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

fn number(unit: Unit, text: &str, min: u64, max: u64) -> Result<u64, Wrong> {
    match parse_quantity(unit, text)? {
        number if number < min => Err(format!("`{text}` is too small")),
        number if number > max => Err(format!("`{text}` is too large")),
        number => Ok(number),
    }
}

fn plain(text: &str) -> Result<&str, Wrong> {
    let hostile = text.contains(char::is_control);
    if hostile { Err("contains a control character".to_owned()) } else { Ok(text) }
}

fn path(text: &str) -> Result<PathBuf, Wrong> {
    match plain(text)? {
        "" => Err("is empty".to_owned()),
        text => Ok(PathBuf::from(text)),
    }
}

/// `""` or `/x/y`: no trailing slash, and nothing a client or proxy could spell differently.
fn base_path(text: &str) -> Result<String, Wrong> {
    let segments: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
    let sound = |part: &&str| {
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~.".contains(&byte);
        part.bytes().all(usual) && ![".", ".."].contains(part)
    };
    match segments.iter().find(|part| !sound(part)) {
        Some(part) => Err(format!("`{part}` may not be part of the path")),
        None => Ok(segments.iter().map(|part| format!("/{part}")).collect()),
    }
}

fn network(text: &str) -> Result<IpNet, Wrong> {
    let network = text.parse::<IpNet>().ok();
    let host = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network = network.or_else(host).ok_or_else(|| format!("`{text}` is not a network"))?;
    Ok(network.trunc())
}

fn key(text: &str) -> Result<PubKey, Wrong> {
    let key = PubKey::from_npub(text).or_else(|_| text.parse());
    key.map_err(|_| format!("`{text}` is not a public key"))
}

/// A mistyped npub or a hex key is refused: taken as an identifier it would match nothing.
fn pattern(text: &str) -> Result<RepoPattern, Wrong> {
    text.parse().map_err(|error: grasp_core::policy::BadPattern| error.to_string())
}

fn relay_url(text: &str) -> Result<RelayUrl, Wrong> {
    text.parse().map_err(|_| format!("`{text}` is not a relay URL"))
}

/// `git.example:10,60;git.other:8080:2,10`: after the last colon come the limits.
fn domain_limits(text: &str) -> Result<Vec<DomainLimit>, Wrong> {
    let items = text.split(';').map(str::trim).filter(|text| !text.is_empty());
    let limits = |item: &str| {
        let (domain, limits) = item.rsplit_once(':')?;
        let (concurrent, per_minute) = limits.split_once(',')?;
        let positive = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number > 0);
        Some((domain.parse().ok()?, (positive(concurrent)?, positive(per_minute)?)))
    };
    let read = |item: &str| limits(item).ok_or_else(|| format!("`{item}` is no host with limits"));
    items.map(read).collect()
}

fn choice(text: &str, words: &[&str]) -> Result<String, Wrong> {
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    word.map(|word| (*word).to_owned()).ok_or_else(|| format!("`{text}` is not one of the choices"))
}

/// Comma separated; empty entries are only spelling. All bad entries are named together.
fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
    let items = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for parsed in items.map(item) {
        match parsed {
            Ok(value) => good.push(value),
            Err(wrong) => bad.push(wrong),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad.join(", ")) }
}

fn single<T: FromStr>(text: &str) -> Result<T, Wrong>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| format!("`{text}`: {error}"))
}

/// `Authority` has a parser but not the trait.
struct Host(Authority);

impl FromStr for Host {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Authority::parse(text).map(Host).map_err(|_| "not a host or host:port")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_is_for_us_and_warnings_for_the_rest() {
        let ours = "warn,graspd=debug,grasp_core=debug,grasp_engine=debug,grasp_git=debug,\
                    grasp_relay=debug,grasp_store=debug";
        assert_eq!(log_directives("Debug"), ours);
        assert_eq!(log_directives("info,heed=trace"), "info,heed=trace");
        for good in ["info", "TRACE", "warn,graspd=debug", "graspd::http=trace"] {
            assert!(parse(Form::LogFilter, good).is_ok(), "{good}");
        }
        for bad in ["", "inof", "graspd=loud", "5x"] {
            assert!(parse(Form::LogFilter, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn base_paths_are_normalised() {
        for (text, path) in [("/", ""), ("", ""), ("x", "/x"), ("/x/", "/x"), ("//x//y", "/x/y")] {
            assert_eq!(parse(Form::BasePath, text), Ok(Value::Text(path.to_owned())));
        }
        for bad in ["/a b", "/../x", "/a%2fb", "/a?b", "https://x/y"] {
            assert!(parse(Form::BasePath, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks_may_be_single_addresses() {
        let Ok(Value::Networks(nets)) = parse(Form::Networks, "10.1.2.3/8, ::1,,") else {
            panic!()
        };
        let shown: Vec<String> = nets.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/8", "::1/128"]);
    }

    #[test]
    fn s35_hosts_may_have_limits_of_their_own() {
        let read = |text| match parse(Form::DomainLimits, text) {
            Ok(Value::DomainLimits(limits)) => limits
                .into_iter()
                .map(|(domain, (at_once, starts))| format!("{domain} {at_once} {starts}"))
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(""), Vec::<String>::new());
        let both = "Git.example:10,60; git.other:8080:2,10;";
        assert_eq!(read(both), ["git.example:443 10 60", "git.other:8080 2 10"]);
        assert_eq!(read("[::1]:80:1,1"), ["[::1]:80 1 1"]);
        for bad in ["git.example", "git.example:10", "git.example:0,5", "git.example:1,x", ":1,2"] {
            assert!(parse(Form::DomainLimits, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_bad_entry_of_a_list_is_named() {
        let wrong = parse(Form::Networks, "10.0.0.0/8,ten,10.0.0.0/99").unwrap_err();
        assert!(wrong.contains("`ten`") && wrong.contains("`10.0.0.0/99`"), "{wrong}");
    }

    #[test]
    fn a_mistyped_npub_is_not_taken_for_an_identifier() {
        let npub = PubKey::from_bytes([7; 32]).to_npub();
        let good = format!("{npub}, {npub}/a:b, acme");
        let Ok(Value::Repositories(found)) = parse(Form::Repositories, &good) else { panic!() };
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "), good);
        for bad in [&npub[..20], &format!("{npub}x"), "acme/x", &"ab".repeat(32)] {
            assert!(parse(Form::Repositories, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_digits_within_their_range() {
        let form = Form::Number { unit: Unit::Count, min: 1, max: 9 };
        assert_eq!(parse(form, " 9 "), Ok(Value::Number(9)));
        for bad in ["0", "10", "+5", "-5", "5.0", "", "5k", "99999999999999999999"] {
            assert!(parse(form, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn booleans_have_the_usual_spellings() {
        for (text, value) in [("TRUE", true), ("1", true), ("off", false), ("no", false)] {
            assert_eq!(parse(Form::Switch, text), Ok(Value::Bool(value)));
        }
        assert!(parse(Form::Switch, "").is_err());
    }
}
