//! Durations collected and ranked.

use std::time::Duration;

#[derive(Debug, Default, Clone)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, one: Duration) {
        self.0.push(one);
    }

    pub(crate) fn append(&mut self, mut more: Latencies) {
        self.0.append(&mut more.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Duration> {
        self.0.iter()
    }

    /// The duration that this share of all stayed within.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or_default()
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        millis(self.percentile(50))
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        millis(self.percentile(99))
    }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(crate) fn number(count: usize) -> f64 {
    count as f64
}

/// Things per second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    number(count) / took.as_secs_f64()
}

/// The middle one; the lower of the two of an even number.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values_measured() {
        let mut latencies = Latencies::default();
        (1..=100).rev().for_each(|ms| latencies.add(Duration::from_millis(ms)));
        assert_eq!(latencies.percentile(50), Duration::from_millis(50));
        assert_eq!(latencies.percentile(99), Duration::from_millis(99));
        assert_eq!(latencies.percentile(100), Duration::from_millis(100));
        assert_eq!(Latencies::default().percentile(99), Duration::ZERO);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 3.0]) - 3.0).abs() < f64::EPSILON);
    }
}
