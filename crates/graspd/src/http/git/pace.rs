//! Whether the other end keeps up. Only time spent waiting for it counts, so work of our own is never
//! held against it. Knows no clock; a peer that stops is found out within two spans.

use std::time::Duration;

/// What a peer must move on average while it keeps us waiting.
const BYTES_PER_SEC_MIN: u64 = 1024;
/// The average is taken over this much waiting.
const SPAN: Duration = Duration::from_secs(30);
const SPAN_BYTES_MIN: u64 = BYTES_PER_SEC_MIN * SPAN.as_secs();
/// Not held against anyone: connections need a moment to get going.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fewer than {BYTES_PER_SEC_MIN} bytes per second arrived over {} s", SPAN.as_secs())]
pub(super) struct TooSlow;

#[derive(Debug)]
pub(super) struct Pace {
    span: Duration,
    bytes_min: u64,
    waited: Duration,
    moved_bytes: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::over(GRACE, 0)
    }
}

impl Pace {
    fn over(span: Duration, bytes_min: u64) -> Self {
        Self { span, bytes_min, waited: Duration::ZERO, moved_bytes: 0 }
    }

    /// For a peer that has to think first: silent for this long at most.
    pub(super) fn patient(silence: Duration) -> Self {
        Self::over(silence, SPAN_BYTES_MIN)
    }

    /// How much longer the peer may keep silent before it has to be asked how it is doing.
    pub(super) fn patience(&self) -> Duration {
        self.span.saturating_sub(self.waited)
    }

    pub(super) fn moved(&mut self, bytes: usize) {
        self.moved_bytes = self.moved_bytes.saturating_add(bytes as u64);
    }

    pub(super) fn waited(&mut self, time: Duration) -> Result<(), TooSlow> {
        self.waited = self.waited.saturating_add(time);
        if self.waited < self.span {
            return Ok(());
        }
        let too_slow = self.moved_bytes < self.bytes_min;
        *self = Self::over(SPAN, SPAN_BYTES_MIN);
        if too_slow { Err(TooSlow) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_is_borne_for_the_grace_and_one_span() {
        let mut pace = Pace::default();
        assert_eq!(pace.patience(), GRACE);
        assert_eq!(pace.waited(GRACE), Ok(()));
        assert_eq!(pace.waited(SPAN - SECOND), Ok(()));
        assert_eq!(pace.patience(), SECOND);
        assert_eq!(pace.waited(SECOND), Err(TooSlow));
    }

    #[test]
    fn who_drips_a_byte_now_and_then_is_found_out() {
        let mut pace = Pace::default();
        let verdicts: Vec<_> = (0..40)
            .map(|_| {
                pace.moved(1);
                pace.waited(SECOND)
            })
            .collect();
        assert_eq!(verdicts.iter().position(Result::is_err), Some(39));
    }

    #[test]
    fn a_slow_line_may_take_as_long_as_it_needs() {
        let mut pace = Pace::default();
        for _ in 0..3_600 {
            pace.moved(1_100);
            assert_eq!(pace.waited(SECOND), Ok(()));
        }
    }

    #[test]
    fn a_burst_does_not_pay_for_later_silence() {
        let mut pace = Pace::default();
        pace.moved(100 << 20);
        assert_eq!(pace.waited(GRACE), Ok(()));
        assert_eq!(pace.waited(SPAN), Err(TooSlow));
    }

    #[test]
    fn who_has_to_think_first_gets_the_time_and_no_more() {
        let mut pace = Pace::patient(300 * SECOND);
        assert_eq!(pace.waited(299 * SECOND), Ok(()));
        assert_eq!(pace.waited(SECOND), Err(TooSlow));
    }
}
