//! A million command lists, well-formed, odd and broken, against a naive second opinion: whatever a
//! push may change, somebody signed for exactly that.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use grasp_core::event::Rank;
use grasp_core::nip34::State;
use grasp_core::push::{Candidate, Decision, Grant, Proposal, Scene, Target, authorise};
use grasp_core::{EventId, Oid, PubKey, RefName, Timestamp};
use grasp_git::{BadPush, HeadLimits, HeadReader, PushHead, Step};
use grasp_testkit::Random;
use std::collections::BTreeMap;

const LISTS: u64 = 1_000_000;

const NAMES: [&str; 12] = [
    "refs/heads/main",
    "refs/heads/a",
    "refs/heads/a/b",
    "refs/tags/v1",
    "refs/nostr/0101010101010101010101010101010101010101010101010101010101010101",
    "refs/nostr/0202020202020202020202020202020202020202020202020202020202020202",
    "refs/nostr/123",
    "refs/internal/x",
    "HEAD",
    "refs/heads/..",
    "refs/heads/next",
    "refs/tags/v2",
];

const CAPABILITIES: [&str; 6] = [
    "\0 report-status side-band-64k",
    "\0report-status-v2 side-band-64k atomic agent=git/2.47",
    "\0atomic",
    "\0",
    "",
    "\0push-options",
];

#[test]
fn a_million_mutated_lists_change_only_what_somebody_signed_for() {
    let mut random = Random::seeded(7);
    let (mut allowed, mut refused, mut unread) = (0_u64, 0_u64, 0_u64);
    for _ in 0..LISTS {
        let bytes = list(&mut random);
        let whole = read(&bytes, bytes.len());
        let cut = random.index(bytes.len() + 1);
        assert_eq!(read(&bytes, cut), whole, "cut at {cut}: {bytes:?}");
        match whole {
            Err(_) => unread += 1,
            Ok((head, _)) => {
                let scene = scene(&mut random, &head);
                match authorise(&head.commands, &scene) {
                    Decision::Allow(grant) => {
                        check(&bytes, &head, &scene, &grant);
                        allowed += 1;
                    }
                    Decision::Unchanged => check_unchanged(&head, &scene),
                    Decision::Deny(_) => refused += 1,
                }
            }
        }
    }
    assert!(
        allowed > LISTS / 100 && refused > LISTS / 10 && unread > LISTS / 10,
        "the generator tells few stories: {allowed} allowed, {refused} refused, {unread} unread"
    );
}

/// A list as clients send it, and often not quite.
fn list(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for at in 0..random.below(4) {
        let name = *random.pick(&NAMES);
        let mut line = format!("{} {} {name}", hex(random), hex(random));
        if at == 0 {
            line.push_str(CAPABILITIES[random.index(CAPABILITIES.len())]);
        }
        if random.below(2) == 0 {
            line.push('\n');
        }
        if random.below(40) == 0 {
            line = (*random.pick(&["shallow 11", "push-cert\0x", "", "\0\0", "0 0 refs/heads/a"]))
                .to_owned();
        }
        out.extend(format!("{:04x}{line}", line.len() + 4).bytes());
    }
    out.extend_from_slice(match random.below(8) {
        0 => b"0001",
        1 => b"",
        2 => b"0000PACK",
        _ => b"0000",
    });
    // Some arrive damaged.
    if random.one_in(4) && !out.is_empty() {
        for _ in 0..=random.below(3) {
            let at = random.index(out.len());
            match random.below(3) {
                0 => out[at] ^= 1 << random.below(8),
                1 => out.insert(at, b"\0 0af\n"[random.index(6)]),
                _ => drop(out.remove(at)),
            }
            if out.is_empty() {
                break;
            }
        }
    }
    out
}

fn hex(random: &mut Random) -> String {
    ["00", "11", "22", "33"][random.index(4)].repeat(20)
}

/// What the reader makes of it, fed in two pieces: the list and where the pack begins.
fn read(bytes: &[u8], cut: usize) -> Result<(PushHead, usize), BadPush> {
    let mut reader = HeadReader::new(HeadLimits::default());
    let (first, second) = bytes.split_at(cut);
    let mut fed = 0;
    for piece in [first, second] {
        fed += piece.len();
        match reader.feed(piece)? {
            Step::More => {}
            Step::Done { head, rest } => return Ok((head, fed - rest)),
        }
    }
    Err(BadPush::Truncated)
}

fn oid(n: u8) -> Oid {
    Oid::from_bytes([n; 20])
}

fn refs(random: &mut Random) -> BTreeMap<RefName, Oid> {
    let mut refs = BTreeMap::new();
    for _ in 0..random.below(3) {
        let name = NAMES[random.index(4)].parse().unwrap();
        refs.insert(name, oid([0x11, 0x22, 0x33][random.index(3)]));
    }
    refs
}

fn set(refs: &mut BTreeMap<RefName, Oid>, name: &RefName, to: Option<Oid>) {
    match to {
        Some(oid) => refs.insert(name.clone(), oid),
        None => refs.remove(name),
    };
}

fn candidate(random: &mut Random) -> Candidate {
    let id = EventId::from_bytes([u8::try_from(random.below(250)).unwrap(); 32]);
    let state = State {
        author: PubKey::from_bytes([5; 32]),
        identifier: "acme".parse().unwrap(),
        refs: refs(random),
        head: None,
        satisfiable: random.below(10) > 0,
    };
    Candidate { id, rank: Rank { created_at: Timestamp(random.below(3)), id }, state }
}

