//! Filters: read back as they were meant, and matching what a plain reading of NIP-01 matches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bolero::check;
use grasp_core::Filter;
use grasp_fuzz::{Tape, broken, event, filter, filter_json, tapes};
use serde_json::Value;

#[test]
fn a_filter_reads_back_as_it_was_meant_however_it_is_spelled() {
    check!().with_generator(tapes(1_000)).with_iterations(6_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let meant = filter(&mut tape);
        let json = filter_json(&mut tape, &meant);
        let read: Filter = serde_json::from_str(&json).unwrap();
        assert_eq!(read, meant, "{json}");
    });
}

#[test]
fn no_text_makes_the_parser_fall_or_a_filter_that_is_much_larger_than_the_text() {
    check!().with_generator(tapes(1_000)).with_iterations(8_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let filter = filter(&mut tape);
        let json = filter_json(&mut tape, &filter);
        let json = broken(&mut tape, &json);
        for text in [json.as_bytes(), tape.rest()] {
            if let Ok(filter) = serde_json::from_slice::<Filter>(text) {
                assert!(filter.retained_bytes() <= size_of::<Filter>() + 16 * text.len());
                assert_sorted(&filter);
            }
        }
    });
}

fn assert_sorted(filter: &Filter) {
    fn is_sorted<T: Ord>(list: &[T]) -> bool {
        list.windows(2).all(|pair| pair[0] < pair[1])
    }
    assert!(filter.ids.as_deref().is_none_or(is_sorted));
    assert!(filter.authors.as_deref().is_none_or(is_sorted));
    assert!(filter.kinds.as_deref().is_none_or(is_sorted));
    assert!(filter.tags.values().all(|values| is_sorted(values)));
}

#[test]
fn a_filter_matches_what_a_plain_reading_of_the_paper_matches() {
    check!().with_generator(tapes(1_000)).with_iterations(4_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let filter = filter(&mut tape);
        let wanted: Value = serde_json::from_str(&filter_json(&mut tape, &filter)).unwrap();
        for _ in 0..4 {
            let event = event(&mut tape);
            let plain = naive(&wanted, &serde_json::from_str(&event.to_json()).unwrap());
            assert_eq!(filter.matches(&event), plain, "{wanted} {}", event.to_json());
            assert!(!plain || !filter.is_void(), "a void filter matched: {wanted}");
        }
    });
}

/// NIP-01 over plain JSON, without any of our types.
fn naive(filter: &Value, event: &Value) -> bool {
    filter.as_object().unwrap().iter().all(|(name, wanted)| {
        let among = |value: &Value| wanted.as_array().unwrap().contains(value);
        match name.as_str() {
            "ids" => among(&event["id"]),
            "authors" => among(&event["pubkey"]),
            "kinds" => among(&event["kind"]),
            "since" => event["created_at"].as_u64() >= wanted.as_u64(),
            "until" => event["created_at"].as_u64() <= wanted.as_u64(),
            "limit" => true,
            letter => event["tags"].as_array().unwrap().iter().any(|tag| {
                tag[0].as_str() == letter.strip_prefix('#') && tag.get(1).is_some_and(among)
            }),
        }
    })
}
