//! A large server: repositories with and without git data, some with a state that waits for it,
//! threads, a few relays that answer and many at which nobody does. All of it is there before the server starts.

use super::scrape::Checks;
use super::visitor::Visitor;
use super::{CLOSED_NET, DOMAIN, HASTE, Run, plan};
use crate::events::{issue, on_all_cores};
use crate::filling;
use crate::seedling::{MAIN, Seedling};
use crate::stats::number;
use crate::sync::shared::tagged;
use anyhow::{Context, Result, ensure};
use grasp_core::{EventId, Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Random, Repository, Server, now};
use serde_json::Value;
use std::time::Duration;

const CLOSED: Kind = Kind(1632);
const AUTHORS: u64 = 500;
/// Nobody has it.
const NOWHERE: &str = "1111111111111111111111111111111111111111";
/// When no look at another place has ended for so long, the first ones are over.
const QUIET: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Town {
    pub(super) server: Server,
    pub(super) repositories: Vec<Repository>,
    pub(super) authors: Vec<Author>,
    /// About the first repository.
    pub(super) issue: EventId,
    /// The first that waits, and which repository it is about.
    pub(super) held: EventId,
    pub(super) first_held: usize,
    _popular: Vec<Server>,
}

/// Everything signed.
struct Papers {
    repositories: Vec<Repository>,
    announcements: Vec<VerifiedEvent>,
    states: Vec<VerifiedEvent>,
    held: Vec<VerifiedEvent>,
    issues: Vec<VerifiedEvent>,
    closings: Vec<VerifiedEvent>,
    authors: Vec<Author>,
}

impl Town {
    pub(super) async fn found(run: &Run) -> Result<Self> {
        let plan = run.plan.town;
        eprintln!("signing for {} repositories", plan.repositories);
        let seedling = Seedling::with_readme(&readme()).await?;
        let mut popular = Vec::new();
        for _ in 0..plan.popular {
            popular.push(Server::start(&run.binary, &[("NGIT_SYNC_ENABLED", "false")]).await);
        }
        let relays: Vec<String> = popular.iter().map(|relay| relay.address.clone()).collect();
        let papers = Papers::sign(&plan, &seedling.tip, &relays, now());
        let mut settings = vec![
            ("NGIT_DOMAIN_ALIASES", DOMAIN),
            CLOSED_NET,
            // What waits was looked for already when it is asked about.
            ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
            ("NGIT_SYNC_DIAL_GAP_MS", "20"),
        ];
        settings.extend(HASTE);
        let mut server = Server::start(&run.binary, &settings).await;
        ensure!(server.stop().await, "the server does not stop in order");
        let whole = papers.repositories.get(..plan.whole).context("a part of all")?;
        seedling.plant(whole, &server.data_path().join("git"))?;
        server.home().imports(&papers.announcements).await;
        server.home().imports(&[&papers.states[..], &papers.held].concat()).await;
        filling::put_all(&server.home().relay_path(), &papers.issues)?;
        filling::put_all(&server.home().relay_path(), &papers.closings)?;
        server.restart().await;
        let issue = papers.issues.first().context("an issue")?.id;
        let held = papers.held.first().context("a state that waits")?.id;
        let Papers { repositories, authors, .. } = papers;
        let first_held = plan.whole;
        let town =
            Self { server, repositories, authors, issue, held, first_held, _popular: popular };
        town.settles(run).await?;
        Ok(town)
    }

