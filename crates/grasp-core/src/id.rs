//! Names for things. Each type has exactly one parser, so a value that exists is a value that is
//! safe to compare, to put in a path and to hand to git. Keys and ids are lower-case hex only.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Why a name was refused; the sentence is meant for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("expected {expected} lower-case hex characters")]
    Hex { expected: usize },
    #[error("not a valid {0} key")]
    Bech32(&'static str),
    #[error("identifier is empty")]
    EmptyIdentifier,
    #[error("identifier is longer than {} bytes", Identifier::LEN_MAX)]
    LongIdentifier,
    #[error(
        "identifier may not be `.` or `..` nor contain a slash, backslash or control character"
    )]
    UnservableIdentifier,
    #[error("coordinate must look like <kind>:<pubkey>:<identifier>")]
    Coordinate,
    #[error("object id must be 40 lower-case hex characters")]
    Oid,
    #[error("reference name is not one git accepts")]
    RefName,
}

/// Decodes exactly `N` bytes of lower-case hex.
pub fn hex_decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    fn nibble(c: u8) -> Option<u8> {
        match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        }
    }
    if text.len() != N * 2 {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(out)
}

pub fn hex_encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    hex_push(&mut out, bytes);
    out
}

/// Appends lower-case hex; the hot paths write into a buffer they already own.
pub fn hex_push(out: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(DIGITS.get(usize::from(nibble)).copied().unwrap_or('0'));
        }
    }
}

macro_rules! hex_bytes {
    ($(#[$doc:meta])* $name:ident, $len:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
            pub fn to_hex(self) -> String {
                hex_encode(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                hex_decode(text).map(Self).ok_or(BadName::Hex { expected: $len * 2 })
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex_encode(&self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&hex_encode(&self.0))
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "{} lower-case hex characters", $len * 2)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                from.deserialize_str(Text)
            }
        }
    };
}

hex_bytes!(
    /// The hash that names an event.
    EventId,
    32
);
hex_bytes!(
    /// An author: the x coordinate of a secp256k1 key.
    PubKey,
    32
);
hex_bytes!(
    /// A schnorr signature, not yet checked.
    Signature,
    64
);
hex_bytes!(
    /// A git object id (SHA-1). Only this type may reach git.
    Oid,
    20
);

impl PubKey {
    pub fn to_npub(self) -> String {
        encode_bech32("npub", &self.0)
    }

    /// Accepts only the canonical spelling: lower case, right checksum, nothing around it.
    pub fn from_npub(text: &str) -> Result<Self, BadName> {
        decode_bech32("npub", text).map(Self).ok_or(BadName::Bech32("npub"))
    }
}

pub fn encode_bech32(prefix: &str, bytes: &[u8; 32]) -> String {
    bech32::Hrp::parse(prefix)
        .ok()
        .and_then(|hrp| bech32::encode::<bech32::Bech32>(hrp, bytes).ok())
        .unwrap_or_default()
}

pub fn decode_bech32(prefix: &str, text: &str) -> Option<[u8; 32]> {
    let (hrp, bytes) = bech32::decode(text).ok()?;
    let bytes: [u8; 32] = bytes.try_into().ok()?;
    let canonical = hrp.as_str() == prefix && encode_bech32(prefix, &bytes) == text;
    canonical.then_some(bytes)
}

/// A `d` value that can be a repository: servable as one path segment and one file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(Box<str>);

impl Identifier {
    /// `<identifier>.git` must fit a 255-byte file name.
    pub const LEN_MAX: usize = 251;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it appears in a URL: everything but RFC 3986 unreserved bytes escaped.
    pub fn percent_encoded(&self) -> String {
        crate::service::percent_encoded(&self.0)
    }
}

impl FromStr for Identifier {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        if text.is_empty() {
            return Err(BadName::EmptyIdentifier);
        }
        if text.len() > Self::LEN_MAX {
            return Err(BadName::LongIdentifier);
        }
        let hostile = |c: char| c == '/' || c == '\\' || c.is_control();
        if text == "." || text == ".." || text.contains(hostile) {
            return Err(BadName::UnservableIdentifier);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A repository: owner and identifier, always both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId {
    pub owner: PubKey,
    pub identifier: Identifier,
}

impl RepoId {
    pub fn coordinate(&self) -> Coordinate {
        Coordinate {
            kind: crate::Kind::ANNOUNCEMENT,
            pubkey: self.owner,
            identifier: self.identifier.as_str().to_owned(),
        }
    }
}

/// For people: `npub1.../identifier`.
impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner.to_npub(), self.identifier)
    }
}

/// The address of a replaceable or addressable event: `<kind>:<pubkey>:<d>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinate {
    pub kind: crate::Kind,
    pub pubkey: PubKey,
    pub identifier: String,
}

impl Coordinate {
    /// Could any event ever be found there? A plainly replaceable kind has no identifier.
    pub fn is_address(&self) -> bool {
        self.kind.is_addressable() || (self.kind.is_replaceable() && self.identifier.is_empty())
    }

