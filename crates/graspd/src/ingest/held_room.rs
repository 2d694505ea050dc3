//! Who uses how much of the table of held events. One row for each of them, and counters that change in
//! the same transaction, so a crash leaves them right; they are counted anew at every start.

use grasp_core::held_share::{HeldClass, HeldFill, HeldSide, HeldSource, HeldUse};
use grasp_core::terms::Term;
use grasp_core::{EventId, Kind, VerifiedEvent};
use grasp_relay::IpKey;
use grasp_store::{
    Provenance, Result, Shelf, Snapshot, SourceKind, Space, StoreError, Transaction,
};
use serde::{Deserialize, Serialize};

const SHELF: Shelf = Shelf::HeldRooms;
/// The orders, by the first byte of their keys.
const BY_EVENT: u8 = b'e';
const BY_CLASS: u8 = b'c';
const BY_SOURCE: u8 = b's';
/// Sources that a report looks through.
const SOURCES_SHOWN_MAX: usize = 10_000;

/// Where one held event is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldPlace {
    pub(super) class: HeldClass,
    pub(super) side: HeldSide,
    pub(super) sources: Vec<HeldSource>,
    pub(super) bytes: u64,
}

/// What one source uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SourceUse {
    source: HeldSource,
    used: HeldUse,
}

/// How full the table is: each class on each side, and every source that uses up its share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldFigures {
    pub classes: Vec<(HeldSide, HeldClass, HeldUse, HeldUse)>,
    pub full_sources: Vec<(HeldClass, HeldSource, HeldUse)>,
}

impl HeldPlace {
    /// What is known without a look at the repositories.
    pub(super) fn of(event: &VerifiedEvent, from: &Provenance) -> Self {
        let class = match event.kind {
            Kind::ANNOUNCEMENT => HeldClass::Announcement,
            _ => HeldClass::Other,
        };
        let side = match from.source {
            SourceKind::Direct => HeldSide::Direct,
            SourceKind::Live | SourceKind::Backfill | SourceKind::Daily => HeldSide::Sync,
        };
        let sources = from.relay.iter().cloned().map(HeldSource::Relay).collect();
        let bytes = u64::try_from(event.json().len()).unwrap_or(u64::MAX);
        Self { class, side, sources, bytes }
    }

    /// The address that brought it, if addresses are counted.
    pub(super) fn brought_by(mut self, ip: Option<IpKey>) -> Self {
        if let Some(ip) = ip {
            self.sources.push(HeldSource::Address(ip.customer()));
            self.sources.extend(ip.site().map(HeldSource::Network));
        }
        self
    }

    fn uses(&self) -> HeldUse {
        HeldUse { events: 1, bytes: self.bytes }
    }
}

/// Counts an event in its place and no longer in the place it had before.
pub(super) fn enter(txn: &mut dyn Transaction, id: &EventId, place: &HeldPlace) -> Result<()> {
    leave(txn, id)?;
    txn.put_note(SHELF, &by_event(id), &written(place)?)?;
    count(txn, place, HeldUse::plus)
}

/// The event waits no longer.
pub(super) fn leave(txn: &mut dyn Transaction, id: &EventId) -> Result<()> {
    let Some(note) = txn.note(SHELF, &by_event(id))? else { return Ok(()) };
    txn.remove_note(SHELF, &by_event(id))?;
    count(txn, &read::<HeldPlace>(&note)?, HeldUse::minus)
}

/// What is used of everything an event in this place would count in.
pub(super) fn fill(store: &dyn Snapshot, place: &HeldPlace) -> Result<HeldFill> {
    let used = |class| class_use(store, place.side, class);
    let mut sources = Vec::new();
    for source in &place.sources {
        let found = source_use(store, place, source)?;
        sources.push((source.clone(), found.map(|it| it.used).unwrap_or_default()));
    }
    Ok(HeldFill {
        announcements: used(HeldClass::Announcement)?,
        served_states: used(HeldClass::ServedState)?,
        served: used(HeldClass::Served)?,
        others: used(HeldClass::Other)?,
        sources,
    })
}

