//! The feed over a real store: what is told, in which order, and what is taken back.

use super::*;
use crate::ingest::crash_tests::machine::{DOMAIN, Disk, Machine};
use grasp_core::service::Authority;
use grasp_core::{PubKey, RelayUrl, Time, VerifiedEvent};
use grasp_store::{Options, Provenance, Space, in_memory};
use grasp_testkit::{Author, Draft, Repository};

const THEN: u64 = 1_700_000_000;

/// A store, and whoever is told about it.
struct Bench {
    store: Arc<dyn EventStore>,
    wake: Arc<Wake>,
}

impl Bench {
    fn new() -> Self {
        Self { store: Arc::new(in_memory(&Options::default()).unwrap()), wake: Arc::default() }
    }

    fn of(machine: &Machine) -> Self {
        Self { store: Arc::clone(&machine.store), wake: Arc::clone(&machine.wake) }
    }

    fn put(&self, space: Space, event: &VerifiedEvent) {
        let from = Provenance::direct(Time(1));
        self.store.write(&mut |txn| txn.put(space, event, &from).map(drop)).unwrap();
        self.wake.ring();
    }

    fn removes(&self, space: Space, event: &VerifiedEvent) {
        self.store.write(&mut |txn| txn.remove(space, &event.id).map(drop)).unwrap();
    }

    fn feed(&self) -> Feed {
        let service = Service::new(Authority::parse(DOMAIN).unwrap(), vec![], "");
        Feed {
            service: Arc::new(service),
            readers: Readers::start(&self.store, "read", 1).unwrap(),
            clock: Arc::default(),
            wake: Arc::clone(&self.wake),
            relays_max: 3,
        }
    }

    /// A feed that has told the past, and what that was.
    async fn listens(&self) -> (Listener, Vec<Input>) {
        let (sender, inbox) = mpsc::channel(100_000);
        let mut listener = Listener { teller: Teller::new(self.feed(), sender), inbox };
        listener.teller.replay().await.unwrap();
        let past = listener.heard();
        (listener, past)
    }
}

struct Listener {
    teller: Teller,
    inbox: mpsc::Receiver<Input>,
}

impl Listener {
    fn heard(&mut self) -> Vec<Input> {
        std::iter::from_fn(|| self.inbox.try_recv().ok()).collect()
    }

    /// What it hears after the bell.
    async fn hears(&mut self) -> Vec<Input> {
        self.teller.feed.wake.rung().await;
        self.teller.catch_up().await.unwrap();
        self.heard()
    }

    async fn hears_one(&mut self) -> Input {
        let mut heard = self.hears().await;
        assert_eq!(heard.len(), 1, "{heard:?}");
        heard.remove(0)
    }
}

fn announcement(owner: u64, at: u64, relays: &[&str]) -> VerifiedEvent {
    let relays: Vec<&str> = std::iter::once("relays").chain(relays.iter().copied()).collect();
    let draft = Draft::new(Kind::ANNOUNCEMENT, THEN + at).tag(&["d", "acme"]);
    Author::number(owner).signs(draft.tag(&relays))
}

fn issue(repos: &[u64]) -> VerifiedEvent {
    let draft = Draft::new(Kind::ISSUE, THEN).content("it is broken");
    let naming = |draft: Draft, owner: &u64| draft.tag(&["a", &acme(*owner).coordinate()]);
    Author::number(9).signs(repos.iter().fold(draft, naming))
}

fn acme(owner: u64) -> Repository {
    Repository::new(Author::number(owner), "acme")
}

fn repo(owner: u64) -> RepoId {
    RepoId { owner: Author::number(owner).key, identifier: "acme".parse().unwrap() }
}

fn announced(owner: u64, level: Level, relays: &[&str], serial: u64) -> Input {
    let relays = relays.iter().map(|relay| relay.parse::<RelayUrl>().unwrap()).collect();
    Input::Announced { repo: repo(owner), relays, level, serial }
}

fn root(event: &VerifiedEvent, owners: &[u64], serial: u64) -> Input {
    Input::Root { id: event.id, repos: owners.iter().map(|owner| repo(*owner)).collect(), serial }
}

const A: &str = "wss://a.example";
const B: &str = "wss://b.example";

#[tokio::test]
async fn s5_an_empty_store_is_told_as_such_and_what_comes_is_told_as_it_comes() {
    let bench = Bench::new();
    let (mut listener, past) = bench.listens().await;
    assert_eq!(past, [Input::Replayed]);
    bench.put(Space::Served, &announcement(1, 0, &[A]));
    assert_eq!(listener.hears_one().await, announced(1, Level::Full, &[A], 1));
    let thread = issue(&[1]);
    bench.put(Space::Served, &thread);
    bench.put(Space::Served, &acme(1).state(&Author::number(1), THEN, &[], None));
    assert_eq!(listener.hears().await, [root(&thread, &[1], 2)], "and nothing of other kinds");
}

