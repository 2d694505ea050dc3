//! How fast a client moves bytes while the server waits for it, over the last ten seconds. Work of
//! the server itself is never counted against the client.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The window, in steps of a second.
const WINDOW_SECS: u64 = 10;
/// A client that kept the server waiting for less than this within the window keeps up.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// One second of a transfer.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    second: u64,
    bytes: u64,
    waited: Duration,
}

/// Times are since the start of the transfer.
#[derive(Debug, Default)]
struct RateWindow {
    steps: [Step; WINDOW_SECS as usize],
    waiting_since: Option<Duration>,
}

impl RateWindow {
    fn step(&mut self, second: u64) -> &mut Step {
        let at = (second % WINDOW_SECS) as usize;
        let step = &mut self.steps[at];
        if step.second != second {
            *step = Step { second, ..Step::default() };
        }
        step
    }

    fn add_bytes(&mut self, bytes: u64, now: Duration) {
        let step = self.step(now.as_secs());
        step.bytes = step.bytes.saturating_add(bytes);
    }

    fn begin_wait(&mut self, now: Duration) {
        self.waiting_since.get_or_insert(now);
    }

    fn end_wait(&mut self, now: Duration) {
        let Some(since) = self.waiting_since.take() else { return };
        let mut from = since.max(now.saturating_sub(Duration::from_secs(WINDOW_SECS)));
        while from < now {
            let end = Duration::from_secs(from.as_secs() + 1).min(now);
            self.step(from.as_secs()).waited += end - from;
            from = end;
        }
    }

    /// `None` if the client keeps up.
    fn bytes_per_sec(&mut self, now: Duration) -> Option<u64> {
        if self.waiting_since.is_some() {
            self.end_wait(now);
            self.begin_wait(now);
        }
        let oldest = (now.as_secs() + 1).saturating_sub(WINDOW_SECS);
        let recent = self.steps.iter().filter(|step| step.second >= oldest);
        let (bytes, waited) = recent.fold((0_u64, Duration::ZERO), |(bytes, waited), step| {
            (bytes.saturating_add(step.bytes), waited + step.waited)
        });
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        (waited >= WAITED_MIN).then(|| bytes.saturating_mul(1_000) / waited_ms)
    }
}

/// The rate of one transfer, told by its task and read by the slots.
#[derive(Debug)]
pub(super) struct RateMeter {
    started: Instant,
    window: Mutex<RateWindow>,
}

impl Default for RateMeter {
    fn default() -> Self {
        Self { started: Instant::now(), window: Mutex::default() }
    }
}

impl RateMeter {
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn add_bytes(&self, bytes: usize) {
        self.window.lock().add_bytes(bytes as u64, self.age());
    }

    pub(super) fn begin_wait(&self) {
        self.window.lock().begin_wait(self.age());
    }

    pub(super) fn end_wait(&self) {
        self.window.lock().end_wait(self.age());
    }

    pub(super) fn bytes_per_sec(&self) -> Option<u64> {
        self.window.lock().bytes_per_sec(self.age())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_client_that_was_never_waited_for_has_no_rate() {
        let mut window = RateWindow::default();
        window.add_bytes(1_000, secs(1));
        assert_eq!(window.bytes_per_sec(secs(60)), None);
    }

    #[test]
    fn only_waiting_counts_as_time() {
        let mut window = RateWindow::default();
        window.begin_wait(secs(1));
        window.end_wait(secs(3));
        window.add_bytes(1_000, secs(3));
        assert_eq!(window.bytes_per_sec(secs(8)), Some(500));
    }

    #[test]
    fn a_wait_that_goes_on_counts_already() {
        let mut window = RateWindow::default();
        window.begin_wait(secs(0));
        assert_eq!(window.bytes_per_sec(Duration::from_millis(900)), None);
        assert_eq!(window.bytes_per_sec(secs(1)), Some(0));
        window.add_bytes(300, secs(2));
        assert_eq!(window.bytes_per_sec(secs(3)), Some(100));
    }

    #[test]
    fn what_lies_more_than_ten_seconds_back_is_forgotten() {
        let mut window = RateWindow::default();
        window.add_bytes(1 << 30, secs(0));
        window.begin_wait(secs(0));
        assert!(window.bytes_per_sec(secs(5)).unwrap() > 1 << 20);
        assert_eq!(window.bytes_per_sec(secs(20)), Some(0));
        window.end_wait(secs(20));
        assert_eq!(window.bytes_per_sec(secs(40)), None);
    }

    #[test]
    fn a_steady_trickle_has_its_rate() {
        let mut window = RateWindow::default();
        window.begin_wait(secs(0));
        for second in 0..100 {
            window.add_bytes(2_048, secs(second));
        }
        let rate = window.bytes_per_sec(secs(100)).unwrap();
        assert!((1_800..=2_300).contains(&rate), "{rate}");
    }
}
