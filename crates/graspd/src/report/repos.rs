//! The repositories that are served here, those announced last first, a page at a time from wherever
//! the last one ended: no page costs more because of those before it.

use super::Page;
use super::shapes::{RepoLine, Repos};
use super::sight::Sight;
use super::text::{WORDS_MAX, shown};
use crate::ingest::followed_state;
use crate::ledger::LedgerView;
use grasp_core::nip34::Announcement;
use grasp_core::{Event, Filter, Kind, Timestamp};
use grasp_store::{Budget, Cursor, Hit, Position, Progress, Result, Snapshot, Space, Want};

/// Announcements looked at for one page; some are of repositories hosted elsewhere.
const STEPS_PER_LINE: u64 = 10;
const BYTES: usize = 16 << 20;

impl Sight<'_> {
    pub fn repos(&self, page: &Page) -> Result<Repos> {
        let snapshot = self.store.read()?;
        let kinds = Some([Kind::ANNOUNCEMENT].into());
        let filter = Filter { kinds, ..Filter::default() };
        let now = self.now.timestamp();
        let mut cursor = Cursor::new([filter].into(), Want::Bodies, u64::MAX, now);
        if let Some(position) = page.after.as_deref().and_then(read_position) {
            cursor = cursor.after(position);
        }
        let (mut found, mut last, mut done) = (Vec::new(), None, false);
        let mut steps = page.limit as u64 * STEPS_PER_LINE;
        // One at a time, so that the page ends behind what it shows.
        while found.len() < page.limit && steps > 0 && !done {
            let mut sink = |hit: Hit<'_>| {
                last = Some(hit.position);
                let event = Event::from_json(hit.json).ok();
                let it = event.and_then(|it| Some((it.created_at, Announcement::parse(&it).ok()?)));
                found.extend(it.filter(|(_, it)| self.rules.hosts(it)));
            };
            let mut one = Budget { steps: 1, bytes: BYTES };
            let progress = snapshot.advance(Space::Served, &mut cursor, &mut one, &mut sink)?;
            done = progress == Progress::Done;
            steps -= 1;
        }
        let lines = found.iter().map(|(at, it)| self.line(&*snapshot, *at, it));
        Ok(Repos {
            now: self.now,
            repositories: lines.collect::<Result<_>>()?,
            next: last.filter(|_| !done).map(write_position),
        })
    }

    fn line(&self, store: &dyn Snapshot, at: Timestamp, it: &Announcement) -> Result<RepoLine> {
        let text = |text: &Option<String>| shown(text.as_deref().unwrap_or(""), WORDS_MAX);
        let (name, identifier) = (text(&it.name), it.repo.identifier.to_string());
        let (service, now) = (&self.rules.service, self.now);
        let view = LedgerView { store, service, now, age_max: self.identity.verdict_age_max };
        Ok(RepoLine {
            npub: it.repo.owner.to_npub(),
            name: if name.is_empty() { shown(&identifier, WORDS_MAX) } else { name },
            identifier,
            description: text(&it.description),
            announced_at: at,
            state_at: followed_state(store, &it.repo)?.map(|it| it.event.created_at),
            ledger: view.of_repo(it, &it.repo)?,
        })
    }
}

fn write_position(at: Position) -> String {
    format!("{}-{}", at.created_at().0, at.id())
}

pub(super) fn read_position(text: &str) -> Option<Position> {
    let (time, id) = text.split_once('-')?;
    Some(Position::new(Timestamp(time.parse().ok()?), &id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins_and_strangers_words_begin_nowhere() {
        let id = "ab".repeat(32).parse().unwrap();
        let at = Position::new(Timestamp(17), &id);
        assert_eq!(read_position(&write_position(at)), Some(at));
        for bad in ["", "-", "17", "17-", "x-ab", "17-zz", "99999999999999999999-00"] {
            assert_eq!(read_position(bad), None, "{bad}");
        }
    }
}
