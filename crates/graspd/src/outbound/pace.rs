//! Whether an answer still moves. Only time spent waiting for the other side counts, so that work of
//! our own is never held against it. Pure: it is told how long was waited.

use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// In any span of this length...
    pub span: Duration,
    /// ...at least so much has to come.
    pub bytes_min: u64,
}

impl Default for Silence {
    fn default() -> Self {
        Self { span: Duration::from_secs(5 * 60), bytes_min: 64 << 10 }
    }
}

#[derive(Debug)]
pub(super) struct Pace {
    silence: Silence,
    /// All waiting so far: the clock of this conversation.
    waited: Duration,
    /// When something came and how much, oldest first; no more than is needed to make the minimum.
    recent: VecDeque<(Duration, u64)>,
    recent_bytes: u64,
}

/// Pieces that come closer together than this part of the span are remembered as one.
const GRAIN: u32 = 256;

impl Pace {
    pub(super) fn new(silence: Silence) -> Self {
        Self { silence, waited: Duration::ZERO, recent: VecDeque::new(), recent_bytes: 0 }
    }

    /// How much longer to wait for the next piece. Nothing left: it has gone silent.
    pub(super) fn patience(&self) -> Duration {
        let enough = self.recent_bytes >= self.silence.bytes_min;
        let since = self.recent.front().filter(|_| enough).map_or(Duration::ZERO, |first| first.0);
        (since + self.silence.span).saturating_sub(self.waited)
    }

    pub(super) fn waited(&mut self, time: Duration) {
        self.waited = self.waited.saturating_add(time);
    }

    pub(super) fn moved(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.recent_bytes = self.recent_bytes.saturating_add(bytes);
        match self.recent.back_mut() {
            Some((at, sum)) if self.waited - *at < self.silence.span / GRAIN => *sum += bytes,
            _ => self.recent.push_back((self.waited, bytes)),
        }
        while let Some((_, first)) = self.recent.front()
            && self.recent_bytes - first >= self.silence.bytes_min
        {
            self.recent_bytes -= first;
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SPAN: Duration = Duration::from_secs(300);

    fn pace() -> Pace {
        Pace::new(Silence::default())
    }

    /// Seconds until one that sends `bytes` every second is given up.
    fn lasts(bytes: usize, secs_max: u64) -> Option<u64> {
        let mut pace = pace();
        for second in 0..secs_max {
            if pace.patience().is_zero() {
                return Some(second);
            }
            pace.waited(SECOND);
            pace.moved(bytes);
        }
        None
    }

    #[test]
    fn s37_silence_of_five_minutes_ends_a_fetch() {
        let mut pace = pace();
        pace.waited(SPAN - SECOND);
        assert_eq!(pace.patience(), SECOND);
        pace.waited(SECOND);
        assert_eq!(pace.patience(), Duration::ZERO);
    }

    #[test]
    fn s37_who_drips_is_found_out_and_a_slow_line_is_not() {
        assert_eq!(lasts(1, 1_000), Some(300));
        assert_eq!(lasts((64 << 10) / 310, 1_000), Some(300));
        assert_eq!(lasts((64 << 10) / 290, 100_000), None, "it may take as long as it needs");
    }

    #[test]
    fn s37_a_burst_does_not_pay_for_later_silence() {
        let mut pace = pace();
        for _ in 0..100 {
            pace.moved(1 << 20);
        }
        pace.waited(SPAN - SECOND);
        pace.moved(64 << 10);
        assert_eq!(pace.patience(), SPAN, "counted from when it came");
        pace.waited(SPAN);
        assert_eq!(pace.patience(), Duration::ZERO);
    }

    #[test]
    fn any_span_counts_and_not_only_whole_ones() {
        let mut pace = pace();
        pace.waited(200 * SECOND);
        pace.moved(64 << 10);
        pace.waited(299 * SECOND);
        assert_eq!(pace.patience(), SECOND);
        pace.moved(1);
        assert_eq!(pace.patience(), SECOND, "one byte buys no time");
    }

    #[test]
    fn it_remembers_little() {
        let mut pace = pace();
        for _ in 0..1_000_000 {
            pace.waited(Duration::from_millis(1));
            pace.moved(1);
        }
        assert!(pace.recent.len() <= 2 * GRAIN as usize, "{}", pace.recent.len());
    }
}
