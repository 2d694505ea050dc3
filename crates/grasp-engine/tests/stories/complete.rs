//! S-54: the complete ratio as a pure function, against an oracle that knows the truth.

use super::kit::{DAY, HOUR, MINUTE};
use grasp_core::Time;
use grasp_engine::{COMPLETE_DAYS_MAX, CompleteDays, MirrorLook, MirrorVerdict, complete_figures};
use grasp_testkit::world::START;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn look(repo: usize, verdict: MirrorVerdict, at: Time) -> MirrorLook<usize> {
    MirrorLook { repo, verdict, at }
}

#[test]
fn s54_complete_is_the_share_of_compared_repositories_of_which_no_mirror_has_more() {
    use MirrorVerdict::{Equal, TheyLack, Unreachable, Unverifiable, WeLack};
    let now = START.plus(DAY);
    let none = complete_figures::<usize>([], now, DAY);
    assert!((none.ratio() - 1.0).abs() < f64::EPSILON && none.permille() == 1_000);
    let looks = [
        look(1, Equal, now),
        look(1, WeLack, now),
        look(2, TheyLack, now),
        look(2, Unreachable, now),
        look(3, Equal, now),
        look(4, Unverifiable, now),
        look(5, Unreachable, now),
        // Too old to say anything.
        look(6, WeLack, START.plus(Duration::from_millis(0))),
        look(7, Equal, Time(START.0 - 1)),
    ];
    let figures = complete_figures(looks, now, DAY);
    // The sixth is exactly a day old and still counts.
    assert_eq!((figures.complete, figures.compared), (2, 4));
    assert_eq!((figures.unverifiable, figures.unreachable), (2, 2));
    assert_eq!(figures.permille(), 500);
}