/// How full the table is, for reports.
pub fn held_figures(store: &dyn Snapshot, table: HeldUse) -> Result<HeldFigures> {
    let mut figures = HeldFigures::default();
    for side in HeldSide::ALL {
        for class in HeldClass::ALL {
            let used = class_use(store, side, class)?;
            figures.classes.push((side, class, used, class.limit(table)));
        }
    }
    for (key, note) in store.notes(SHELF, &[BY_SOURCE], SOURCES_SHOWN_MAX)? {
        let Some(class) = key.get(2).and_then(|byte| class_of(*byte)) else { continue };
        let SourceUse { source, used } = read(&note)?;
        if class != HeldClass::ServedState && used.reaches(source.limit(class.limit(table))) {
            figures.full_sources.push((class, source, used));
        }
    }
    Ok(figures)
}

/// Makes the rows and the counters agree with what is held.
pub(super) fn recount(txn: &mut dyn Transaction, held: &[EventId]) -> Result<()> {
    for id in held {
        if txn.note(SHELF, &by_event(id))?.is_none()
            && let Some(found) = txn.get(Space::Held, id)?
        {
            enter(txn, id, &HeldPlace::of(&found.event, &found.provenance))?;
        }
    }
    for prefix in [BY_CLASS, BY_SOURCE] {
        for (key, _) in txn.notes(SHELF, &[prefix], usize::MAX)? {
            txn.remove_note(SHELF, &key)?;
        }
    }
    for (key, note) in txn.notes(SHELF, &[BY_EVENT], usize::MAX)? {
        let id = key.last_chunk().copied().map(EventId::from_bytes);
        let waits = id.map_or(Ok(false), |id| txn.contains(Space::Held, &id))?;
        match waits {
            true => count(txn, &read::<HeldPlace>(&note)?, HeldUse::plus)?,
            false => drop(txn.remove_note(SHELF, &key)?),
        }
    }
    Ok(())
}

fn count(
    txn: &mut dyn Transaction,
    place: &HeldPlace,
    change: fn(HeldUse, HeldUse) -> HeldUse,
) -> Result<()> {
    let used = change(class_use(txn, place.side, place.class)?, place.uses());
    txn.put_note(SHELF, &by_class(place.side, place.class), &written(&used)?)?;
    for source in &place.sources {
        let key = by_source(place, source);
        let before = source_use(txn, place, source)?.map(|it| it.used).unwrap_or_default();
        let used = change(before, place.uses());
        match used.events {
            0 => drop(txn.remove_note(SHELF, &key)?),
            _ => {
                let source = source.clone();
                txn.put_note(SHELF, &key, &written(&SourceUse { source, used })?)?;
            }
        }
    }
    Ok(())
}

fn class_use(store: &dyn Snapshot, side: HeldSide, class: HeldClass) -> Result<HeldUse> {
    let note = store.note(SHELF, &by_class(side, class))?;
    note.map_or(Ok(HeldUse::default()), |note| read(&note))
}

fn source_use(
    store: &dyn Snapshot,
    place: &HeldPlace,
    source: &HeldSource,
) -> Result<Option<SourceUse>> {
    store.note(SHELF, &by_source(place, source))?.map(|note| read(&note)).transpose()
}

fn by_event(id: &EventId) -> Vec<u8> {
    [&[BY_EVENT], &id.as_bytes()[..]].concat()
}

fn by_class(side: HeldSide, class: HeldClass) -> Vec<u8> {
    vec![BY_CLASS, side_byte(side), class_byte(class)]
}

/// The name of a relay may be longer than a key; its hash is not.
fn by_source(place: &HeldPlace, source: &HeldSource) -> Vec<u8> {
    let letter = match source {
        HeldSource::Relay(_) => b'r',
        HeldSource::Network(_) => b'n',
        HeldSource::Address(_) => b'i',
    };
    let Term(mark) = Term::tag(letter, source.name());
    [&[BY_SOURCE, side_byte(place.side), class_byte(place.class)], &mark[..]].concat()
}

const fn side_byte(side: HeldSide) -> u8 {
    match side {
        HeldSide::Direct => b'd',
        HeldSide::Sync => b's',
    }
}

const fn class_byte(class: HeldClass) -> u8 {
    match class {
        HeldClass::Announcement => b'a',
        HeldClass::ServedState => b's',
        HeldClass::Served => b'p',
        HeldClass::Other => b'o',
    }
}

fn class_of(byte: u8) -> Option<HeldClass> {
    HeldClass::ALL.into_iter().find(|class| class_byte(*class) == byte)
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|_| StoreError::Damaged("unwritable place of a held event"))
}

fn read<T: for<'de> Deserialize<'de>>(note: &[u8]) -> Result<T> {
    serde_json::from_slice(note)
        .map_err(|_| StoreError::Damaged("unreadable place of a held event"))
}
