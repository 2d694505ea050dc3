//! Comparisons that failed: the reason is told once for each relay, until it changes or a comparison
//! succeeds; every further failure for the same reason is told as a repetition.

use crate::relay::{Around, Relay};
use crate::vocabulary::{Action, News};

/// Characters of a refusal that are kept as a reason.
const REASON_CHARS_MAX: usize = 200;

impl Relay {
    /// A comparison with this relay failed for this reason.
    pub(crate) fn tell_comparison_failed(&mut self, why: &str, around: &mut Around<'_>) {
        let why: String = why.chars().take(REASON_CHARS_MAX).collect();
        let is_new = self.fallback.as_ref() != Some(&why);
        self.fallback = Some(why.clone());
        let relay = self.url.clone();
        around.act(Action::Tell(News::ComparisonFailed { relay, why, is_new }));
    }

    /// A comparison succeeded: the next failure is news again.
    pub(crate) fn comparison_succeeded(&mut self) {
        self.fallback = None;
    }
}
