use super::*;
use grasp_core::service::Authority;
use grasp_core::{Kind, VerifiedEvent};
use grasp_store::{EventStore, LmdbStore, Options, Provenance, Shelf, Transaction, in_memory};
use grasp_testkit::{Author, Repository};

const NOW: Time = Time::from_secs(1_700_000_000);
const DAY: Duration = Duration::from_secs(86_400);

fn ago(secs: u64) -> Time {
    Time(NOW.0 - secs * 1_000)
}

fn acme() -> Repository {
    Repository::new(Author::number(7), "acme")
}

fn repo() -> RepoId {
    RepoId { owner: acme().owner.key, identifier: "acme".parse().unwrap() }
}

/// The announcement of a repository at these relays and clone addresses.
fn named(relays: &[&str], clones: &[&str]) -> Announcement {
    let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let event = acme().announcement(1);
    let it = Announcement::parse(&event).unwrap();
    Announcement { clone: own(clones), relays: own(relays), ..it }
}

/// A store with these rows, and a state that was served then.
fn store(rows: &[(Peer, Seen, Time)], state_at: Option<Time>) -> LmdbStore {
    let state = acme().state(&acme().owner, 5, &[("refs/heads/main", &"1".repeat(40))], None);
    store_with(rows, state_at.map(|at| (state, at)).as_ref())
}

fn store_with(rows: &[(Peer, Seen, Time)], served: Option<&(VerifiedEvent, Time)>) -> LmdbStore {
    let store = in_memory(&Options::default()).unwrap();
    let announcement = acme().announcement(1);
    let mut write = |txn: &mut dyn Transaction| {
        for (peer, seen, at) in rows {
            shelf::set(txn, peer, &repo(), Look::new(seen.clone(), *at))?;
        }
        txn.put(Space::Served, &announcement, &Provenance::direct(Time(1)))?;
        match served {
            Some((event, at)) => {
                let view = [repo().owner.as_bytes().as_slice(), b"acme"].concat();
                if event.kind == Kind::STATE {
                    txn.put_note(Shelf::Views, &view, event.id.as_bytes())?;
                }
                txn.put(Space::Served, event, &Provenance::direct(*at)).map(drop)
            }
            None => Ok(()),
        }
    };
    store.write(&mut write).unwrap();
    store
}

/// Place, verdict and reason of every mirror, and their sum.
fn told(store: &LmdbStore, it: &Announcement) -> (Vec<(String, Verdict, String)>, Ledger) {
    let service = Service::new(Authority::parse("ours.example").unwrap(), Vec::new(), "/");
    let snapshot = store.read().unwrap();
    let view = LedgerView { store: &*snapshot, service: &service, now: NOW, age_max: DAY };
    let mirrors = view.mirrors(it, &repo()).unwrap();
    let told = mirrors.into_iter().map(|it| (it.place, it.verdict, it.because)).collect();
    (told, view.of_repo(it, &repo()).unwrap())
}

fn relay(url: &str) -> Peer {
    Peer::Relay(url.parse().unwrap())
}

fn git(url: &str) -> Peer {
    Peer::Git(url.parse().unwrap())
}

fn events(both: u64, they_lack: u64) -> Seen {
    Seen::Events(Counts { both, they_lack, ..Counts::default() })
}

fn refs(equal: u64, they_lack: u64) -> Seen {
    Seen::Refs(RefCounts { equal, they_lack, ..RefCounts::default() })
}

#[test]
fn relay_and_clone_address_of_one_server_are_one_mirror_in_the_list_and_on_the_page() {
    let grasp = format!("https://a.example/{}/acme.git", acme().owner.key.to_npub());
    let (forge, other) = ("http://b.example:7000/alice/acme.git", "https://c.example/acme.git");
    let it = named(&["wss://a.example", "ws://b.example:7000/relay"], &[&grasp, forge, other]);
    let store = store(
        &[
            (relay("wss://a.example"), events(3, 0), ago(10)),
            (git(&grasp), refs(1, 0), ago(10)),
            (relay("ws://b.example:7000/relay"), events(3, 0), ago(10)),
            (git(forge), refs(0, 1), ago(10)),
            (git(other), refs(1, 0), ago(10)),
        ],
        None,
    );
    let (mirrors, sum) = told(&store, &it);
    let places: Vec<(&str, Verdict)> =
        mirrors.iter().map(|(place, verdict, _)| (place.as_str(), *verdict)).collect();
    assert_eq!(
        places,
        [
            ("a.example", Verdict::Equal),
            ("b.example:7000", Verdict::TheyLack),
            ("c.example/acme.git", Verdict::Equal)
        ]
    );
    assert_eq!((sum.equal, sum.they_lack, sum.unverifiable), (2, 1, 0), "{sum:?}");
}

