//! The standings on disk: one row for each relay and repository, found from either side and in order
//! of time. All orders change in one transaction, and beyond the bound the oldest rows go.

use super::{Counts, Standing};
use grasp_core::terms::Term;
use grasp_core::{PubKey, RelayUrl, RepoId, Time};
use grasp_store::{Result, Shelf, Snapshot, StoreError, Transaction};
use serde::{Deserialize, Serialize};

pub const ROWS_MAX: u64 = 200_000;

/// The four orders, by the first byte of their keys.
const BY_RELAY: u8 = b'r';
const BY_REPO: u8 = b'p';
const BY_TIME: u8 = b't';
const COUNT: &[u8] = b"n";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub relay: RelayUrl,
    pub repo: RepoId,
    pub standing: Standing,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    relay: RelayUrl,
    #[serde(flatten)]
    standing: Standing,
}

/// Replaces what was known of this repository on this relay.
pub fn set(
    txn: &mut dyn Transaction,
    relay: &RelayUrl,
    repo: &RepoId,
    standing: Standing,
) -> Result<()> {
    put(txn, &Row { relay: relay.clone(), repo: repo.clone(), standing }, ROWS_MAX)
}

/// Events that we lacked and this relay had turned out to be about this repository.
pub fn attribute(
    txn: &mut dyn Transaction,
    relay: &RelayUrl,
    repo: &RepoId,
    events: u64,
    now: Time,
) -> Result<()> {
    let known = of(txn, relay, repo)?;
    let counts = known.and_then(|standing| standing.counts).unwrap_or_default();
    let counts = counts.plus(&Counts { we_lack: events, ..Counts::default() });
    // Still part of the comparison that named them, so its time stays.
    let at = known.filter(|standing| standing.counts.is_some()).map_or(now, |standing| standing.at);
    set(txn, relay, repo, Standing::from_counts(counts, at))
}

pub fn of(store: &dyn Snapshot, relay: &RelayUrl, repo: &RepoId) -> Result<Option<Standing>> {
    let note = store.note(Shelf::Peers, &Key::of(relay, repo).by_relay())?;
    Ok(note.map(|note| read(&note)).transpose()?.map(|note| note.standing))
}

/// What is known of one relay, in order of repositories.
pub fn of_relay(store: &dyn Snapshot, relay: &RelayUrl, count_max: usize) -> Result<Vec<Row>> {
    let prefix = [&[BY_RELAY], &mark(relay)[..]].concat();
    let mut rows = Vec::new();
    for (key, note) in store.notes(Shelf::Peers, &prefix, count_max)? {
        rows.push(row(&key, &note)?);
    }
    Ok(rows)
}

/// What is known of one repository, relay by relay.
pub fn of_repo(store: &dyn Snapshot, repo: &RepoId, count_max: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (key, _) in store.notes(Shelf::Peers, &repo_prefix(repo), count_max)? {
        let mark = key.last_chunk().copied().ok_or(UNREADABLE)?;
        let key = Key { mark, repo: repo_bytes(repo) }.by_relay();
        let note = store.note(Shelf::Peers, &key)?.ok_or(UNREADABLE)?;
        rows.push(row(&key, &note)?);
    }
    Ok(rows)
}

/// Removes up to `count_max` rows of a relay that is not followed any more; returns how many.
pub fn forget_relay(
    txn: &mut dyn Transaction,
    relay: &RelayUrl,
    count_max: usize,
) -> Result<usize> {
    let rows = of_relay(txn, relay, count_max)?;
    rows.iter().try_for_each(|row| remove(txn, row))?;
    Ok(rows.len())
}

/// Removes up to `count_max` rows of a repository that is not served any more; returns how many.
pub fn forget_repo(txn: &mut dyn Transaction, repo: &RepoId, count_max: usize) -> Result<usize> {
    let rows = of_repo(txn, repo, count_max)?;
    rows.iter().try_for_each(|row| remove(txn, row))?;
    Ok(rows.len())
}

pub fn count(store: &dyn Snapshot) -> Result<u64> {
    let note = store.note(Shelf::Peers, COUNT)?;
    Ok(note.and_then(|note| note.try_into().ok()).map_or(0, u64::from_be_bytes))
}

fn put(txn: &mut dyn Transaction, new: &Row, rows_max: u64) -> Result<()> {
    let key = Key::of(&new.relay, &new.repo);
    if let Some(standing) = of(txn, &new.relay, &new.repo)? {
        remove(txn, &Row { standing, ..new.clone() })?;
    }
    while count(txn)? >= rows_max {
        let Some(oldest) = oldest(txn)? else { break };
        remove(txn, &oldest)?;
    }
    let note = Note { relay: new.relay.clone(), standing: new.standing };
    let note = serde_json::to_vec(&note).map_err(|_| StoreError::Damaged("unwritable standing"))?;
    txn.put_note(Shelf::Peers, &key.by_relay(), &note)?;
    txn.put_note(Shelf::Peers, &key.by_repo(), &[])?;
    txn.put_note(Shelf::Peers, &key.by_time(new.standing.at), &[])?;
    let count = count(txn)? + 1;
    txn.put_note(Shelf::Peers, COUNT, &count.to_be_bytes())
}

