//! What the workloads publish and look for: repositories, issues about them, comments on those.
//! All of it is signed before any clock starts.

use crate::plan::Plan;
use crate::process::cores;
use grasp_core::{EventId, Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Random};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) announcements: Vec<VerifiedEvent>,
    pub(crate) comments: Vec<VerifiedEvent>,
    pub(crate) issues: Vec<VerifiedEvent>,
    pub(crate) authors: Vec<Author>,
    pub(crate) repositories: Vec<String>,
    now: u64,
}

const COMMENT: Kind = Kind(1111);
const LABELS: [&str; 6] = ["bug", "documentation", "question", "performance", "idea", "help"];

impl World {
    pub(crate) fn build(plan: &Plan, now: u64) -> Self {
        let authors: Vec<Author> = (0..plan.authors as u64).map(Author::number).collect();
        let announcements: Vec<VerifiedEvent> =
            (0..plan.repositories).map(|n| announcement(&authors, n, now - 10_000_000)).collect();
        let repositories: Vec<String> =
            announcements.iter().filter_map(|e| Some(e.coordinate()?.to_string())).collect();
        let mut world = Self {
            announcements,
            comments: Vec::new(),
            issues: Vec::new(),
            authors,
            repositories,
            now,
        };
        world.issues = on_all_cores(plan.issues(), |n| world.issue(n, plan.issues()));
        world.comments = on_all_cores(plan.comments(), |n| world.comment(n));
        world
    }

    /// Issues beyond those already published, for workloads that need a few more.
    pub(crate) fn more_issues(&self, count: usize, seed: usize) -> Vec<VerifiedEvent> {
        let first = seed * 1_000_000 + self.issues.len();
        on_all_cores(count, |n| self.issue(first + n, first + count))
    }

    /// One second apart, the last one now.
    fn issue(&self, number: usize, of: usize) -> VerifiedEvent {
        let mut random = Random::seeded(number as u64);
        let repository = random.pick(&self.repositories).clone();
        let age = (of - number) as u64;
        let draft = issue(&repository, number, self.now - age, &mut random);
        random.pick(&self.authors).signs(draft)
    }

    fn comment(&self, number: usize) -> VerifiedEvent {
        let mut random = Random::seeded(u64::MAX - number as u64);
        let issue = random.pick(&self.issues);
        let draft = comment(issue, issue.created_at.0 + 1, &mut random);
        random.pick(&self.authors).signs(draft)
    }

    pub(crate) fn issue_ids(&self) -> Vec<EventId> {
        self.issues.iter().map(|issue| issue.id).collect()
    }
}

/// An issue about a repository, named by its address.
pub(crate) fn issue(repository: &str, number: usize, at: u64, random: &mut Random) -> Draft {
    let owner = repository.split(':').nth(1).unwrap_or_default();
    Draft::new(Kind::ISSUE, at)
        .tag(&["a", repository])
        .tag(&["p", owner])
        .tag(&["subject", &format!("Issue number {number}: something does not work")])
        .tag(&["t", LABELS[random.index(LABELS.len())]])
        .content(&prose(random))
}

/// Names nothing but the event it answers.
pub(crate) fn comment(issue: &VerifiedEvent, at: u64, random: &mut Random) -> Draft {
    let (id, author) = (issue.id.to_hex(), issue.pubkey.to_hex());
    Draft::new(COMMENT, at)
        .tag(&["E", &id, "", &author])
        .tag(&["K", "1621"])
        .tag(&["e", &id, "", &author])
        .tag(&["k", "1621"])
        .tag(&["p", &author])
        .content(&prose(random))
}

fn announcement(authors: &[Author], number: usize, at: u64) -> VerifiedEvent {
    let name = format!("repository-{number}");
    let draft = Draft::new(Kind::ANNOUNCEMENT, at)
        .tag(&["d", &name])
        .tag(&["name", &name])
        .tag(&["clone", &format!("https://git.example/{name}.git")])
        .tag(&["relays", "wss://git.example"]);
    Random::seeded(number as u64).pick(authors).signs(draft)
}

const WORDS: [&str; 12] = [
    "the", "server", "branch", "after", "push", "does", "not", "commit", "when", "clone", "again",
    "fails",
];

/// A short paragraph: with it an issue is 500 to 900 bytes long.
fn prose(random: &mut Random) -> String {
    let words = 8 + random.index(40);
    (0..words).map(|_| *random.pick(&WORDS)).collect::<Vec<_>>().join(" ")
}

/// Results in order, work on every core: signing is what takes the time before a run.
pub(crate) fn on_all_cores<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let share = count.div_ceil(cores()).max(1);
    let mut made: Vec<Option<T>> = Vec::new();
    made.resize_with(count, || None);
    std::thread::scope(|scope| {
        for (part, slots) in made.chunks_mut(share).enumerate() {
            let make = &make;
            scope.spawn(move || {
                for (number, slot) in slots.iter_mut().enumerate() {
                    *slot = Some(make(part * share + number));
                }
            });
        }
    });
    made.into_iter().flatten().collect()
}
