//! NIP-77 from the relay's side: spoken, not spoken in all the ways relays do not speak it, and
//! spoken to deceive.

use super::guest::Out;
use super::room::Room;
use crate::behaviour::{NEG_ERR_TOO_MANY, NOTICE_NO_NEGENTROPY, Negentropy};
use crate::now;
use grasp_core::{EventId, Filter, Timestamp};
use grasp_relay::{IdSet, Reconciler, SubId, reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

const FRAME_BYTES: usize = 60_000;
const ROUNDS_MAX: u32 = 64;
const ITEMS_MAX: usize = 1_000_000;

pub(super) struct Reconciling {
    guest: u64,
    room: Arc<Room>,
    out: UnboundedSender<Out>,
    open: BTreeMap<SubId, Side>,
}

enum Side {
    Real(Box<Reconciler>),
    /// Never agrees.
    Endless,
    /// Always does.
    Agrees,
}

impl Reconciling {
    pub(super) fn new(guest: u64, room: Arc<Room>, out: UnboundedSender<Out>) -> Self {
        Self { guest, room, out, open: BTreeMap::new() }
    }

    /// True if this relay does not speak it, in whichever way it says so.
    pub(super) fn declines(&self, sub: &SubId, negentropy: Negentropy) -> bool {
        match negentropy {
            Negentropy::Notice => self.says(reply::notice(NOTICE_NO_NEGENTROPY)),
            Negentropy::NoticeWith(text) => self.says(reply::notice(text)),
            Negentropy::Error => self.says(reply::neg_err(sub, "error: negentropy is disabled")),
            Negentropy::Silence => {}
            _ => return false,
        }
        true
    }

    pub(super) fn begins(
        &mut self,
        sub: &SubId,
        filter: &Filter,
        message: &[u8],
        negentropy: Negentropy,
    ) {
        let side = match negentropy {
            Negentropy::Endless => Side::Endless,
            Negentropy::Agrees => Side::Agrees,
            Negentropy::Limited { events }
                if self.room.times_and_ids(filter).len() > events as usize =>
            {
                return self.says(format!(
                    "[\"NEG-ERR\",\"{}\",\"{NEG_ERR_TOO_MANY}\",{events}]",
                    sub.as_str()
                ));
            }
            _ => {
                let set = IdSet::collect(self.items(filter, negentropy), ITEMS_MAX);
                match set.and_then(|set| Reconciler::new(set, FRAME_BYTES, ROUNDS_MAX)) {
                    Ok(reconciler) => Side::Real(Box::new(reconciler)),
                    Err(why) => return self.says(reply::neg_err(sub, &why.to_string())),
                }
            }
        };
        self.open.insert(sub.clone(), side);
        self.room.reconciles(self.guest, sub);
        self.goes_on(sub, message);
    }

    /// What it says it has.
    fn items(&self, filter: &Filter, negentropy: Negentropy) -> Vec<(Timestamp, EventId)> {
        let mut items = self.room.times_and_ids(filter);
        match negentropy {
            Negentropy::Claims { ids } => {
                let since = filter.since.map_or(0, |since| since.0);
                let until = filter.until.map_or_else(now, |until| until.0);
                let span = until.saturating_sub(since).saturating_add(1);
                let claimed = (0..ids).map(|_| {
                    self.room.chance(|random| {
                        let at = Timestamp(since + random.below(span));
                        (at, EventId::from_bytes(random.bytes32()))
                    })
                });
                items.extend(claimed.collect::<Vec<_>>());
            }
            Negentropy::Hides { .. } => items.retain(|(_, id)| !negentropy.hides(id)),
            _ => {}
        }
        items
    }

    pub(super) fn goes_on(&mut self, sub: &SubId, message: &[u8]) {
        let answer = match self.open.get_mut(sub) {
            None => Err("closed: no such reconciliation".to_owned()),
            Some(Side::Endless) => Ok(self.room.chance(|random| disagreement(&random.bytes32()))),
            // The version, and nothing to go on with.
            Some(Side::Agrees) => Ok(vec![0x61]),
            Some(Side::Real(reconciler)) => {
                reconciler.answer(message).map_err(|why| why.to_string())
            }
        };
        match answer {
            Ok(answer) => self.says(reply::neg_msg(sub, &answer)),
            Err(why) => {
                self.ends(sub);
                self.says(reply::neg_err(sub, &why));
            }
        }
    }

    pub(super) fn ends(&mut self, sub: &SubId) {
        self.open.remove(sub);
        self.room.ends_reconciling(self.guest, sub);
    }

    fn says(&self, text: String) {
        let _ = self.out.send(Out::text(text));
    }
}

/// Version 1; one range up to infinity; a fingerprint that fits nothing.
fn disagreement(noise: &[u8; 32]) -> Vec<u8> {
    [&[0x61, 0, 0, 1], &noise[..16]].concat()
}
