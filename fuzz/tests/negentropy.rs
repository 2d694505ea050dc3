//! NIP-77 messages from a stranger, on either side of a reconciliation: no fall, no long answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bolero::check;
use grasp_core::{EventId, Timestamp};
use grasp_fuzz::{Tape, tapes};
use grasp_relay::neg::Step;
use grasp_relay::{IdSet, Initiator, Reconciler};

const FRAME: usize = 4_096;
const ROUNDS: u32 = 16;

/// Many share a second, and many share the beginning of their id.
fn set(of: impl Iterator<Item = u32>) -> IdSet {
    let item = |n: u32| {
        let mut id = [7; 32];
        id[28..].copy_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
        (Timestamp(1_700_000_000 + u64::from(n / 50)), EventId::from_bytes(id))
    };
    IdSet::collect(of.map(item), 100_000).unwrap()
}

#[test]
fn no_message_makes_the_answer_long_or_the_answerer_fall() {
    let (ours, theirs) = (set(0..900), set((0..900).filter(|n| n % 7 != 0)));
    check!().with_generator(tapes(1_000)).with_iterations(1_500).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let mut answering = Reconciler::new(ours.clone(), FRAME, ROUNDS).unwrap();
        let mut asking = Initiator::new(theirs.clone(), FRAME).unwrap();
        let mut message = asking.initiate().unwrap();
        let mut answers = 0;
        while !tape.is_at_end() {
            let sent =
                if tape.one_in(3) { tape.rest().to_vec() } else { damaged(&mut tape, &message) };
            let Ok(answer) = answering.answer(&sent) else { return };
            assert!(answer.len() <= FRAME, "{} bytes", answer.len());
            answers += 1;
            match asking.handle_answer(&damaged(&mut tape, &answer)) {
                Ok(Step::Send(next)) => message = next,
                Ok(Step::Done(_)) | Err(_) => return,
            }
            assert!(answers < 2_000, "a reconciliation without end");
        }
    });
}

/// Raw bytes behind a right version byte: bounds, modes and lengths of any size.
#[test]
fn raw_bytes_are_answered_or_refused() {
    let ours = set(0..300);
    check!().with_generator(tapes(600)).with_iterations(6_000).for_each(|bytes: &Vec<u8>| {
        let mut answering = Reconciler::new(ours.clone(), FRAME, ROUNDS).unwrap();
        let message: Vec<u8> = [&[0x61], bytes.as_slice()].concat();
        for _ in 0..2 {
            if let Ok(answer) = answering.answer(&message) {
                assert!(answer.len() <= FRAME, "{} bytes", answer.len());
            }
        }
        let mut asking = Initiator::new(ours.clone(), FRAME).unwrap();
        asking.initiate().unwrap();
        if let Ok(Step::Send(next)) = asking.handle_answer(&message) {
            assert!(next.len() <= FRAME, "{} bytes", next.len());
        }
    });
}

fn damaged(tape: &mut Tape<'_>, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    for _ in 0..tape.below(3) {
        let at = tape.below(message.len().max(1)).min(message.len());
        match tape.below(5) {
            0 => message.truncate(at),
            1 => message.insert(at, tape.byte()),
            2 => message.iter_mut().skip(at).take(1).for_each(|byte| *byte = tape.byte()),
            3 => drop(message.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x7f])),
            _ => message.extend_from_within(at..),
        }
    }
    message
}