/// Half of the time the repository is what the client believes, and half of the time somebody has
/// signed what it asks for.
fn scene(random: &mut Random, head: &PushHead) -> Scene {
    let mut now = refs(random);
    for command in &head.commands {
        let Some(Target::Governed(name)) = &command.target else { continue };
        if random.one_in(2) {
            set(&mut now, name, command.old);
        }
    }
    let mut held: Vec<Candidate> = (0..random.below(3)).map(|_| candidate(random)).collect();
    if random.one_in(2) {
        let mut wanted = candidate(random);
        wanted.state.refs = now.clone();
        for command in &head.commands {
            if let Some(Target::Governed(name)) = &command.target {
                set(&mut wanted.state.refs, name, command.new);
            }
        }
        held.push(wanted);
    }
    let (mut known, mut proposals) = (BTreeMap::new(), BTreeMap::new());
    for n in [1, 2] {
        if random.one_in(4) {
            proposals.insert(EventId::from_bytes([n; 32]), oid([0x11, 0x22][random.index(2)]));
        }
        let is = match random.below(5) {
            0 => Proposal::Here(Some(oid(0x11))),
            1 => Proposal::Here(None),
            2 => Proposal::Elsewhere,
            3 => Proposal::NoPullRequest,
            _ => continue,
        };
        known.insert(EventId::from_bytes([n; 32]), is);
    }
    Scene {
        refs: now,
        proposals,
        held,
        governing: (random.below(2) == 0).then(|| candidate(random)),
        known,
        lost: (0..random.below(2)).map(|_| candidate(random)).collect(),
        present: [0x11, 0x22, 0x33].into_iter().filter(|_| random.one_in(4)).map(oid).collect(),
    }
}

/// The second opinion, from the bytes alone: `old new name` of every line, read without any care.
fn naive(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, String)> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = usize::from_str_radix(std::str::from_utf8(size).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        let (line, after) = after.split_at(size - 4);
        let line = line.split(|byte| *byte == 0).next().unwrap();
        let text = std::str::from_utf8(line).unwrap().trim_end_matches('\n');
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().unwrap().to_owned();
        lines.push((word().into_bytes(), word().into_bytes(), word()));
        rest = after;
    }
    lines
}

fn check(bytes: &[u8], head: &PushHead, scene: &Scene, grant: &Grant) {
    let lines = naive(bytes);
    assert_eq!(lines.len(), head.commands.len());
    let zero = "00".repeat(20).into_bytes();
    let mut after: BTreeMap<String, String> =
        scene.refs.iter().map(|(name, oid)| (name.to_string(), oid.to_hex())).collect();
    for (old, new, name) in &lines {
        let new = String::from_utf8(new.clone()).unwrap();
        if let Some(id) = name.strip_prefix("refs/nostr/") {
            let id: EventId = id.parse().unwrap();
            let current = scene.proposals.get(&id).map(|oid| oid.to_hex());
            if new.as_bytes() == zero {
                assert_eq!(current, None, "nobody deletes one by a push");
                continue;
            }
            if current.as_ref() == Some(&new) {
                continue; // Already so.
            }
            let tip = grant.claimed.get(&id).or_else(|| grant.unclaimed.get(&id));
            match scene.known.get(&id) {
                None => assert!(!grant.claimed.contains_key(&id)),
                Some(it) => {
                    assert_eq!(*it, Proposal::Here(tip.copied()), "only the event's own commit");
                    assert!(!grant.unclaimed.contains_key(&id));
                }
            }
            assert!(tip.is_some_and(|tip| tip.to_hex() == new));
        } else if old == new.as_bytes() {
            // Asks for no change.
        } else if new.as_bytes() == zero {
            after.remove(name);
        } else {
            after.insert(name.clone(), new);
        }
    }
    let before = scene.refs.iter().map(|(name, oid)| (name.to_string(), oid.to_hex()));
    let Some(state) = grant.state else {
        return assert_eq!(after, before.collect(), "nothing moves without a state");
    };
    let signed = scene.held.iter().chain(&scene.governing).filter(|it| it.id == state);
    let is_update = |name: &str| lines.iter().any(|(old, new, of)| of == name && old != new);
    let is_named = |hex: &str| lines.iter().any(|(_, new, _)| new == hex.as_bytes());
    let is_here = |oid: &Oid| scene.present.contains(oid) || is_named(&oid.to_hex());
    // Every ref the push names is as signed; every other one is, or the server can move it there.
    let completed = |it: &&Candidate| {
        let signed = &it.state.refs;
        let missing = signed.iter().any(|(name, oid)| {
            let stands = after.get(&name.to_string()) == Some(&oid.to_hex());
            !stands && (is_update(&name.to_string()) || !is_here(oid))
        });
        let kept = after
            .keys()
            .any(|name| is_update(name) && !signed.contains_key(&name.parse::<RefName>().unwrap()));
        it.state.satisfiable && !missing && !kept
    };
    let ruled = |it: &&Candidate| {
        scene.governing.as_ref().is_none_or(|rules| rules.id == it.id || it.rank.beats(&rules.rank))
    };
    assert!(signed.filter(completed).any(|it| ruled(&it)), "{lines:?} in {scene:?}");
    assert!(grant.unclaimed.is_empty(), "unsigned commits come alone");
}

fn check_unchanged(head: &PushHead, scene: &Scene) {
    for command in &head.commands {
        let target = command.target.as_ref().unwrap();
        let now = match target {
            Target::Governed(name) => scene.refs.get(name).copied(),
            Target::Proposal(id) => scene.proposals.get(id).copied(),
        };
        assert!(now == command.new || command.old == command.new, "{command:?}");
    }
}