    /// Nothing is measured while there is less than there should be, or while the server is still
    /// finding its feet.
    async fn settles(&self, run: &Run) -> Result<()> {
        eprintln!("waiting for the first looks at others");
        let (wanted, patience) = (number(run.plan.town.repositories), run.plan.patience);
        Checks::reach(&self.server.address, |checks| checks.events >= wanted, patience).await?;
        let checks = Checks::settle(&self.server.address, QUIET, patience).await?;
        eprintln!("{checks:?}");
        let status = Visitor::to(&self.server.address).await?.reads("/api/v1/status").await?;
        let total = |name: &str| status.pointer(&format!("/totals/{name}")).and_then(Value::as_u64);
        let plan = run.plan.town;
        for (name, expected) in [
            ("announcements", plan.repositories),
            ("held", plan.held),
            ("relays", plan.popular + plan.relays),
        ] {
            let has = total(name);
            ensure!(has == Some(expected as u64), "{has:?} instead of {expected} {name}: {status}");
        }
        Ok(())
    }
}

impl Papers {
    fn sign(plan: &plan::Town, tip: &str, popular: &[String], now: u64) -> Self {
        let authors: Vec<Author> = (1..=AUTHORS).map(Author::number).collect();
        let repositories: Vec<Repository> = (0..plan.repositories)
            .map(|n| {
                let owner = Author::number(1 + n as u64 % plan.owners);
                Repository::new(owner, &format!("project-{n}"))
            })
            .collect();
        let begin = now - 30 * 24 * 3600;
        let announcements = on_all_cores(plan.repositories, |n| {
            let places = [&popular[n % popular.len()], &nobody(n % plan.relays)];
            announcement(&repositories[n], places, begin + shuffled(n, plan.repositories))
        });
        let state = |n: usize, oid: &str, at: u64| {
            let of: &Repository = &repositories[n];
            of.state(&of.owner, at, &[(MAIN, oid)], Some("main"))
        };
        let states = on_all_cores(plan.whole, |n| state(n, tip, begin + 100_000));
        let held = on_all_cores(plan.held, |n| state(plan.whole + n, NOWHERE, now - 60));
        let issues = on_all_cores(plan.issues, |n| {
            let mut random = Random::seeded(n as u64);
            let of = if n < plan.issues_of_first { 0 } else { n % plan.repositories };
            let of = repositories[of].coordinate();
            let draft = issue(&of, n, begin + 200_000 + n as u64, &mut random);
            random.pick(&authors).signs(draft)
        });
        let closings = on_all_cores(plan.issues_of_first / 2, |n| {
            closing(&repositories[0], &issues[2 * n], begin + 300_000 + n as u64)
        });
        Self { repositories, announcements, states, held, issues, closings, authors }
    }
}

/// Known to two other relays, and hosted at the second, too.
fn announcement(of: &Repository, relays: [&String; 2], at: u64) -> VerifiedEvent {
    let clones = [DOMAIN, relays[1]].map(|place| of.clone_url(place));
    let relays = [DOMAIN, relays[0], relays[1]].map(|place| format!("ws://{place}"));
    let draft = Draft::new(Kind::ANNOUNCEMENT, at).tag(&["d", &of.identifier]);
    let draft = draft.tag(&["name", &format!("Project {}", of.identifier)]);
    let draft = draft.tag(&["description", "A project like many others, told in one sentence."]);
    of.owner.signs(tagged(tagged(draft, "clone", &clones), "relays", &relays))
}

/// Every number below `of` once, in an order in which neighbours have nothing in common.
fn shuffled(number: usize, of: usize) -> u64 {
    (number * 7_919 % of) as u64
}

/// An address of this machine, a different one for each number; what is dialled there is refused.
fn nobody(number: usize) -> String {
    format!("127.1.{}.{}:9", number / 250, 1 + number % 250)
}

fn closing(of: &Repository, issue: &VerifiedEvent, at: u64) -> VerifiedEvent {
    let draft = Draft::new(CLOSED, at).tag(&["e", &issue.id.to_hex(), "", "root"]);
    of.owner.signs(draft.tag(&["a", &of.coordinate()]))
}

/// As long as many are.
fn readme() -> String {
    let part = "## Part\n\nSome words about *it*, a [link](https://example.com/) and `code`:\n\n\
                ```\ncargo run -- --help\n```\n\n- one thing\n- another\n\n";
    format!("# Project\n\n{}", part.repeat(100))
}