#[test]
fn a_mirror_last_seen_before_a_change_is_being_checked_until_it_is_looked_at_again() {
    let (events_url, refs_url) = ("wss://a.example", "https://b.example/acme.git");
    let it = named(&[events_url], &[refs_url]);
    let at = |seen_ago, lacking: u64, changed_ago| {
        let rows = [
            (relay(events_url), events(3, lacking), ago(seen_ago)),
            (git(refs_url), refs(1, lacking), ago(seen_ago)),
        ];
        let (mirrors, sum) = told(&store(&rows, Some(ago(changed_ago))), &it);
        assert_eq!(
            sum.checking,
            mirrors.iter().filter(|it| it.1 == Verdict::Checking).count() as u64
        );
        (mirrors[0].1, mirrors[1].1)
    };
    use Verdict::{Checking, Equal, TheyLack};
    assert_eq!(at(20, 1, 10), (Checking, Checking), "it lacked something before the change");
    assert_eq!(at(20, 0, 10), (Equal, Checking), "refs are looked at again, events as they come");
    assert_eq!(at(5, 1, 10), (TheyLack, TheyLack), "it was looked at since");
    assert_eq!(at(200, 1, 95), (TheyLack, TheyLack), "the check is overdue");
    let rows = [(relay(events_url), events(3, 1), ago(20))];
    let (mirrors, _) = told(&store(&rows, Some(ago(10))), &named(&[events_url], &[]));
    assert_eq!(mirrors[0].2, "its events are being checked after the change at 22:13 UTC");
}

#[test]
fn a_comment_has_no_refs_checked_and_an_old_lack_or_a_clock_set_right_is_no_check() {
    use Verdict::{Checking, Equal, TheyLack};
    let (events_url, refs_url) = ("wss://a.example", "https://b.example/acme.git");
    let it = named(&[events_url], &[refs_url]);
    let issue = acme().issue(&Author::number(8), 5, "an issue");
    let at = |seen_ago, lacking: u64, changed: Time| {
        let rows = [
            (relay(events_url), events(3, lacking), ago(seen_ago)),
            (git(refs_url), refs(1, lacking), ago(seen_ago)),
        ];
        let (mirrors, _) = told(&store_with(&rows, Some(&(issue.clone(), changed))), &it);
        (mirrors[0].1, mirrors[1].1)
    };
    assert_eq!(at(20, 0, ago(10)), (Equal, Equal), "an issue changes no refs");
    assert_eq!(at(20, 1, ago(10)), (Checking, TheyLack));
    assert_eq!(at(3_600, 1, ago(10)), (TheyLack, TheyLack), "it lacked something long before");
    assert_eq!(at(20, 1, NOW.plus(DAY)), (TheyLack, TheyLack), "the clock was a day ahead then");
}

#[test]
fn a_relay_that_is_no_grasp_server_is_not_said_to_lack_a_setting() {
    let it = named(&["wss://plain.example"], &["https://forge.example/alice/acme.git"]);
    let rows = [(relay("wss://plain.example"), events(0, 6), ago(10))];
    let (mirrors, _) = told(&store(&rows, None), &it);
    assert!(!mirrors[0].2.contains("never told"), "{mirrors:?}");
}

#[test]
fn of_a_server_that_was_never_told_both_remedies_are_named() {
    let url = format!("http://b.example:7334/{}/acme.git", acme().owner.key.to_npub());
    let it = named(&["ws://b.example:7334"], &[&url]);
    let absent = Seen::Nothing(Why::NotFound);
    let both = [
        (relay("ws://b.example:7334"), events(0, 6), ago(10)),
        (git(&url), absent.clone(), ago(10)),
    ];
    let (mirrors, _) = told(&store(&both, None), &it);
    assert_eq!(
        mirrors[0].2,
        "lacks 6 of 6 events; says that it has no such repository; it was never told of this \
         repository: publish the announcement to ws://b.example:7334, or have its operator set \
         NGIT_SYNC_BOOTSTRAP_RELAY_URL=wss://ours.example"
    );
    let only_git = [(git(&url), absent.clone(), ago(10))];
    let (mirrors, _) = told(&store(&only_git, None), &named(&[], &[&url]));
    assert!(mirrors[0].2.contains("publish the announcement to b.example:7334"), "{mirrors:?}");
    let knows =
        [(relay("ws://b.example:7334"), events(1, 5), ago(10)), (git(&url), absent, ago(10))];
    let (mirrors, _) = told(&store(&knows, None), &it);
    assert!(!mirrors[0].2.contains("never told"), "{mirrors:?}");
}
