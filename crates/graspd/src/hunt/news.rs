//! What operators hear about the search for git data (S-42).

use crate::log_table::LogLine;
use crate::report::text::{WORDS_MAX, shown};
use grasp_core::Time;
use grasp_engine::hunt::HuntNews;

/// The search moves by deadlines; this is the longest it sleeps without one.
const TICK_MS: u64 = 5_000;

pub fn started() -> LogLine {
    LogLine::FetchStarted { tick_ms: TICK_MS }
}

/// The log line of a piece of news.
pub fn log_line(news: &HuntNews, now: Time) -> LogLine {
    match news {
        HuntNews::Attempt { family, wants, sources } => {
            let (missing, sources) = (*wants, *sources);
            LogLine::FetchAttempt { family: family.clone(), missing, sources }
        }
        HuntNews::Complete { family, .. } => LogLine::FetchComplete { family: family.clone() },
        HuntNews::Incomplete { family, wants, attempts, next } => LogLine::FetchIncomplete {
            family: family.clone(),
            missing: *wants,
            attempt: *attempts,
            retry_secs: next.since(now).as_secs(),
        },
        HuntNews::SlowedDown { domain, until } => {
            let secs = until.since(now).as_secs();
            LogLine::FetchSlowedDown { domain: domain.clone(), secs }
        }
        HuntNews::TooMany { family } => LogLine::FetchQueueFull { family: family.clone() },
        HuntNews::Queued { family, delay } => {
            let delay_secs = delay.as_secs();
            LogLine::FetchQueued { family: family.clone(), delay_secs }
        }
        HuntNews::FetchFailed { url, failure, why } => LogLine::FetchFailed {
            url: shown(url.as_str(), WORDS_MAX),
            host: url.domain(),
            reason: failure.name(),
            error: shown(why, WORDS_MAX),
        },
    }
}