#[test]
fn s54_the_lowest_figure_of_each_day_is_kept_for_thirty_days() {
    let mut days = CompleteDays::default();
    for day in 0..40 {
        let at = START.plus(DAY * day);
        assert!(days.take_in(1_000, at), "a new day");
        assert!(days.take_in(900 + u16::try_from(day).unwrap(), at.plus(MINUTE)));
        assert!(!days.take_in(1_000, at.plus(HOUR)), "it was lower before");
    }
    let kept: Vec<(Time, u16)> = days.iter().collect();
    assert_eq!(kept.len(), COMPLETE_DAYS_MAX);
    assert_eq!((kept[0].1, kept[29].1), (939, 910));
    let written = serde_json::to_string(&days).unwrap();
    assert_eq!(serde_json::from_str::<CompleteDays>(&written).unwrap(), days);
    assert!(!days.take_in(1_000, START), "a clock that was set back changes no other day");
    assert_eq!(days.iter().count(), COMPLETE_DAYS_MAX);
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

const REPOS: usize = 40;
const MIRRORS: usize = 5;

/// The truth: what each mirror has and we lack of each repository, since when, and who is away.
#[derive(Default)]
struct Truth {
    lacks: BTreeMap<(usize, usize), Time>,
    away: BTreeSet<usize>,
    closed: BTreeSet<usize>,
}

impl Truth {
    /// Something goes wrong, or is mended.
    fn fault(&mut self, random: &mut Random, now: Time) {
        let repo = usize::try_from(random.below(REPOS as u64)).unwrap();
        let mirror = usize::try_from(random.below(MIRRORS as u64)).unwrap();
        match random.below(6) {
            0 | 1 => drop(self.lacks.entry((repo, mirror)).or_insert(now)),
            2 => drop(self.lacks.remove(&(repo, mirror))),
            3 if !self.away.remove(&mirror) => drop(self.away.insert(mirror)),
            4 if !self.closed.remove(&mirror) => drop(self.closed.insert(mirror)),
            _ => {}
        }
    }

    fn verdict(&self, repo: usize, mirror: usize) -> MirrorVerdict {
        match () {
            () if self.away.contains(&mirror) => MirrorVerdict::Unreachable,
            () if self.closed.contains(&mirror) => MirrorVerdict::Unverifiable,
            () if self.lacks.contains_key(&(repo, mirror)) => MirrorVerdict::WeLack,
            () => MirrorVerdict::Equal,
        }
    }
}

/// The oracle's own computation, repository by repository, straight from the definition.
fn oracle(rows: &BTreeMap<(usize, usize), (MirrorVerdict, Time)>, now: Time) -> (u64, u64, f64) {
    use MirrorVerdict::{Equal, TheyLack, WeLack};
    let (mut complete, mut compared) = (0, 0);
    for repo in 0..REPOS {
        let of_repo = rows.iter().filter(|((it, _), _)| *it == repo);
        let young: Vec<MirrorVerdict> = of_repo
            .filter(|(_, (_, at))| now.0 - at.0 <= 24 * 3_600_000)
            .map(|(_, (verdict, _))| *verdict)
            .collect();
        if young.iter().any(|it| [Equal, WeLack, TheyLack].contains(it)) {
            compared += 1;
            complete += u64::from(!young.contains(&WeLack));
        }
    }
    let ratio = if compared == 0 { 1.0 } else { complete as f64 / compared as f64 };
    (complete, compared, ratio)
}

#[test]
fn s54_over_a_thousand_faults_in_a_month_the_figure_is_the_oracles_and_hides_no_old_lack() {
    let (mut random, mut truth) = (Random(54), Truth::default());
    let mut rows: BTreeMap<(usize, usize), (MirrorVerdict, Time)> = BTreeMap::new();
    let (mut now, end) = (START, START.plus(30 * DAY));
    // Since when each pair could be compared without a break and differed.
    let mut open_since: BTreeMap<(usize, usize), Time> = BTreeMap::new();
    let (mut faults, mut lowest, mut hidden) = (0, 1.0_f64, 0);
    while now < end {
        now = now.plus(20 * MINUTE);
        if random.below(2) == 0 {
            truth.fault(&mut random, now);
            faults += 1;
        }
        for repo in 0..REPOS {
            for mirror in 0..MIRRORS {
                let (pair, verdict) = ((repo, mirror), truth.verdict(repo, mirror));
                match verdict {
                    MirrorVerdict::WeLack => drop(open_since.entry(pair).or_insert(now)),
                    _ => drop(open_since.remove(&pair)),
                }
                // Looked at again before it is too old, as the engine does; sometimes it fails to.
                let age = rows.get(&pair).map_or(Duration::MAX, |(_, at)| now.since(*at));
                let due = age >= DAY * 3 / 4 && random.below(4) > 0;
                if due || random.below(50) == 0 {
                    rows.insert(pair, (verdict, now));
                }
            }
        }
        let looks = rows.iter().map(|((repo, _), (verdict, at))| look(*repo, *verdict, *at));
        let figures = complete_figures(looks, now, DAY);
        let (complete, compared, ratio) = oracle(&rows, now);
        assert_eq!((figures.complete, figures.compared), (complete, compared));
        assert!((figures.ratio() - ratio).abs() < f64::EPSILON);
        let young = |pair: &(usize, usize)| {
            rows.get(pair).filter(|(_, at)| now.since(*at) <= DAY).map(|(verdict, _)| *verdict)
        };
        for (pair, since) in &open_since {
            // Renewed since the lack began, so the repository does not count as complete.
            if now.since(*since) > DAY {
                assert_eq!(young(pair), Some(MirrorVerdict::WeLack), "{pair:?}");
            } else if young(pair) == Some(MirrorVerdict::Equal) {
                hidden += 1;
            }
        }
        lowest = lowest.min(ratio);
    }
    println!(
        "{faults} faults, lowest ratio {lowest:.3}, {hidden} lacks were still unseen at a look"
    );
    assert!(faults >= 1_000, "{faults}");
    assert!(lowest < 0.9 && hidden > 0, "the faults did show: {lowest}, {hidden}");
}
