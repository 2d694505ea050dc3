//! Whatever a client sends: nothing panics, each message gets at most one answer, and the session
//! never holds more than its limits say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bolero::check;
use grasp_core::service::{Authority, Service};
use grasp_core::{Kind, Time};
use grasp_fuzz::{Tape, message, tapes, valid_message};
use grasp_relay::{Action, Addressee, Allowance, ClientMessage, Limits, Refused, Session};
use std::sync::Arc;

const NOW: Time = Time::from_secs(1_700_000_000);

#[test]
fn any_text_is_a_message_or_a_refusal_for_somebody() {
    check!().with_generator(tapes(1_000)).with_iterations(8_000).for_each(|bytes: &Vec<u8>| {
        let text = match bytes.first() {
            Some(0..64) => String::from_utf8_lossy(bytes).into_owned(),
            _ => message(&mut Tape::new(bytes)),
        };
        if let Err(malformed) = ClientMessage::parse(&text) {
            assert_eq!(malformed.to, Addressee::of(&text));
            assert!(malformed.why.len() < 1_000, "{}", malformed.why);
            assert!(!malformed.why.contains(char::is_control));
        }
    });
}

#[test]
fn a_well_formed_message_is_understood() {
    check!().with_generator(tapes(1_000)).with_iterations(4_000).for_each(|bytes: &Vec<u8>| {
        let text = valid_message(&mut Tape::new(bytes));
        if let Err(malformed) = ClientMessage::parse(&text) {
            panic!("{malformed}: {text}");
        }
    });
}

#[test]
fn a_session_answers_each_message_at_most_once_and_stays_within_its_limits() {
    check!().with_generator(tapes(4_000)).with_iterations(1_500).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let mut talk = Talk::new();
        while !tape.is_at_end() {
            let text = message(&mut tape);
            talk.says(&text);
        }
        talk.session.end(&mut talk.ledger);
        assert_eq!(talk.ledger.0, 0, "what was taken from the budget was given back");
    });
}

/// Small enough that random talk meets every limit.
fn limits() -> Limits {
    Limits {
        message_bytes_max: 3_000,
        event_bytes_max: 1_200,
        tags_max: 8,
        subscriptions_max: 3,
        filters_per_req_max: 3,
        retained_filter_bytes_max: 2_000,
        neg_sessions_max: 2,
        ..Limits::default()
    }
}

struct Talk {
    session: Session,
    limits: Arc<Limits>,
    ledger: Ledger,
}

/// Bytes taken and not yet given back; has room for somewhat less than one session may want.
struct Ledger(usize);

impl Allowance for Ledger {
    fn take_event(&mut self, _: Kind, _: Time) -> Result<(), Refused> {
        Ok(())
    }
    fn retain(&mut self, bytes: usize) -> Result<(), Refused> {
        if self.0 + bytes > 1_800 {
            return Err(Refused::Filters(1_800));
        }
        self.0 += bytes;
        Ok(())
    }
    fn release(&mut self, bytes: usize) {
        self.0 = self.0.checked_sub(bytes).expect("no more is given back than was taken");
    }
}

impl Talk {
    fn new() -> Self {
        let limits = Arc::new(limits());
        let service = Service::new(Authority::parse("git.example").unwrap(), vec![], "");
        let session = Session::new(Arc::clone(&limits), Arc::new(service), "challenge".to_owned());
        Self { session, limits, ledger: Ledger(0) }
    }

    fn says(&mut self, text: &str) {
        self.session.handle_text(text, NOW, &mut self.ledger);
        let actions: Vec<Action> = std::iter::from_fn(|| self.session.poll_action()).collect();
        let answers = actions.iter().filter(|action| is_answer(action)).count();
        assert!(answers <= 1, "{text} got {actions:?}");
        assert!(answers == 1 || wants_no_answer(text), "{text} got {actions:?}");
        actions.iter().for_each(|action| self.check(action));
        assert!(self.session.subscriptions() <= self.limits.subscriptions_max);
        assert!(self.session.reconciliations() <= self.limits.neg_sessions_max);
        assert!(self.session.retained_bytes() <= self.limits.retained_filter_bytes_max);
        assert_eq!(self.session.retained_bytes(), self.ledger.0);
    }

    fn check(&self, action: &Action) {
        match action {
            Action::Send(frame) => {
                let frame_value: Vec<serde_json::Value> = serde_json::from_str(frame).unwrap();
                let verb = frame_value[0].as_str().unwrap();
                assert!(["OK", "CLOSED", "NOTICE", "AUTH", "NEG-ERR"].contains(&verb), "{frame}");
                assert!(frame.len() < 4_000, "{frame}");
            }
            Action::Ingest(event) => {
                assert!(event.to_json().len() <= self.limits.event_bytes_max);
                assert!(event.tags.len() <= self.limits.tags_max);
            }
            Action::Subscribe { filters, .. } => {
                assert!(filters.len() <= self.limits.filters_per_req_max);
                let bounded =
                    |limit: Option<u64>| limit.is_some_and(|n| n <= self.limits.limit_max);
                assert!(filters.iter().all(|filter| bounded(filter.limit)));
            }
            Action::Hangup(why) => panic!("nobody asked to hang up: {why}"),
            _ => {}
        }
    }
}

/// Something that is an answer, or a task whose end is the answer. An AUTH frame is a question.
fn is_answer(action: &Action) -> bool {
    match action {
        Action::Send(frame) => !frame.starts_with("[\"AUTH\""),
        Action::Unsubscribe { .. } | Action::NegClose { .. } | Action::Hangup(_) => false,
        _ => true,
    }
}

fn wants_no_answer(text: &str) -> bool {
    matches!(ClientMessage::parse(text), Ok(ClientMessage::Close(_) | ClientMessage::NegClose(_)))
}