#[tokio::test]
async fn s5_the_past_is_repositories_then_roots_and_a_restart_tells_it_again() {
    let bench = Bench::new();
    bench.put(Space::Served, &announcement(1, 0, &[A]));
    let (early, late) = (issue(&[1, 2]), issue(&[2]));
    bench.put(Space::Served, &early);
    bench.put(Space::Held, &announcement(2, 0, &[B]));
    bench.put(Space::Held, &issue(&[1]));
    bench.put(Space::Served, &announcement(3, 0, &[A, B]));
    bench.put(Space::Served, &late);
    let expected = [
        announced(1, Level::Full, &[A], 1),
        announced(2, Level::StateOnly, &[B], 3),
        announced(3, Level::Full, &[A, B], 5),
        root(&early, &[1, 2], 2),
        root(&late, &[2], 6),
        Input::Replayed,
    ];
    assert_eq!(bench.listens().await.1, expected);
    assert_eq!(bench.listens().await.1, expected, "a restart is the same walk");
}

#[tokio::test]
async fn s5_many_pages_are_told_whole_and_in_order() {
    let bench = Bench::new();
    let template = issue(&[1]).event().clone();
    let from = Provenance::direct(Time(1));
    let fill = &mut |txn: &mut dyn grasp_store::Transaction| {
        txn.put(Space::Held, &announcement(1, 0, &[A]), &from)?;
        for number in 0..11_000_u64 {
            let mut event = template.clone();
            event.content = number.to_string();
            event.id = event.hash();
            let event = VerifiedEvent::from_stored(event.to_json().into()).unwrap();
            txn.put(Space::Served, &event, &from)?;
        }
        txn.put(Space::Served, &announcement(2, 0, &[A]), &from).map(drop)
    };
    bench.store.write(fill).unwrap();
    let (mut listener, past) = bench.listens().await;
    assert_eq!(past.len(), 11_003);
    let serial = |input: &Input| match input {
        Input::Announced { serial, .. } | Input::Root { serial, .. } => *serial,
        _ => u64::MAX,
    };
    assert!(past[2..].is_sorted_by_key(serial));
    assert_eq!(past[..2].iter().map(serial).collect::<Vec<_>>(), [1, 11_002]);
    bench.put(Space::Served, &announcement(3, 0, &[A]));
    assert_eq!(listener.hears_one().await, announced(3, Level::Full, &[A], 11_003));
}

#[tokio::test]
async fn s1_a_repository_is_followed_in_full_once_it_is_served() {
    let bench = Bench::new();
    let waits = announcement(1, 0, &[A]);
    bench.put(Space::Held, &waits);
    let (mut listener, past) = bench.listens().await;
    assert_eq!(past[0], announced(1, Level::StateOnly, &[A], 1));
    bench.removes(Space::Held, &waits);
    bench.put(Space::Served, &waits);
    assert_eq!(listener.hears_one().await, announced(1, Level::Full, &[A], 2));
    // A newer version that waits changes nothing yet.
    bench.put(Space::Held, &announcement(1, 1, &[B]));
    assert_eq!(listener.hears().await, []);
    bench.removes(Space::Served, &waits);
    bench.wake.touch([repo(1)]);
    assert_eq!(listener.hears_one().await, announced(1, Level::StateOnly, &[B], 3));
}

#[tokio::test]
async fn s1_a_replaced_announcement_replaces_its_relays() {
    let bench = Bench::new();
    bench.put(Space::Served, &announcement(1, 0, &[A]));
    let (mut listener, _) = bench.listens().await;
    bench.put(Space::Served, &announcement(1, 1, &[B]));
    assert_eq!(listener.hears_one().await, announced(1, Level::Full, &[B], 2));
    assert_eq!(bench.listens().await.1[0], announced(1, Level::Full, &[B], 2));
}

#[tokio::test]
async fn s1_our_own_address_is_left_out_by_host_port_and_path_never_by_its_looks() {
    let bench = Bench::new();
    let named = [
        "wss://git.example",
        "ws://GIT.example:80/",
        "wss://git.example.evil.example",
        "wss://good.example/git.example",
        "https://nowhere.example",
        "WSS://good.example/git.example/",
        "wss://git.example:7777",
        "wss://one.too.many",
    ];
    bench.put(Space::Served, &announcement(1, 0, &named));
    let others = [
        "wss://git.example.evil.example",
        "wss://good.example/git.example",
        "wss://git.example:7777",
    ];
    assert_eq!(bench.listens().await.1[0], announced(1, Level::Full, &others, 1));
}

