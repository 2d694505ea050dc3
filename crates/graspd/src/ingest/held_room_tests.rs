//! The shares of the table of held events: right after every change and every start.

use super::crash_tests::machine::{DOMAIN, Disk, Machine};
use super::refused::is_refused;
use super::{HeldFigures, held_figures};
use grasp_core::held_share::{HeldClass, HeldSide, HeldSource, HeldUse};
use grasp_core::policy::{Answer, RefusalClass};
use grasp_core::{Time, VerifiedEvent};
use grasp_store::{Provenance, SourceKind};
use grasp_testkit::{Author, Repository};

const THEN: u64 = 1_700_000_000;
/// As the machine has it.
const TABLE: HeldUse = HeldUse { events: 1_000, bytes: 64 << 20 };
/// A tenth of what one side may hold of announcements.
const PER_RELAY: u64 = 25;

fn from_relay(name: &str) -> Provenance {
    let relay = Some(format!("wss://{name}.example"));
    Provenance { source: SourceKind::Live, relay, received: Time(1), released: None }
}

fn announcement(number: u64) -> VerifiedEvent {
    Repository::new(Author::number(number), "acme").announcement_listing(DOMAIN, THEN)
}

fn offers(machine: &mut Machine, event: &VerifiedEvent, relay: &str) -> Answer {
    machine.is_offered(event.event().clone(), from_relay(relay)).unwrap()
}

fn figures(machine: &Machine) -> HeldFigures {
    held_figures(&*machine.store.read().unwrap(), TABLE).unwrap()
}

fn synced(machine: &Machine, class: HeldClass) -> u64 {
    let figures = figures(machine);
    let found = figures.classes.iter().find(|it| (it.0, it.1) == (HeldSide::Sync, class));
    found.unwrap().2.events
}

#[test]
fn one_relay_fills_its_share_of_announcements_and_nothing_else() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    for number in 0..PER_RELAY {
        assert!(offers(&mut machine, &announcement(number), "bad").ok);
    }
    let extra = announcement(PER_RELAY);
    let refused = offers(&mut machine, &extra, "bad");
    assert_eq!((refused.ok, refused.refusal), (false, Some(RefusalClass::NoRoom)));
    let text = "rate-limited: too many announcements from the relay wss://bad.example are waiting \
                for git data on this server; try again later";
    assert_eq!(refused.text, text);
    assert!(!is_refused(&*machine.store.read().unwrap(), &extra.id).unwrap(), "asked for again");
    let bad = HeldSource::Relay("wss://bad.example".to_owned());
    let full: Vec<_> = figures(&machine).full_sources.into_iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(full, [(HeldClass::Announcement, bad)]);
    assert!(offers(&mut machine, &extra, "good").ok, "another relay has its own share");
    assert!(machine.publishes(&announcement(PER_RELAY + 1)).ok, "clients have theirs");
    assert_eq!(synced(&machine, HeldClass::Announcement), PER_RELAY + 1);
}

#[test]
fn what_is_counted_survives_a_restart_and_goes_with_its_events() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let announced = announcement(1);
    assert!(offers(&mut machine, &announced, "one").ok);
    let acme = Repository::new(Author::number(1), "acme");
    let oid = "1111111111111111111111111111111111111111";
    let state = acme.state(&acme.owner, THEN + 1, &[("refs/heads/main", oid)], None);
    assert!(offers(&mut machine, &state, "one").ok);
    let before = figures(&machine);
    assert_eq!(synced(&machine, HeldClass::Announcement), 1);
    assert_eq!(synced(&machine, HeldClass::Other), 1);
    drop(machine);
    let mut machine = disk.boots();
    assert!(machine.recovers());
    assert_eq!(figures(&machine), before);
    let newer = acme.state(&acme.owner, THEN + 2, &[("refs/heads/main", oid)], None);
    assert!(offers(&mut machine, &newer, "two").ok, "it takes the place of the older");
    assert_eq!(synced(&machine, HeldClass::Other), 1);
    machine.gives_up(&newer);
    assert_eq!(synced(&machine, HeldClass::Other), 0);
}
