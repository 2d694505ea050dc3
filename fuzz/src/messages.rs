//! What a client says, one message at a time.

use crate::{Tape, broken, event, event_json, filter, filter_json, json_string};
use grasp_core::id::hex_encode;

/// Mostly well-formed; one in four had an accident, a few are no message at all.
pub fn message(tape: &mut Tape<'_>) -> String {
    match tape.below(8) {
        0 => tape.text(),
        1 | 2 => {
            let text = valid_message(tape);
            broken(tape, &text)
        }
        _ => valid_message(tape),
    }
}

/// A message with every part in its place; a relay may still refuse it for what it says.
pub fn valid_message(tape: &mut Tape<'_>) -> String {
    let event = |tape: &mut Tape<'_>| {
        let event = event(tape);
        event_json(tape, &event)
    };
    match tape.below(10) {
        0 | 1 => format!("[\"EVENT\",{}]", event(tape)),
        2 => format!("[\"AUTH\",{}]", event(tape)),
        3 | 4 => format!("[\"REQ\",{},{}]", name(tape), filters(tape)),
        5 => format!("[\"COUNT\",{},{}]", name(tape), filters(tape)),
        6 => format!("[\"CLOSE\",{}]", name(tape)),
        7 => format!("[\"NEG-CLOSE\",{}]", name(tape)),
        8 => format!("[\"NEG-MSG\",{},{}]", name(tape), hex(tape)),
        _ => {
            let filter = filter(tape);
            let filter = filter_json(tape, &filter);
            format!("[\"NEG-OPEN\",{},{filter},{}]", name(tape), hex(tape))
        }
    }
}

/// Few names, so that subscriptions meet again.
fn name(tape: &mut Tape<'_>) -> String {
    match tape.below(8) {
        0 => {
            let text = format!("x{}", tape.text());
            json_string(tape, &text)
        }
        1 => format!("\"{}\"", "n".repeat(1 + tape.below(90))),
        few => format!("\"s{few}\""),
    }
}

fn filters(tape: &mut Tape<'_>) -> String {
    let filters: Vec<String> = (0..1 + tape.below(4))
        .map(|_| {
            let filter = filter(tape);
            filter_json(tape, &filter)
        })
        .collect();
    filters.join(",")
}

fn hex(tape: &mut Tape<'_>) -> String {
    let bytes: Vec<u8> = (0..tape.below(40)).map(|_| tape.byte()).collect();
    format!("\"61{}\"", hex_encode(&bytes))
}
