//! Events with the words of NIP-34 in them, right and wrong ones.

use crate::Tape;
use grasp_core::event::{Event, Tag};
use grasp_core::id::{EventId, Oid, PubKey, Signature};
use grasp_core::{Kind, Timestamp};

pub(crate) const KINDS: &[u16] = &[
    0, 1, 3, 5, 6, 7, 16, 62, 1059, 1111, 1617, 1618, 1619, 1621, 1630, 10317, 20_001, 22242,
    30617, 30618, 31_000, 65_535,
];
const NAMES: &[&str] = &[
    "d",
    "a",
    "A",
    "e",
    "E",
    "q",
    "p",
    "P",
    "c",
    "t",
    "clone",
    "relays",
    "maintainers",
    "M",
    "m",
    "o",
    "HEAD",
    "expiration",
    "relay",
    "challenge",
    "-",
    "private",
    "name",
    "description",
];

/// Whatever it says, it is one: ids and signatures are not checked here.
pub fn event(tape: &mut Tape<'_>) -> Event {
    let rare_kind = tape.one_in(8);
    let mut event = Event {
        id: EventId::from_bytes(tape.key()),
        pubkey: PubKey::from_bytes(tape.key()),
        created_at: Timestamp(tape.number()),
        kind: Kind(if rare_kind { u16::from_be_bytes(tape.bytes()) } else { *tape.pick(KINDS) }),
        tags: (0..tape.below(12)).map(|_| tag(tape)).collect(),
        content: tape.text(),
        sig: Signature::from_bytes(tape.key()),
    };
    // By chance alone, hardly anybody would ever name an address of their own.
    if tape.one_in(6) {
        let own = format!("30617:{}:{}", event.pubkey, identifier(tape));
        event.tags.push(Tag(vec!["a".to_owned(), own]));
    }
    event
}

fn tag(tape: &mut Tape<'_>) -> Tag {
    if tape.one_in(16) {
        return Tag((0..tape.below(4)).map(|_| tape.text()).collect());
    }
    let name = match tape.below(8) {
        0 | 1 => ref_name(tape),
        2 => "d".to_owned(),
        3 => "HEAD".to_owned(),
        _ => (*tape.pick(NAMES)).to_owned(),
    };
    let count = [1, 1, 1, 2, 3, 0][tape.below(6)];
    let values: Vec<String> = (0..count).map(|_| value(tape, &name)).collect();
    Tag(std::iter::once(name).chain(values).collect())
}

/// Mostly what belongs behind this name, so that parsers get past the first word.
pub(crate) fn value(tape: &mut Tape<'_>, name: &str) -> String {
    if tape.one_in(6) {
        return odd_value(tape);
    }
    match name {
        "d" => identifier(tape),
        "e" | "E" | "q" => EventId::from_bytes(tape.key()).to_hex(),
        "p" | "P" | "M" | "m" | "o" | "maintainers" => PubKey::from_bytes(tape.key()).to_hex(),
        "a" | "A" => coordinate(tape),
        "c" => Oid::from_bytes(tape.key()).to_hex(),
        "HEAD" => format!("ref: {}", ref_name(tape)),
        "expiration" => tape.number().to_string(),
        "clone" | "relays" | "relay" => url(tape),
        "private" => "true".to_owned(),
        name if name.starts_with("refs/") => Oid::from_bytes(tape.key()).to_hex(),
        _ => tape.text(),
    }
}

fn odd_value(tape: &mut Tape<'_>) -> String {
    match tape.below(5) {
        0 => coordinate(tape),
        1 => ref_name(tape),
        2 => "0".repeat(40),
        3 => EventId::from_bytes(tape.key()).to_hex().to_uppercase(),
        _ => tape.text(),
    }
}

fn identifier(tape: &mut Tape<'_>) -> String {
    match tape.below(4) {
        0 => tape.text(),
        _ => (*tape.pick(&["acme", "a:b", "x y"])).to_owned(),
    }
}

fn coordinate(tape: &mut Tape<'_>) -> String {
    let kind = *tape.pick(&[30617, 30617, 30618, 10317, 1]);
    format!("{kind}:{}:{}", PubKey::from_bytes(tape.key()).to_hex(), identifier(tape))
}

fn ref_name(tape: &mut Tape<'_>) -> String {
    let root = *tape.pick(&["refs/heads/", "refs/heads/", "refs/tags/", "refs/nostr/", ""]);
    match tape.below(3) {
        0 => format!("{root}{}", tape.text()),
        _ => format!("{root}{}", tape.pick(&["main", "a", "a/b", "v1.0"])),
    }
}

fn url(tape: &mut Tape<'_>) -> String {
    let scheme = *tape.pick(&["wss://", "https://", "ws://", "http://", "ssh://", ""]);
    let hosts = ["git.example", "git.example:443", "127.0.0.1", "[::1]:7334", "x@git.example"];
    let host = *tape.pick(&hosts);
    let npub = PubKey::from_bytes(tape.key()).to_npub();
    match tape.below(4) {
        0 | 1 => format!("{scheme}{host}"),
        2 => format!("{scheme}{host}/{npub}/{}.git", identifier(tape)),
        _ => format!("{scheme}{}", tape.text()),
    }
}
