//! In which steps a large history is fetched (S-51): each step wants one object further along a line
//! of objects, oldest first, and everything before it is here then. Pure: it hears how many bytes a
//! step took, or that it broke. Invariant: it always comes to an end.

use grasp_core::Oid;

/// Steps that break one after the other before it is left for another time.
const BREAKS_MAX: usize = 4;
/// The same where a step cannot be made smaller.
const SMALLEST_BREAKS_MAX: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSteps {
    /// Oldest first.
    points: Vec<Oid>,
    /// How many of them are here.
    done: usize,
    /// How many the next step covers.
    size: usize,
    /// More than this broke.
    size_max: usize,
    /// How large a step should be.
    step_bytes: u64,
    /// Since the last step that arrived.
    breaks: usize,
}

impl FetchSteps {
    pub fn new(points: Vec<Oid>, step_bytes: u64) -> Self {
        Self { points, done: 0, size: 1, size_max: usize::MAX, step_bytes, breaks: 0 }
    }

    /// What to want next; `None` at the end.
    pub fn next_want(&self) -> Option<Oid> {
        self.points.get(self.done..self.done + self.covered())?.last().copied()
    }

    /// The step is here, and took so many bytes. The next one is at most twice as long.
    pub fn arrived(&mut self, bytes: u64) {
        let covered = self.covered().max(1);
        self.done += covered;
        self.breaks = 0;
        let bytes_each = (bytes / covered as u64).max(1);
        let fitting = usize::try_from(self.step_bytes / bytes_each).unwrap_or(usize::MAX);
        self.size = fitting.min(covered.saturating_mul(2)).min(self.size_max).max(1);
    }

    /// The step broke; the next one is at most half as long. False if it is not worth another try.
    pub fn broke(&mut self) -> bool {
        self.breaks += 1;
        let breaks_max = if self.covered() <= 1 { SMALLEST_BREAKS_MAX } else { BREAKS_MAX };
        self.size_max = (self.covered() / 2).max(1);
        self.size = self.size.min(self.size_max);
        self.breaks < breaks_max
    }

    fn covered(&self) -> usize {
        self.size.min(self.points.len() - self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn points(count: u8) -> Vec<Oid> {
        (1..=count).map(|n| Oid::from_bytes([n; 20])).collect()
    }

    /// Which points were wanted, where each point has so many bytes and no answer has more than so many.
    fn run(bytes: &[u64], cut_at: u64) -> (Vec<u8>, u64) {
        let mut steps = FetchSteps::new(points(u8::try_from(bytes.len()).unwrap()), 32 * MIB);
        let (mut wanted, mut here, mut received) = (Vec::new(), 0, 0);
        while let Some(want) = steps.next_want() {
            let until = usize::from(want.as_bytes()[0]);
            let step: u64 = bytes.get(here..until).unwrap().iter().sum();
            received += step.min(cut_at);
            wanted.push(want.as_bytes()[0]);
            if step <= cut_at {
                steps.arrived(step);
                here = until;
            } else if !steps.broke() {
                break;
            }
        }
        (wanted, received)
    }

    #[test]
    fn s51_a_step_is_about_as_large_as_it_should_be() {
        let (wanted, received) = run(&[16 * MIB; 64], u64::MAX);
        assert_eq!(wanted.get(..4), Some(&[1, 3, 5, 7][..]), "32 MiB from the second on");
        assert_eq!((wanted.last(), received), (Some(&64), 1_024 * MIB), "no byte twice");
        let (wanted, _) = run(&[MIB; 100], u64::MAX);
        assert_eq!(wanted, [1, 3, 7, 15, 31, 63, 95, 100], "it doubles until it is large enough");
        let (wanted, _) = run(&[1; 200], u64::MAX);
        assert_eq!(wanted, [1, 3, 7, 15, 31, 63, 127, 200], "a small history takes few steps");
        let mut uneven = [MIB; 60];
        uneven[31] = 500 * MIB;
        let (wanted, _) = run(&uneven, u64::MAX);
        assert_eq!(wanted, [1, 3, 7, 15, 31, 60], "one that is too large is followed by ...");
        uneven[20] = 500 * MIB;
        let (wanted, _) = run(&uneven, u64::MAX);
        assert_eq!(wanted.get(4..6), Some(&[31, 32][..]), "... a small one");
    }

    #[test]
    fn s51_a_server_that_breaks_off_gets_smaller_steps_and_is_not_asked_for_larger_ones_again() {
        let (wanted, received) = run(&[MIB; 40], 10 * MIB);
        assert_eq!(wanted.get(..5), Some(&[1, 3, 7, 15, 31][..]));
        assert_eq!(wanted.get(5..9), Some(&[23, 31, 39, 40][..]), "half of what broke");
        assert_eq!(received, 50 * MIB, "one step was fetched in vain");
    }

    #[test]
    fn s51_what_breaks_again_and_again_is_left_for_another_time() {
        assert_eq!(run(&[MIB; 5], 0), (vec![1, 1], 0));
        let mut last_is_large = [1; 20];
        last_is_large[19] = 100;
        let (wanted, _) = run(&last_is_large, 50);
        assert_eq!(wanted, [1, 3, 7, 15, 20, 17, 19, 20, 20]);
        assert_eq!(FetchSteps::new(Vec::new(), 1).next_want(), None);
    }
}
