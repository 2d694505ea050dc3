//! What an operator has blacklisted since the last start: no longer served, kept aside.

use super::affected::{Affected, Intent};
use super::holds;
use super::plan::view_key;
use grasp_core::nip34::Announcement;
use grasp_core::policy::Rules;
use grasp_core::{Event, EventId, Filter, Kind, Time, Timestamp};
use grasp_store::{Budget, Cursor, EventStore, Hit, Progress, Result, Shelf, Space, Want};

const PAGE: Budget = Budget { steps: 100_000, bytes: 4 << 20 };
/// Announcements per transaction.
const HELPING: usize = 1_000;

/// Returns how many announcements were withdrawn.
pub fn withdraw_blacklisted(store: &dyn EventStore, rules: &Rules, now: Time) -> Result<usize> {
    let mut withdrawn = 0;
    if rules.repository_blacklist.is_empty() && rules.event_blacklist.is_empty() {
        return Ok(withdrawn);
    }
    for space in [Space::Served, Space::Held] {
        let found = blacklisted(store, space, rules)?;
        withdrawn += found.len();
        for helping in found.chunks(HELPING) {
            store.write(&mut |txn| {
                let mut affected = Affected::default();
                for id in helping {
                    let Some(gone) = txn.remove(space, id)? else { continue };
                    txn.put(Space::Aside, &gone.event, &gone.provenance)?;
                    holds::end(txn, id)?;
                    if let Some(repo) = gone.event.coordinate().and_then(|it| it.repo()) {
                        txn.put_note(Shelf::Parked, &view_key(&repo), &now.0.to_be_bytes())?;
                        affected.repo(&repo).left = true;
                    }
                }
                Intent { affected, packs: Vec::new() }.write(txn)?;
                Ok(())
            })?;
        }
    }
    Ok(withdrawn)
}

fn blacklisted(store: &dyn EventStore, space: Space, rules: &Rules) -> Result<Vec<EventId>> {
    let announcements = Filter { kinds: Some([Kind::ANNOUNCEMENT].into()), ..Filter::default() };
    let mut cursor =
        Cursor::new([announcements].into(), Want::Bodies, u64::MAX, Timestamp(u64::MAX));
    let mut found = Vec::new();
    let mut sink = |hit: Hit<'_>| {
        let announcement = Event::from_json(hit.json).ok();
        let announcement = announcement.and_then(|event| Announcement::parse(&event).ok());
        if announcement.is_some_and(|it| rules.blacklists(&it.repo)) {
            found.push(hit.position.id());
        }
    };
    while store.read()?.advance(space, &mut cursor, &mut { PAGE }, &mut sink)? == Progress::Paused {
    }
    Ok(found)
}
