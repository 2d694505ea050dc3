use super::*;
use grasp_core::PubKey;
use std::collections::BTreeSet;

const NOW: Time = Time::from_secs(1_700_000_000);

fn repo() -> RepoId {
    RepoId { owner: PubKey::from_bytes([7; 32]), identifier: "acme".parse().unwrap() }
}

fn lack(learn_from: Option<&str>, other_repositories: usize) -> Lack {
    Lack {
        server: "b.example:7334".into(),
        repo: repo(),
        because: "lacks 3 of 120 events".into(),
        other_repositories,
        learn_from: learn_from.map(str::to_owned),
    }
}

#[test]
fn every_kind_of_problem_has_its_own_code_and_says_why_it_matters_and_what_to_do() {
    let all = ProblemKind::all();
    let codes: BTreeSet<&str> = all.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes.len(), all.len());
    for kind in all {
        assert!(!kind.why().is_empty() && !kind.fix().is_empty(), "{kind:?}");
    }
}

#[test]
fn a_problem_is_one_sentence_that_names_its_object_and_what_to_do() {
    let at = |ago: u64| Time(NOW.0 - ago * 1_000);
    let next_try = NOW.plus(Duration::from_secs(600));
    let relay = || "c.example:7777".to_owned();
    for (problem, sentence) in [
        (
            Problem::MirrorLacks(lack(None, 0)),
            "mirror b.example:7334 lacks 3 of 120 events (acme of npub1qurswpc…nvjvl7); check that \
             this server is reachable from there and that the mirror syncs; `graspd explain` names \
             every repository",
        ),
        (
            Problem::MirrorLacks(lack(Some("wss://a.example"), 2)),
            "mirror b.example:7334 lacks 3 of 120 events (acme of npub1qurswpc…nvjvl7), and there \
             are 2 more such repositories; publish the repository's announcement to b.example:7334; \
             if it is a GRASP server, its operator can set \
             NGIT_SYNC_BOOTSTRAP_RELAY_URL=wss://a.example instead",
        ),
        (
            Problem::TableFull { table: FullTable::Held, refused: 12 },
            "the table of events that wait for git data is full (refused 12 times); see `graspd \
             purgatory` for what waits; raise NGIT_RELAY_MAX_HELD_EVENTS and \
             NGIT_RELAY_MAX_HELD_BYTES if it is wanted",
        ),
        (
            Problem::RelayDead { relay: relay(), since: at(680), next_try },
            "relay c.example:7777 is dead: no answer since 22:02 UTC, next try 22:23 UTC; ask its \
             operator, or ask the owners to drop it from their announcements; `graspd sync now \
             <its URL>` tries it at once",
        ),
        (
            Problem::ClockStep { by_ms: -86_399_999, ago: Duration::from_secs(120) },
            "the clock of this machine was set back by 24 h, 2 min ago; check that it is right now \
             and that a time service (NTP) keeps it so; this goes away an hour after the step",
        ),
        (
            Problem::DiskLow { free_bytes: 64 << 20, reserve_bytes: 1 << 30 },
            "64.0 MiB are free where the repositories are, and 1.0 GiB are kept in reserve; free \
             some space, or set NGIT_GIT_MIN_FREE_BYTES to less",
        ),
        (
            Problem::SlotsFull(FullSlots {
                class: SlotClass::UnknownOwner,
                used: 5,
                max: 5,
                waiting: 95,
                since: at(680),
            }),
            "all fetch slots for owners without a fetch that succeeded are in use since 22:02 UTC (5 \
             of 5), 95 wait; slow fetches end by themselves; if it stays, raise \
             NGIT_SYNC_FETCHES_MAX or blacklist those who name many slow hosts",
        ),
    ] {
        assert_eq!(problem.report(NOW).sentence(), sentence);
    }
}
