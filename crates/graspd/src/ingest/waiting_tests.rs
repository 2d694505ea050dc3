//! The list of what waits: everything once, whatever the size of the parts in which it is read.

use super::crash_tests::machine::{DOMAIN, Disk, Machine};
use super::{Hall, Mark, Rest, RoleCache, Waiting};
use grasp_core::{EventId, Time};
use grasp_testkit::{Author, Repository};
use std::collections::BTreeSet;
use std::time::Duration;

const THEN: u64 = 1_700_000_000;
const OID: &str = "1111111111111111111111111111111111111111";

fn read(machine: &Machine, part: usize) -> Vec<Waiting> {
    let (snapshot, rules) = (machine.store.read().unwrap(), machine.rules());
    let mut hall = Hall {
        store: &*snapshot,
        rules: &rules,
        repos: &machine.host.repos,
        now: Time::from_secs(THEN + 60),
        wanted_for: Duration::from_secs(7 * 86_400),
        roles: RoleCache::default(),
    };
    let (mut found, mut from) = (Vec::new(), Some(Mark::Held(Vec::new())));
    while let Some(mark) = from {
        let (page, next) = hall.page(&mark, part).unwrap();
        assert!(page.len() <= part);
        found.extend(page);
        from = next;
    }
    found
}

#[test]
fn all_that_waits_is_listed_once_and_what_gave_up_comes_last() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let mut expected = BTreeSet::new();
    for number in 1..=5 {
        let acme = Repository::new(Author::number(number), "acme");
        let announcement = acme.announcement_listing(DOMAIN, THEN);
        let state = acme.state(&acme.owner, THEN + 1, &[("refs/heads/main", OID)], None);
        machine.publishes(&announcement);
        machine.publishes(&state);
        if number > 3 {
            machine.gives_up(&state);
        }
        expected.extend([announcement.id, state.id]);
    }
    for part in [1, 2, 3, 4, 9, 10, 11, 100] {
        let found = read(&machine, part);
        let ids: Vec<EventId> = found.iter().map(|it| it.found.event.id).collect();
        assert_eq!(ids.len(), 10, "in parts of {part}");
        assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), expected);
        let wanted = found.iter().map(|it| it.rest == Rest::Wanted);
        assert_eq!(wanted.collect::<Vec<_>>()[7..], [false, true, true], "in parts of {part}");
    }
    for it in read(&machine, 100) {
        let words = match it.found.event.kind {
            grasp_core::Kind::STATE => "waits for git object 111111111111…",
            _ => "waits for git data",
        };
        assert!(it.words.ends_with(words), "{}", it.words);
        assert_eq!(it.families.len(), 1, "where its data is looked for");
    }
}
