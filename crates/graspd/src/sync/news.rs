//! What operators hear about other relays (S-42).

use crate::log_table::{BatchNumber, LogLine};
use crate::node::Node;
use crate::report::Activity;
use crate::report::text::{WORDS_MAX, shown};
use grasp_core::Time;
use grasp_engine::News;

/// What people who watch hear of it.
pub(super) fn show(node: &Node, news: &News) {
    // The same words each time, so that they are counted; `relays` says when it is tried again.
    let (relay, words) = match news {
        News::Connected { relay } => (relay, "is connected"),
        News::Recovered { relay } => (relay, "is well again"),
        News::Failed { relay, .. } => (relay, "cannot be reached"),
        News::Dead { relay, .. } => (relay, "is dead: it failed for too long"),
        News::Cooling { relay, .. } => (relay, "asked this server to slow down"),
        News::Paused { relay, .. } => (relay, "does not want the questions of this server"),
        _ => return,
    };
    let text = format!("{} {words}", node.reports.identity.relay_host(relay));
    let (kind, repository, name) = ("relay".to_owned(), None, None);
    node.activity.note(Activity { at: node.clock.wall(), kind, text, repository, name, count: 1 });
}

/// The log line of a piece of news.
pub fn log_line(news: &News, now: Time) -> LogLine {
    let secs = |until: &Time| until.since(now).as_secs();
    let relay = news.relay().clone();
    match news {
        News::Connected { .. } => LogLine::RelayConnected { relay },
        News::Recovered { .. } => LogLine::RelayRecovered { relay },
        News::Failed { why, failures, next_try, .. } => {
            let (why, retry_secs) = (shown(why, WORDS_MAX), secs(next_try));
            LogLine::RelayFailed { relay, why, attempt: *failures, retry_secs }
        }
        News::Dead { failed_for, next_try, .. } => {
            let (failed_secs, retry_secs) = (failed_for.as_secs(), secs(next_try));
            LogLine::RelayDead { relay, failed_secs, retry_secs }
        }
        News::SecondTooFull { second, .. } => LogLine::SecondTooFull { relay, second: second.0 },
        News::NoNegentropy { .. } => {
            LogLine::ComparisonFallback { relay, why: "it does not speak NIP-77".to_owned() }
        }
        News::HidesEvents { id, .. } => {
            let why = format!("it hides event {id} from comparisons");
            LogLine::ComparisonFallback { relay, why }
        }
        News::ComparisonFailed { why, is_new, .. } => {
            let why = shown(why, WORDS_MAX);
            match is_new {
                true => LogLine::ComparisonFallback { relay, why },
                false => LogLine::ComparisonFailed { relay, why },
            }
        }
        News::AskedByName { budget, .. } => {
            let (received, refused) = (budget.received(), budget.refused);
            let refused_bytes = budget.refused_bytes;
            LogLine::AskedByName { relay, received, refused, refused_bytes }
        }
        News::Cooling { until, .. } => LogLine::RelayCooling { relay, secs: secs(until) },
        News::Paused { why, until, .. } => {
            let (why, secs) = (shown(why, WORDS_MAX), secs(until));
            LogLine::RelayPaused { relay, why, secs }
        }
        News::Rotating { groups, .. } => LogLine::RelayRotating { relay, groups: *groups },
        News::TooManyRelays { .. } => LogLine::RelayNotFollowed { relay },
        News::SubscriptionFailed { batch, why, .. } => {
            let (batch, why) = (BatchNumber(*batch), shown(why, WORDS_MAX));
            LogLine::SubscriptionFailed { relay, batch, why }
        }
        News::Stale { away, .. } => LogLine::StaleReconnect { relay, away_secs: away.as_secs() },
        News::DailyBegan { groups, .. } => LogLine::DailyBegan { relay, groups: *groups },
        News::DailyEnded { took, stored, .. } => {
            LogLine::DailyEnded { relay, secs: took.as_secs(), stored: *stored }
        }
        News::Consolidated { filters_before, filters_after, .. } => {
            let (filters_before, filters_after) = (*filters_before, *filters_after);
            LogLine::Consolidated { relay, filters_before, filters_after }
        }
        News::Unwanted { .. } => LogLine::RelayUnwanted { relay },
        News::BatchBegan { batch, groups, compares, .. } => {
            LogLine::BatchBegan { relay, batch: *batch, groups: *groups, compares: *compares }
        }
        News::BatchEnded { batch, confirmed, took, .. } => {
            let (confirmed, millis) = (*confirmed, took.as_millis());
            LogLine::BatchEnded { relay, batch: *batch, confirmed, millis }
        }
    }
}