#[tokio::test]
async fn s1_roots_that_were_here_before_their_repository_are_told_after_it() {
    let bench = Bench::new();
    bench.put(Space::Served, &announcement(1, 0, &[A]));
    let thread = issue(&[1, 2]);
    bench.put(Space::Served, &thread);
    let (mut listener, _) = bench.listens().await;
    let other = announcement(2, 0, &[B]);
    let root = root(&thread, &[1, 2], 2);
    bench.put(Space::Served, &other);
    let expected = [announced(2, Level::Full, &[B], 3), root.clone()];
    assert_eq!(listener.hears().await, expected);
    bench.put(Space::Served, &announcement(2, 1, &[A]));
    let again = announced(2, Level::Full, &[A], 4);
    assert_eq!(listener.hears().await, [again], "it is known by now");
    bench.removes(Space::Served, &announcement(2, 1, &[A]));
    bench.wake.touch([repo(2)]);
    assert_eq!(listener.hears_one().await, Input::Withdrawn(repo(2)));
    bench.put(Space::Served, &announcement(2, 2, &[B]));
    assert_eq!(listener.hears().await, [announced(2, Level::Full, &[B], 5), root]);
}

#[tokio::test]
async fn s1_what_went_unnoticed_is_found_by_looking() {
    let bench = Bench::new();
    let (stays, goes) = (announcement(1, 0, &[A]), announcement(2, 0, &[A]));
    bench.put(Space::Served, &stays);
    bench.put(Space::Served, &goes);
    let (mut listener, _) = bench.listens().await;
    bench.removes(Space::Served, &goes);
    listener.teller.check_some().await.unwrap();
    assert_eq!(listener.heard(), [Input::Withdrawn(repo(2))]);
    bench.removes(Space::Served, &stays);
    // More was touched than anybody kept a list of.
    let many = (0..20_000_u32).map(|n| RepoId {
        owner: PubKey::from_bytes([1; 32]),
        identifier: n.to_string().parse().unwrap(),
    });
    bench.wake.touch(many);
    assert_eq!(listener.hears().await, [Input::Withdrawn(repo(1))]);
}

/// The writer itself rings and names; time passes, owners change their minds.
#[test]
fn s1_an_announcement_that_goes_withdraws_its_repository() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bench = Bench::of(&machine);
    let (mut listener, _) = runtime.block_on(bench.listens());
    let held = |owner: u64| acme(owner).announcement_listing(DOMAIN, THEN);
    for owner in [1, 2, 3] {
        assert!(machine.publishes(&held(owner)).ok);
        let Input::Announced { level, .. } = runtime.block_on(listener.hears_one()) else {
            panic!("an announcement came");
        };
        assert_eq!(level, Level::StateOnly, "it waits for git data");
    }
    let deletion = Draft::new(Kind::DELETION, THEN + 1).tag(&["e", &held(1).id.to_hex()]);
    assert!(machine.publishes(&Author::number(1).signs(deletion)).ok);
    assert_eq!(runtime.block_on(listener.hears_one()), Input::Withdrawn(repo(1)));
    machine.gives_up(&held(2));
    assert_eq!(runtime.block_on(listener.hears_one()), Input::Withdrawn(repo(2)));
    let leaves = acme(3).announcement(THEN + 1);
    machine.publishes(&leaves);
    assert_eq!(runtime.block_on(listener.hears_one()), Input::Withdrawn(repo(3)));
}

#[tokio::test]
async fn s5_the_task_tells_rests_and_ends() {
    let bench = Bench::new();
    bench.put(Space::Served, &announcement(1, 0, &[A]));
    // One place: it waits for whoever listens.
    let (sender, mut inbox) = mpsc::channel(1);
    let closing = CancellationToken::new();
    let task = tokio::spawn(run(bench.feed(), sender, closing.clone()));
    assert_eq!(inbox.recv().await, Some(announced(1, Level::Full, &[A], 1)));
    assert_eq!(inbox.recv().await, Some(Input::Replayed));
    bench.put(Space::Served, &announcement(1, 1, &[B]));
    assert_eq!(inbox.recv().await, Some(announced(1, Level::Full, &[B], 2)));
    closing.cancel();
    task.await.unwrap();
    assert_eq!(inbox.recv().await, None);
}