fn oldest(store: &dyn Snapshot) -> Result<Option<Row>> {
    let Some((key, _)) = store.notes(Shelf::Peers, &[BY_TIME], 1)?.pop() else { return Ok(None) };
    let key = [&[BY_RELAY], key.get(9..).ok_or(UNREADABLE)?].concat();
    let note = store.note(Shelf::Peers, &key)?.ok_or(UNREADABLE)?;
    row(&key, &note).map(Some)
}

fn remove(txn: &mut dyn Transaction, row: &Row) -> Result<()> {
    let key = Key::of(&row.relay, &row.repo);
    for key in [key.by_relay(), key.by_repo(), key.by_time(row.standing.at)] {
        txn.remove_note(Shelf::Peers, &key)?;
    }
    let count = count(txn)?.saturating_sub(1);
    txn.put_note(Shelf::Peers, COUNT, &count.to_be_bytes())
}

const UNREADABLE: StoreError = StoreError::Damaged("unreadable standing");

/// A relay's address is longer than a key may be; its hash is not.
type Mark = [u8; 16];

struct Key {
    mark: Mark,
    repo: Vec<u8>,
}

impl Key {
    fn of(relay: &RelayUrl, repo: &RepoId) -> Self {
        Self { mark: mark(relay), repo: repo_bytes(repo) }
    }

    fn by_relay(&self) -> Vec<u8> {
        [&[BY_RELAY], &self.mark[..], &self.repo].concat()
    }

    fn by_repo(&self) -> Vec<u8> {
        // No identifier contains a control character, so the zero ends it.
        [&[BY_REPO], &self.repo[..], &[0], &self.mark].concat()
    }

    fn by_time(&self, at: Time) -> Vec<u8> {
        [&[BY_TIME], &at.0.to_be_bytes()[..], &self.mark, &self.repo].concat()
    }
}

fn mark(relay: &RelayUrl) -> Mark {
    let [_, mark @ ..] = Term::tag(b'r', relay.as_str()).0;
    mark
}

fn repo_bytes(repo: &RepoId) -> Vec<u8> {
    [repo.owner.as_bytes(), repo.identifier.as_str().as_bytes()].concat()
}

fn repo_prefix(repo: &RepoId) -> Vec<u8> {
    [&[BY_REPO], &repo_bytes(repo)[..], &[0]].concat()
}

fn read(note: &[u8]) -> Result<Note> {
    serde_json::from_slice(note).map_err(|_| UNREADABLE)
}

/// From a key by relay, and what lies there.
fn row(key: &[u8], note: &[u8]) -> Result<Row> {
    let Note { relay, standing } = read(note)?;
    let repo = key.get(17..).and_then(read_repo).ok_or(UNREADABLE)?;
    Ok(Row { relay, repo, standing })
}

