use super::*;
use crate::ledger::row::{Counts, RefCounts, Seen, Why};
use grasp_store::{EventStore, LmdbStore, Options, in_memory};

#[test]
fn s30_what_is_known_is_found_by_address_and_by_repository() {
    let book = Book::new();
    for (number, name) in [(1, "acme"), (1, "acme2"), (2, "acme"), (3, "tool")] {
        book.set(&relay(number), &repo(name), 10 * number);
    }
    book.set(&git(1), &repo("acme"), 5);
    let names = |rows: Vec<Row>| {
        let names =
            rows.into_iter().map(|row| format!("{} {}", row.peer.as_str(), row.repo.identifier));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    let snapshot = book.0.read().unwrap();
    assert_eq!(
        names(of_peer(&*snapshot, &relay(1), usize::MAX).unwrap()),
        ["wss://r1.example acme", "wss://r1.example acme2"]
    );
    assert_eq!(
        names(of_repo(&*snapshot, &repo("acme"), usize::MAX).unwrap()),
        ["https://r1.example/acme.git acme", "wss://r1.example acme", "wss://r2.example acme"]
    );
    assert_eq!(of_peer(&*snapshot, &relay(1), 1).unwrap().len(), 1);
    assert_eq!(of(&*snapshot, &relay(2), &repo("acme")).unwrap(), Some(look(20)));
    assert_eq!(of(&*snapshot, &relay(9), &repo("acme")).unwrap(), None);
    assert_eq!(tally(&*snapshot).unwrap().rows(), 5);
}

#[test]
fn s30_a_new_comparison_takes_the_place_of_the_old_one() {
    let book = Book::new();
    book.set(&relay(1), &repo("acme"), 1);
    book.set(&relay(1), &repo("acme"), 2);
    book.set(&relay(1), &repo("acme"), 2);
    assert_eq!(book.tally(), Tally { they_lack: 1, ..Tally::default() });
    assert_eq!(
        book.notes(),
        9,
        "one row in five orders, the tally, the sums of its address, of its minute, and of both"
    );
    assert_eq!(book.of(&relay(1), &repo("acme")).unwrap().since, Time(1), "the same verdict");
    let nothing = Look::new(Seen::Nothing(Why::NoNegentropy), Time(5));
    book.write(|txn| set(txn, &relay(1), &repo("acme"), nothing.clone()));
    assert_eq!(book.of(&relay(1), &repo("acme")), Some(nothing));
    assert_eq!(book.tally(), Tally { unverifiable: 1, ..Tally::default() });
}

#[test]
fn s43_verdicts_are_counted_without_looking_at_every_row_and_old_ones_are_no_verdicts() {
    let book = Book::new();
    for number in 1..=200 {
        book.set(&relay(number), &repo("acme"), number);
    }
    let equal = Look::new(Seen::Refs(RefCounts { equal: 3, ..RefCounts::default() }), Time(150));
    book.write(|txn| set(txn, &git(1), &repo("acme"), equal.clone()));
    let within = |from, to| tally_at(&*book.0.read().unwrap(), &(Time(from)..=Time(to))).unwrap();
    let at = |than| within(than, than + 200);
    assert_eq!(at(0), (Tally { equal: 1, they_lack: 200, ..Tally::default() }, Some(Time(1))));
    let old = Tally { equal: 1, they_lack: 101, unverifiable: 99, ..Tally::default() };
    assert_eq!(at(100), (old, Some(Time(1))));
    let all = Tally { unverifiable: 201, ..Tally::default() };
    assert_eq!(at(1_000), (all, Some(Time(1))));
    let ahead = Tally { they_lack: 41, unverifiable: 160, ..Tally::default() };
    assert_eq!(within(100, 140), (ahead, Some(Time(1))), "also what has not come yet");
    assert_eq!(within(0, 0), (all, Some(Time(1))), "each once");
    assert_eq!(
        tally_at(&*Book::new().0.read().unwrap(), &(Time(9)..=Time(10))).unwrap(),
        (Tally::default(), None)
    );
}

/// However rows lie about the minutes: as if each had been looked at.
#[test]
fn s43_what_is_counted_minute_by_minute_is_what_the_rows_say() {
    let book = Book::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..400 {
        let (number, at) = (1 + next(4), next(600_000));
        let seen = match next(3) {
            0 => Seen::Nothing(Why::NoNegentropy),
            1 => Seen::Events(Counts { both: 3, ..Counts::default() }),
            _ => Seen::Events(Counts { both: 3, they_lack: 1, ..Counts::default() }),
        };
        let name = format!("repo-{}", next(80));
        book.write(|txn| set(txn, &relay(number), &repo(&name), Look::new(seen.clone(), Time(at))));
    }
    let snapshot = book.0.read().unwrap();
    let rows: Vec<Row> =
        (1..=4).flat_map(|it| of_peer(&*snapshot, &relay(it), usize::MAX).unwrap()).collect();
    assert!(rows.len() > 200, "{}", rows.len());
    let by_hand = |of: &dyn Fn(&Row) -> bool, fresh: &std::ops::RangeInclusive<Time>| {
        let mut tally = Tally::default();
        for row in rows.iter().filter(|row| of(row)) {
            let fresh = *fresh.start() <= row.look.at && row.look.at <= *fresh.end();
            let verdict = row.look.seen.verdict();
            *tally.of(if fresh { verdict } else { Verdict::Unverifiable }) += 1;
        }
        (tally, rows.iter().filter(|row| of(row)).map(|row| row.look.at).min())
    };
    let edges = [0, 65_535, 65_536, 65_537, 131_072, 600_000, 700_000];
    for from in edges.into_iter().chain((0..20).map(|_| next(600_000))) {
        for long in [0, 1, 65_535, 65_536, 200_000, 700_000] {
            let fresh = Time(from)..=Time(from + long);
            assert_eq!(tally_at(&*snapshot, &fresh).unwrap(), by_hand(&|_| true, &fresh));
            let (sums, oldest) = sums_at(&*snapshot, &relay(2), &fresh).unwrap();
            assert_eq!((sums.tally, oldest), by_hand(&|row| row.peer == relay(2), &fresh));
        }
    }
}

#[test]
fn s30_beyond_the_bound_the_oldest_go_and_nothing_of_them_stays() {
    let book = Book::new();
    for number in [5, 3, 4, 1, 2, 6] {
        let row = Row { peer: relay(number), repo: repo("acme"), look: look(number) };
        book.write(|txn| put(txn, row.clone(), 4));
    }
    let kept: Vec<u64> =
        (1..=6).filter(|number| book.of(&relay(*number), &repo("acme")).is_some()).collect();
    assert_eq!(kept, [3, 4, 5, 6]);
    assert_eq!((book.tally().rows(), book.notes()), (4, 5 * 4 + 2 * 4 + 1 + 1));
}

#[test]
fn s30_what_is_not_followed_any_more_is_forgotten_piece_by_piece() {
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
    assert_eq!(removed(&|txn| forget_peer(txn, &relay(1), 2)), 2);
    assert_eq!(removed(&|txn| forget_peer(txn, &relay(1), 2)), 1);
    assert_eq!(removed(&|txn| keep_only(txn, &repo("acme"), &|peer| *peer == relay(3))), 1);
    assert_eq!((book.tally().rows(), book.notes()), (5, 5 * 5 + 2 * 2 + 1 + 1));
    assert!(book.of(&relay(2), &repo("acme2")).is_some());
    assert_eq!(removed(&|txn| forget_older(txn, Time(3), 10)), 2);
    assert_eq!((book.tally().rows(), book.notes()), (3, 5 * 3 + 2 + 1 + 1));
}

#[test]
fn s30_rows_of_an_older_shape_are_not_read_and_go() {
    let book = Book::new();
    book.set(&relay(1), &repo("acme"), 1);
    let (rows, has_old) = (book.notes(), || has_old_shapes(&*book.0.read().unwrap()).unwrap());
    assert!(!has_old());
    for key in ["rsomething", "A1", "A2", "A3", "B1", "C1", "D", "E1", "F1"] {
        book.write(|txn| txn.put_note(Shelf::Peers, key.as_bytes(), b"{}"));
    }
    assert_eq!((book.tally().rows(), has_old()), (1, true));
    book.write(|txn| forget_old_shapes(txn, 2));
    assert_eq!((book.notes(), has_old()), (rows + 1, true));
    book.write(|txn| forget_old_shapes(txn, 2));
    assert_eq!((book.notes(), has_old()), (rows, false));
}

#[test]
fn s30_an_address_is_summed_up_as_its_rows_come_change_and_go() {
    let book = Book::new();
    let sums = |peer: &Peer| sums(&*book.0.read().unwrap(), peer).unwrap();
    book.set(&relay(1), &repo("acme"), 1);
    book.set(&relay(1), &repo("tool"), 2);
    book.set(&relay(2), &repo("acme"), 3);
    let both = Tally { they_lack: 2, ..Tally::default() };
    assert_eq!(sums(&relay(1)), Sums { tally: both, events_both: 9 + 10, events_lacking: 4 });
    let equal = Look::new(Seen::Events(Counts { both: 20, ..Counts::default() }), Time(9));
    book.write(|txn| set(txn, &relay(1), &repo("acme"), equal.clone()));
    let mixed = Tally { they_lack: 1, equal: 1, ..Tally::default() };
    assert_eq!(sums(&relay(1)), Sums { tally: mixed, events_both: 30, events_lacking: 2 });
    let aged = sums_at(&*book.0.read().unwrap(), &relay(1), &(Time(5)..=Time(20))).unwrap();
    let old = Tally { equal: 1, unverifiable: 1, ..Tally::default() };
    assert_eq!((aged.0.tally, aged.1), (old, Some(Time(2))), "one of two is too old");
    book.write(|txn| forget_peer(txn, &relay(1), 9).map(drop));
    assert_eq!(sums(&relay(1)), Sums::default());
    assert_eq!(sums(&relay(2)).tally.rows(), 1);
}

#[test]
fn s30_the_longest_names_fit() {
    let book = Book::new();
    let relay: Peer =
        Peer::Relay(format!("wss://relay.example/{}", "x".repeat(490)).parse().unwrap());
    let repo = repo(&"ü".repeat(125));
    book.set(&relay, &repo, 1);
    let rows = of_repo(&*book.0.read().unwrap(), &repo, 9).unwrap();
    assert_eq!(rows, [Row { peer: relay, repo, look: look(1) }]);
}

struct Book(LmdbStore);

impl Book {
    fn new() -> Self {
        Self(in_memory(&Options::default()).unwrap())
    }

    fn write(&self, mut work: impl FnMut(&mut dyn Transaction) -> Result<()>) {
        self.0.write(&mut work).unwrap();
    }

    fn set(&self, peer: &Peer, repo: &RepoId, at: u64) {
        self.write(|txn| set(txn, peer, repo, look(at)));
    }

    fn of(&self, peer: &Peer, repo: &RepoId) -> Option<Look> {
        of(&*self.0.read().unwrap(), peer, repo).unwrap()
    }

    fn tally(&self) -> Tally {
        tally(&*self.0.read().unwrap()).unwrap()
    }

    fn notes(&self) -> usize {
        self.0.read().unwrap().notes(Shelf::Peers, &[], usize::MAX).unwrap().len()
    }
}

fn look(at: u64) -> Look {
    let counts = Counts { both: 8 + at, they_lack: 2, ..Counts::default() };
    Look::new(Seen::Events(counts), Time(at))
}

fn relay(number: u64) -> Peer {
    Peer::Relay(format!("wss://r{number}.example").parse().unwrap())
}

fn git(number: u64) -> Peer {
    Peer::Git(format!("https://r{number}.example/acme.git").parse().unwrap())
}

fn repo(name: &str) -> RepoId {
    RepoId { owner: PubKey::from_bytes([7; 32]), identifier: name.parse().unwrap() }
}

#[test]
fn rows_in_which_one_side_lacks_something_are_found_without_looking_at_the_others() {
    let book = Book::new();
    for number in 1..=50 {
        let equal = Look::new(Seen::Events(Counts { both: 3, ..Counts::default() }), Time(number));
        book.write(|txn| set(txn, &relay(number), &repo("acme"), equal.clone()));
    }
    book.set(&relay(7), &repo("acme"), 70);
    book.set(&relay(8), &repo("tool"), 60);
    let ahead = Counts { both: 3, we_lack: 1, ..Counts::default() };
    let ahead = Look::new(Seen::Events(ahead), Time(65));
    book.write(|txn| set(txn, &relay(9), &repo("acme"), ahead.clone()));
    let found = |verdict, since, count_max| {
        let rows = lacking(&*book.0.read().unwrap(), verdict, Time(since), count_max).unwrap();
        rows.iter().map(|row| row.look.at.0).collect::<Vec<_>>()
    };
    assert_eq!(found(Verdict::TheyLack, 0, 10), [60, 70], "the longest ago comes first");
    assert_eq!(found(Verdict::TheyLack, 0, 1), [60]);
    assert_eq!(found(Verdict::TheyLack, 61, 10), [70]);
    assert_eq!(found(Verdict::WeLack, 0, 10), [65]);
    let equal = Look::new(Seen::Events(Counts { both: 3, ..Counts::default() }), Time(80));
    book.write(|txn| set(txn, &relay(7), &repo("acme"), equal.clone()));
    assert_eq!(found(Verdict::TheyLack, 0, 10), [60], "it has everything by now");
}
