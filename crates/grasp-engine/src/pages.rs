//! Where the next page of history starts, or whether there is one (S-19). `until` is inclusive, so
//! a second with more events than a page could repeat for ever: every step either moves `until` or
//! ends, whatever the relay answers.

use crate::vocabulary::{Hint, Tally};
use grasp_core::Timestamp;

/// How far one filter has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Paging {
    /// The first page has none.
    pub(crate) until: Option<Timestamp>,
    /// The most the relay gave at once for this filter.
    pub(crate) largest: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    Page(Paging),
    /// A page as large as any was filled by one second: it is stepped over, and told.
    StepOver(Paging, Timestamp),
}

/// Pages smaller than this are no sign of a limit; no relay gives out so little at a time.
const LIMIT_MIN: u32 = 90;

impl Paging {
    pub(crate) fn next(&self, came: &Tally, hint: Option<Hint>) -> Next {
        let Some(oldest) = came.oldest.filter(|_| came.received > 0) else { return Next::Done };
        if hint == Some(Hint::Finish) {
            return Next::Done;
        }
        let largest = self.largest.max(came.received);
        let moved = self.until.is_none_or(|until| oldest < until);
        if moved {
            return Next::Page(Self { until: Some(oldest), largest });
        }
        // All of it in the second we asked for. A relay that has given more at once than this
        // would have gone on to older ones, had it any.
        if came.received < self.largest && hint != Some(Hint::More) {
            return Next::Done;
        }
        let Some(before) = oldest.0.checked_sub(1) else { return Next::Done };
        let step = Self { until: Some(Timestamp(before)), largest };
        match came.received >= LIMIT_MIN {
            true => Next::StepOver(step, oldest),
            false => Next::Page(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A relay with these times (any order) that gives out `cap` at once: the times received, the
    /// number of pages, and the seconds that were told to be too full.
    fn walk(times: &[u64], cap: usize, hints: bool) -> (Vec<u64>, usize, Vec<u64>) {
        let mut sorted = times.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let (mut paging, mut got, mut pages, mut full) =
            (Paging::default(), Vec::new(), 0, Vec::new());
        loop {
            let until = paging.until.map_or(u64::MAX, |until| until.0);
            let matching: Vec<u64> = sorted.iter().copied().filter(|at| *at <= until).collect();
            let page = &matching[..matching.len().min(cap)];
            pages += 1;
            assert!(pages < 10_000, "never ends");
            got.extend_from_slice(page);
            let hint = match hints {
                true if matching.len() > cap => Some(Hint::More),
                true => Some(Hint::Finish),
                false => None,
            };
            let oldest = page.last().copied().map(Timestamp);
            let tally = Tally { received: u32::try_from(page.len()).unwrap(), oldest };
            match paging.next(&tally, hint) {
                Next::Done => break,
                Next::Page(next) => paging = next,
                Next::StepOver(next, second) => {
                    full.push(second.0);
                    paging = next;
                }
            }
        }
        got.sort_unstable();
        got.dedup();
        (got, pages, full)
    }

    #[test]
    fn s19_pages_follow_until_nothing_new_comes() {
        let times: Vec<u64> = (1..=1_000).collect();
        for cap in [11, 100, 499, 500, 1_000, 5_000] {
            let (got, _, full) = walk(&times, cap, false);
            assert_eq!(got, times, "{cap}");
            assert!(full.is_empty(), "{cap}");
        }
    }

    #[test]
    fn s19_a_hint_saves_the_last_page() {
        let times: Vec<u64> = (1..=50).collect();
        assert_eq!(walk(&times, 100, true).1, 1);
        assert_eq!(walk(&times, 100, false).1, 2);
        assert_eq!(walk(&[], 100, false).1, 1);
    }

    #[test]
    fn s19_a_second_that_is_too_full_is_stepped_over_and_told() {
        let mut times = vec![500; 300];
        times.extend([1, 2, 3, 900, 901]);
        let (got, _, full) = walk(&times, 100, false);
        assert_eq!(got, [1, 2, 3, 500, 900, 901]);
        assert_eq!(full, [500]);
        let (got, _, full) = walk(&[7; 200], 100, false);
        assert_eq!((got, full), (vec![7], vec![7]));
    }

    #[test]
    fn s19_few_events_in_one_second_are_no_alarm() {
        let (got, pages, full) = walk(&[5, 5, 5], 100, false);
        assert_eq!((got, full), (vec![5], vec![]));
        assert!(pages <= 3);
    }

    #[test]
    fn s19_a_relay_that_ignores_until_ends_all_the_same() {
        let mut paging = Paging::default();
        let tally = Tally { received: 100, oldest: Some(Timestamp(1_000)) };
        for _ in 0..3 {
            match paging.next(&tally, None) {
                Next::Done => return,
                Next::Page(next) | Next::StepOver(next, _) => paging = next,
            }
        }
        // Events newer than `until` do not match the filter, so they are not in the tally at all.
        assert_eq!(paging.next(&Tally::default(), None), Next::Done);
    }
}
