//! What happened lately, for people who watch: a short list, and a word to everybody who listens. It is
//! read off our own store behind the writer's back, at most once a second, so nobody waits for it.

mod tail;

pub use tail::run;

use crate::report::Activity;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::broadcast;

/// Kept for those who look later.
const LATEST_MAX: usize = 50;
/// A listener who is further behind than this is told that everything may have changed.
const SIGNALS_LEN: usize = 256;

#[derive(Debug, Clone)]
pub enum Signal {
    Happened(Arc<Activity>),
    /// Pages about these are out of date.
    Changed(Arc<BTreeSet<String>>),
}

#[derive(Debug)]
pub struct Activities {
    latest: Mutex<VecDeque<Arc<Activity>>>,
    signals: broadcast::Sender<Signal>,
    /// Topics that were touched since the last word about them.
    touched: Mutex<BTreeSet<String>>,
}

impl Default for Activities {
    fn default() -> Self {
        let (latest, touched) = (Mutex::default(), Mutex::default());
        Self { latest, signals: broadcast::channel(SIGNALS_LEN).0, touched }
    }
}

pub const HOME: &str = "home";
pub const RELAYS: &str = "relays";
pub const PURGATORY: &str = "purgatory";
pub const EVERY_REPOSITORY: &str = "repo";

/// Topics told of at once; beyond that whoever looks at any repository looks again.
const TOPICS_MAX: usize = 100;

impl Activities {
    /// The newest first.
    pub fn latest(&self) -> Vec<Activity> {
        self.latest.lock().iter().map(|it| Activity::clone(it)).collect()
    }

    pub fn listen(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    /// What happened before is not told twice: it comes first again, and how often is counted.
    pub fn note(&self, mut activity: Activity) {
        self.touch(HOME);
        if activity.kind == "relay" {
            self.touch(RELAYS);
        }
        if let Some(repository) = &activity.repository {
            self.touch(&format!("repo:{repository}"));
        }
        let mut latest = self.latest.lock();
        let before = latest.iter().position(|it| is_same(it, &activity));
        if let Some(before) = before.and_then(|at| latest.remove(at)) {
            activity.count = activity.count.saturating_add(before.count);
        }
        let activity = Arc::new(activity);
        latest.push_front(Arc::clone(&activity));
        latest.truncate(LATEST_MAX);
        // Nobody may be listening.
        let _ = self.signals.send(Signal::Happened(activity));
    }

    /// Pages about this are out of date; told with the next word.
    pub fn touch(&self, topic: &str) {
        let mut touched = self.touched.lock();
        let topic = if touched.len() < TOPICS_MAX { topic } else { EVERY_REPOSITORY };
        if !touched.contains(topic) {
            touched.insert(topic.to_owned());
        }
    }

    /// Tells whatever was touched.
    fn tell(&self) {
        let touched = std::mem::take(&mut *self.touched.lock());
        if !touched.is_empty() {
            let _ = self.signals.send(Signal::Changed(Arc::new(touched)));
        }
    }
}

fn is_same(one: &Activity, other: &Activity) -> bool {
    (&one.kind, &one.text, &one.repository) == (&other.kind, &other.text, &other.repository)
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::Time;

    fn happened(number: u64) -> Activity {
        let (at, text) = (Time(number), format!("number {number}"));
        let repository = Some("npub1x/acme".into());
        Activity { at, kind: "event".into(), text, repository, name: None, count: 1 }
    }

    #[test]
    fn what_happens_again_is_counted_and_comes_first() {
        let activities = Activities::default();
        let issue = |at: u64| Activity { at: Time(at), text: "an issue".into(), ..happened(0) };
        (1..=11).for_each(|at| activities.note(issue(at)));
        activities.note(happened(12));
        activities.note(Activity { repository: Some("npub1y/other".into()), ..issue(13) });
        let mut ear = activities.listen();
        activities.note(issue(14));
        let latest = activities.latest();
        let told: Vec<(u64, u64)> = latest.iter().map(|it| (it.at.0, it.count)).collect();
        assert_eq!(told, [(14, 12), (13, 1), (12, 1)]);
        assert!(matches!(ear.try_recv(), Ok(Signal::Happened(it)) if it.count == 12));
    }

    #[test]
    fn the_list_is_short_and_the_newest_comes_first() {
        let activities = Activities::default();
        (0..200).for_each(|number| activities.note(happened(number)));
        let latest = activities.latest();
        assert_eq!((latest.len(), latest[0].at), (LATEST_MAX, Time(199)));
    }

    #[test]
    fn listeners_hear_what_happened_and_then_once_what_it_touched() {
        let activities = Activities::default();
        let mut ear = activities.listen();
        activities.note(happened(1));
        activities.note(happened(2));
        activities.tell();
        activities.tell();
        assert!(matches!(ear.try_recv(), Ok(Signal::Happened(it)) if it.at == Time(1)));
        assert!(matches!(ear.try_recv(), Ok(Signal::Happened(it)) if it.at == Time(2)));
        let Ok(Signal::Changed(topics)) = ear.try_recv() else { panic!() };
        assert_eq!(topics.iter().collect::<Vec<_>>(), [HOME, "repo:npub1x/acme"]);
        assert!(ear.try_recv().is_err(), "nothing more was touched");
    }
}
