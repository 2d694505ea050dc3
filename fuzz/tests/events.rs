//! Events: what is read is what is written, byte for byte, and ids are what everybody else computes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bolero::check;
use grasp_core::{Event, Tag};
use grasp_fuzz::{Tape, broken, event, event_json, json_string, tapes};
use grasp_testkit::Random;
use sha2::{Digest, Sha256};

#[test]
fn an_event_reads_back_as_it_was_meant_however_it_is_spelled() {
    check!().with_generator(tapes(1_000)).with_iterations(4_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let meant = event(&mut tape);
        let json = event_json(&mut tape, &meant);
        assert_eq!(Event::from_json(json.as_bytes()).unwrap(), meant, "{json}");
        let canonical = meant.to_json();
        assert_eq!(Event::from_json(canonical.as_bytes()).unwrap(), meant);
        assert!(canonical.len() <= json.len(), "{canonical} is longer than {json}");
        assert_eq!(meant.hash().as_bytes(), &independent_id(&meant), "{json}");
    });
}

#[test]
fn whatever_is_read_as_an_event_is_written_in_one_way_only() {
    check!().with_generator(tapes(1_000)).with_iterations(8_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let event = event(&mut tape);
        let json = event_json(&mut tape, &event);
        let json = broken(&mut tape, &json);
        for text in [json.as_bytes(), tape.rest()] {
            let Ok(read) = Event::from_json(text) else { continue };
            let canonical = read.to_json();
            let again = Event::from_json(canonical.as_bytes()).unwrap();
            assert_eq!(again, read);
            assert_eq!(again.to_json(), canonical);
            assert!(canonical.len() <= text.len(), "{canonical} is longer than what was sent");
        }
    });
}

#[test]
fn an_event_is_an_object_and_nothing_else() {
    let event = event(&mut Tape::new(&[7; 200]));
    let fields = serde_json::json!([
        event.id.to_hex(),
        event.pubkey.to_hex(),
        event.created_at.0,
        event.kind.0,
        event.tags,
        event.content,
        event.sig.to_hex()
    ]);
    assert!(Event::from_json(fields.to_string().as_bytes()).is_err());
}

/// NIP-01 through another writer of JSON.
fn independent_id(event: &Event) -> [u8; 32] {
    let text = serde_json::to_string(&serde_json::json!([
        0,
        event.pubkey.to_hex(),
        event.created_at.0,
        event.kind.0,
        event.tags,
        event.content,
    ]));
    Sha256::digest(text.unwrap().as_bytes()).into()
}

/// Threats.md, G16: control characters, DEL, the line separators and astral characters included.
#[test]
fn twenty_thousand_random_strings_hash_as_other_writers_of_json_hash_them() {
    let mut random = Random::seeded(16);
    let mut event = event(&mut Tape::new(&[]));
    for round in 0..20_000_u32 {
        let text = random_text(&mut random, round);
        event.tags = vec![Tag(vec![text.clone(), text.clone()])];
        event.content = text;
        assert_eq!(event.hash().as_bytes(), &independent_id(&event), "{:?}", event.content);
    }
}

/// The first rounds show every character below U+0100 alone; the others mix ranges.
fn random_text(random: &mut Random, round: u32) -> String {
    const RANGES: &[(u32, u32)] = &[
        (0, 0x20),
        (0x20, 0x80),
        (0x7f, 0xa0),
        (0x2020, 0x2030),
        (0xd7f0, 0xd800),
        (0xe000, 0xe010),
        (0xfff0, 0x1_0010),
        (0x1_f980, 0x1_f990),
        (0x10_fff0, 0x11_0000),
    ];
    if round < 256 {
        return char::from_u32(round).unwrap().to_string();
    }
    let mut text = String::new();
    for _ in 0..random.below(24) {
        let (from, to) = *random.pick(RANGES);
        let code = from + u32::try_from(random.below(u64::from(to - from))).unwrap();
        text.extend(char::from_u32(code));
    }
    text
}

#[test]
fn every_spelling_of_a_string_is_the_same_string() {
    check!().with_generator(tapes(1_000)).with_iterations(4_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let text = tape.text();
        let spelled = json_string(&mut tape, &text);
        assert_eq!(serde_json::from_str::<String>(&spelled).unwrap(), text);
        let mut ours = String::new();
        grasp_core::json::push_string(&mut ours, &text);
        assert_eq!(ours, serde_json::to_string(&text).unwrap());
    });
}
