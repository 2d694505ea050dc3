//! How far the second server has come, told from what both say. Pure: two reports in, what is new out.

use crate::report::{Mirror, Repo, Verdict};

/// What both servers say of the repository at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Scene {
    pub(super) first: Option<Repo>,
    pub(super) second: Option<Repo>,
}

/// What has happened so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Story {
    chapter: Chapter,
    /// What the first says of the second, and the reverse.
    pub(super) verdicts: [Option<(Verdict, String)>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Chapter {
    #[default]
    Nothing,
    Seen,
    Fetched,
    RefsEqual,
    Agreed,
}

impl Story {
    /// Each chapter is told once, in order, whatever was missed in between.
    pub(super) fn handle(&mut self, scene: &Scene, addresses: [&str; 2]) -> Vec<&'static str> {
        let [first, second] = addresses;
        self.verdicts = [
            scene.first.as_ref().and_then(|it| verdict(it, second)),
            scene.second.as_ref().and_then(|it| verdict(it, first)),
        ];
        let now = chapter(scene, &self.verdicts);
        let told = TOLD.iter().filter(|(at, _)| *at > self.chapter && *at <= now);
        let told = told.map(|(_, words)| *words).collect();
        self.chapter = self.chapter.max(now);
        told
    }

    pub(super) fn is_over(&self) -> bool {
        self.chapter == Chapter::Agreed
    }

    /// There is something that both have.
    pub(super) fn may_be_compared(&self) -> bool {
        self.chapter >= Chapter::RefsEqual
    }

    pub(super) fn waits_for(&self) -> &'static str {
        match self.chapter {
            Chapter::Nothing => "second server: waiting for the announcement",
            Chapter::Seen => "second server: fetching git data",
            Chapter::Fetched => "second server: waiting for its refs",
            Chapter::RefsEqual => "both servers: comparing",
            Chapter::Agreed => "both servers agree",
        }
    }
}

const TOLD: [(Chapter, &str); 4] = [
    (Chapter::Seen, "second server: announcement seen"),
    (Chapter::Fetched, "second server: git data fetched"),
    (Chapter::RefsEqual, "second server: refs equal"),
    (Chapter::Agreed, "both servers: compared, and agreed"),
];

fn chapter(scene: &Scene, verdicts: &[Option<(Verdict, String)>; 2]) -> Chapter {
    let (Some(first), Some(second)) = (&scene.first, &scene.second) else {
        return if scene.second.is_some() { Chapter::Seen } else { Chapter::Nothing };
    };
    let fetched = second.standing == "served" && second.objects_missing == 0;
    let tips =
        |repo: &Repo| repo.refs.iter().map(|it| (it.name.clone(), it.oid)).collect::<Vec<_>>();
    let agree = |it: &Option<(Verdict, String)>| matches!(it, Some((Verdict::Equal, _)));
    match () {
        () if !fetched || second.refs.is_empty() => Chapter::Seen,
        () if tips(first) != tips(second) => Chapter::Fetched,
        () if verdicts.iter().all(agree) => Chapter::Agreed,
        () => Chapter::RefsEqual,
    }
}

fn verdict(of: &Repo, about: &str) -> Option<(Verdict, String)> {
    let at = |mirror: &&Mirror| mirror.place.trim_end_matches('/') == about;
    of.mirrors.iter().find(at).map(|mirror| (mirror.verdict, mirror.because.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::{EventId, Oid, Time, Timestamp};

    fn repo(standing: &str, tip: Option<u8>, mirror: Option<(&str, Verdict)>) -> Option<Repo> {
        let origin = crate::report::Origin {
            id: EventId::from_bytes([1; 32]),
            kind: 30617,
            author: String::new(),
            created_at: Timestamp(0),
            source: "direct".into(),
            relay: None,
            received: Time(0),
            released: None,
        };
        let tip = tip.map(|n| crate::report::Ref {
            name: "refs/heads/main".into(),
            oid: Oid::from_bytes([n; 20]),
            signed: true,
        });
        let mirror = mirror.map(|(place, verdict)| Mirror {
            place: place.into(),
            relay: None,
            clone: None,
            verdict,
            because: "so".into(),
            at: None,
            since: None,
            events: None,
            refs: None,
        });
        Some(Repo {
            now: Time(0),
            npub: String::new(),
            identifier: String::new(),
            standing: standing.into(),
            name: String::new(),
            description: String::new(),
            web: vec![],
            maintainers: vec![],
            clone: String::new(),
            nostr: String::new(),
            announcement: origin,
            state: None,
            head: None,
            refs_total: usize::from(tip.is_some()),
            refs: tip.into_iter().collect(),
            events: 0,
            fingerprint: String::new(),
            objects_missing: 0,
            threads: Default::default(),
            held: vec![],
            mirrors: mirror.into_iter().collect(),
            explain: vec![],
        })
    }

    #[test]
    fn every_chapter_is_told_once_and_in_order() {
        let at = ["a:1", "b:2"];
        let mut story = Story::default();
        let mut tell = |first, second| story.handle(&Scene { first, second }, at);
        let pushed = || repo("served", Some(1), None);
        assert_eq!(tell(pushed(), None), [""; 0]);
        let held = repo("held", None, None);
        assert_eq!(tell(pushed(), held.clone()), ["second server: announcement seen"]);
        assert_eq!(tell(pushed(), held), [""; 0]);
        let told = tell(pushed(), repo("served", Some(1), None));
        assert_eq!(told, ["second server: git data fetched", "second server: refs equal"]);
        let one = repo("served", Some(1), Some(("a:1", Verdict::Equal)));
        let lagging = repo("served", Some(1), Some(("b:2", Verdict::TheyLack)));
        assert_eq!(tell(lagging, one.clone()), [""; 0]);
        let other = repo("served", Some(1), Some(("b:2", Verdict::Equal)));
        assert_eq!(tell(other, one), ["both servers: compared, and agreed"]);
        assert!(story.is_over());
    }
}