fn read_repo(bytes: &[u8]) -> Option<RepoId> {
    let (owner, identifier) = bytes.split_first_chunk::<32>()?;
    let identifier = std::str::from_utf8(identifier).ok()?.parse().ok()?;
    Some(RepoId { owner: PubKey::from_bytes(*owner), identifier })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Verdict;
    use grasp_store::{EventStore, LmdbStore, Options, in_memory};

    #[test]
    fn s30_what_is_known_is_found_by_relay_and_by_repository() {
        let book = Book::new();
        for (number, name) in [(1, "acme"), (1, "acme2"), (2, "acme"), (3, "tool")] {
            book.set(&relay(number), &repo(name), 10 * number);
        }
        let names = |rows: Vec<Row>| {
            let names =
                rows.into_iter().map(|row| format!("{} {}", row.relay, row.repo.identifier));
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            names
        };
        let snapshot = book.0.read().unwrap();
        assert_eq!(
            names(of_relay(&*snapshot, &relay(1), usize::MAX).unwrap()),
            ["wss://r1.example acme", "wss://r1.example acme2"]
        );
        assert_eq!(
            names(of_repo(&*snapshot, &repo("acme"), usize::MAX).unwrap()),
            ["wss://r1.example acme", "wss://r2.example acme"]
        );
        assert_eq!(of_relay(&*snapshot, &relay(1), 1).unwrap().len(), 1);
        let found = of(&*snapshot, &relay(2), &repo("acme")).unwrap().unwrap();
        assert_eq!(found, standing(20));
        assert_eq!(of(&*snapshot, &relay(9), &repo("acme")).unwrap(), None);
        assert_eq!(count(&*snapshot).unwrap(), 4);
    }

    #[test]
    fn s30_a_new_comparison_takes_the_place_of_the_old_one() {
        let book = Book::new();
        book.set(&relay(1), &repo("acme"), 1);
        book.set(&relay(1), &repo("acme"), 2);
        book.set(&relay(1), &repo("acme"), 2);
        assert_eq!(book.count(), 1);
        assert_eq!(book.notes(), 4, "one row in three orders, and the count");
        book.write(|txn| set(txn, &relay(1), &repo("acme"), Standing::unverifiable(Time(5))));
        let found = book.of(&relay(1), &repo("acme")).unwrap();
        assert_eq!(found.verdict(), Verdict::Unverifiable);
    }

    #[test]
    fn s30_what_we_lacked_is_added_once_it_is_known_where_it_belongs() {
        let book = Book::new();
        let (relay, acme, tool) = (relay(1), repo("acme"), repo("tool"));
        book.set(&relay, &acme, 7);
        book.write(|txn| attribute(txn, &relay, &acme, 2, Time(99)));
        book.write(|txn| attribute(txn, &relay, &acme, 1, Time(100)));
        let found = book.of(&relay, &acme).unwrap();
        assert_eq!((found.counts.unwrap().we_lack, found.at), (3, standing(7).at));
        assert_eq!(found.counts.unwrap().both, standing(7).counts.unwrap().both);
        book.write(|txn| attribute(txn, &relay, &tool, 4, Time(100)));
        let found = book.of(&relay, &tool).unwrap();
        assert_eq!((found.verdict(), found.at), (Verdict::Ahead, Time(100)));
    }

    #[test]
    fn s30_beyond_the_bound_the_oldest_go_and_nothing_of_them_stays() {
        let book = Book::new();
        for number in [5, 3, 4, 1, 2, 6] {
            let row = Row { relay: relay(number), repo: repo("acme"), standing: standing(number) };
            book.write(|txn| put(txn, &row, 4));
        }
        let kept: Vec<u64> =
            (1..=6).filter(|number| book.of(&relay(*number), &repo("acme")).is_some()).collect();
        assert_eq!(kept, [3, 4, 5, 6]);
        assert_eq!((book.count(), book.notes()), (4, 4 * 3 + 1));
    }

    #[test]
    fn s30_a_relay_or_repository_that_left_is_forgotten_piece_by_piece() {
        let book = Book::new();
        for number in 1..=3 {
            for name in ["acme", "acme2", "tool"] {
                book.set(&relay(number), &repo(name), number);
            }
        }
        let removed = |work: &dyn Fn(&mut dyn Transaction) -> Result<usize>| {
            let mut removed = 0;
            book.write(|txn| work(txn).map(|count| removed = count));
            removed
        };
        assert_eq!(removed(&|txn| forget_relay(txn, &relay(1), 2)), 2);
        assert_eq!(removed(&|txn| forget_relay(txn, &relay(1), 2)), 1);
        assert_eq!(removed(&|txn| forget_repo(txn, &repo("acme"), 10)), 2);
        assert_eq!((book.count(), book.notes()), (4, 4 * 3 + 1));
        assert!(book.of(&relay(2), &repo("acme2")).is_some());
    }

    #[test]
    fn s30_the_longest_names_fit() {
        let book = Book::new();
        let relay: RelayUrl = format!("wss://relay.example/{}", "x".repeat(490)).parse().unwrap();
        let repo = repo(&"ü".repeat(125));
        book.set(&relay, &repo, 1);
        let rows = of_repo(&*book.0.read().unwrap(), &repo, 9).unwrap();
        assert_eq!(rows, [Row { relay, repo, standing: standing(1) }]);
    }

    struct Book(LmdbStore);

    impl Book {
        fn new() -> Self {
            Self(in_memory(&Options::default()).unwrap())
        }

        fn write(&self, mut work: impl FnMut(&mut dyn Transaction) -> Result<()>) {
            self.0.write(&mut work).unwrap();
        }

        fn set(&self, relay: &RelayUrl, repo: &RepoId, at: u64) {
            self.write(|txn| set(txn, relay, repo, standing(at)));
        }

        fn of(&self, relay: &RelayUrl, repo: &RepoId) -> Option<Standing> {
            of(&*self.0.read().unwrap(), relay, repo).unwrap()
        }

        fn count(&self) -> u64 {
            count(&*self.0.read().unwrap()).unwrap()
        }

        fn notes(&self) -> usize {
            self.0.read().unwrap().notes(Shelf::Peers, &[], usize::MAX).unwrap().len()
        }
    }

    fn standing(at: u64) -> Standing {
        let counts = Counts { both: 8 + at, they_lack: 2, we_lack: 0 };
        Standing::from_counts(counts, Time(at))
    }

    fn relay(number: u64) -> RelayUrl {
        format!("wss://r{number}.example").parse().unwrap()
    }

    fn repo(name: &str) -> RepoId {
        RepoId { owner: PubKey::from_bytes([7; 32]), identifier: name.parse().unwrap() }
    }
}