    /// The repository this addresses, if it is an announcement with a servable identifier.
    pub fn repo(&self) -> Option<RepoId> {
        if self.kind != crate::Kind::ANNOUNCEMENT {
            return None;
        }
        let identifier = self.identifier.parse().ok()?;
        Some(RepoId { owner: self.pubkey, identifier })
    }
}

impl FromStr for Coordinate {
    type Err = BadName;
    /// Splits at the first two colons only: the identifier may contain more of them.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let mut parts = text.splitn(3, ':');
        let (Some(kind), Some(pubkey), Some(identifier)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(BadName::Coordinate);
        };
        let plain = !kind.is_empty()
            && kind.bytes().all(|c| c.is_ascii_digit())
            && (kind == "0" || !kind.starts_with('0'));
        let kind = kind.parse().ok().filter(|_| plain).ok_or(BadName::Coordinate)?;
        let pubkey = pubkey.parse().map_err(|_| BadName::Coordinate)?;
        Ok(Self { kind: crate::Kind(kind), pubkey, identifier: identifier.to_owned() })
    }
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.kind, self.pubkey, self.identifier)
    }
}

/// A branch or tag name git would accept, below `refs/heads/` or `refs/tags/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(Box<str>);

impl RefName {
    const LEN_MAX: usize = 1024;
    const COMPONENT_LEN_MAX: usize = 255;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_branch(&self) -> bool {
        self.0.starts_with("refs/heads/")
    }
}

impl FromStr for RefName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let governed = ["refs/heads/", "refs/tags/"].iter().any(|root| text.starts_with(root));
        let hostile = |c: char| c.is_ascii_control() || " ~^:?*[\\\u{7f}".contains(c);
        let component_ok = |part: &str| {
            !part.is_empty()
                && part.len() <= Self::COMPONENT_LEN_MAX
                && !part.starts_with('.')
                && !part.ends_with(".lock")
        };
        let well_formed = text.len() <= Self::LEN_MAX
            && !text.contains(hostile)
            && !text.contains("..")
            && !text.contains("@{")
            && !text.ends_with('.')
            && text.split('/').all(component_ok);
        if governed && well_formed { Ok(Self(text.into())) } else { Err(BadName::RefName) }
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d";

    #[test]
    fn a_coordinate_keeps_every_colon_of_its_identifier() {
        let text = format!("30617:{KEY}:a:b::c");
        let coordinate: Coordinate = text.parse().unwrap();
        assert_eq!(coordinate.identifier, "a:b::c");
        assert_eq!(coordinate.to_string(), text);
        assert_eq!(coordinate.repo().unwrap().identifier.as_str(), "a:b::c");
    }

    #[test]
    fn coordinates_are_exact() {
        for bad in [
            format!("30617:{KEY}"),
            format!("030617:{KEY}:x"),
            format!("+30617:{KEY}:x"),
            format!("70000:{KEY}:x"),
            format!("30617:{}:x", KEY.to_uppercase()),
            format!(":{KEY}:x"),
        ] {
            assert!(bad.parse::<Coordinate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn npub_has_one_spelling() {
        let key: PubKey = KEY.parse().unwrap();
        let npub = key.to_npub();
        assert_eq!(npub, "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6");
        assert_eq!(PubKey::from_npub(&npub), Ok(key));
        assert!(PubKey::from_npub(&npub.to_uppercase()).is_err());
        assert!(PubKey::from_npub(&npub.replace("gkws", "gkwq")).is_err());
        assert!(PubKey::from_npub(KEY).is_err());
    }

    #[test]
    fn identifiers_that_could_leave_their_directory_do_not_exist() {
        for bad in ["", ".", "..", "a/b", "a\\b", "a\0b", "a\nb", "\u{7f}", &"x".repeat(252)] {
            assert!(bad.parse::<Identifier>().is_err(), "{bad:?}");
        }
        for good in ["a", "...", "-x", "a b", "Ünï:🦀", "a.git", &"x".repeat(251)] {
            assert_eq!(good.parse::<Identifier>().unwrap().as_str(), good);
        }
        let spaced: Identifier = "a b:ü".parse().unwrap();
        assert_eq!(spaced.percent_encoded(), "a%20b%3A%C3%BC");
    }

    #[test]
    fn ref_names_follow_git() {
        for good in
            ["refs/heads/main", "refs/heads/-x", "refs/heads/a@b", "refs/tags/v1.0", "refs/heads/@"]
        {
            assert!(good.parse::<RefName>().is_ok(), "{good}");
        }
        for bad in [
            "main",
            "HEAD",
            "refs/heads/",
            "refs/heads//x",
            "refs/heads/x/",
            "refs/heads/x.lock",
            "refs/heads/x.lock/y",
            "refs/heads/.x",
            "refs/heads/a..b",
            "refs/heads/a b",
            "refs/heads/a^{}",
            "refs/heads/@{u}",
            "refs/heads/x.",
            "refs/heads/a\u{7f}",
            "refs/nostr/123",
            "refs/foo/x",
            "refs/heads/a:b",
            "refs/heads/a*",
        ] {
            assert!(bad.parse::<RefName>().is_err(), "{bad}");
        }
    }
}
