//! What operators hear about other relays (S-42).

use crate::node::Node;
use crate::report::Activity;
use crate::report::when::clock;
use grasp_core::Time;
use grasp_engine::News;

/// What people who watch hear of it.
pub(super) fn show(node: &Node, news: &News, now: Time) {
    let (relay, words) = match news {
        News::Connected { relay } => (relay, "is connected".to_owned()),
        News::Recovered { relay } => (relay, "is well again".to_owned()),
        News::Failed { relay, next_try, .. } => {
            (relay, format!("cannot be reached; tried again at {}", clock(*next_try, now)))
        }
        News::Dead { relay, .. } => (relay, "is dead: it failed for a whole day".to_owned()),
        News::Cooling { relay, until } => {
            (relay, format!("asked us to slow down until {}", clock(*until, now)))
        }
        News::Paused { relay, until, .. } => {
            (relay, format!("does not want our questions; left alone until {}", clock(*until, now)))
        }
        _ => return,
    };
    let text = format!("{} {words}", node.reports.identity.relay_host(relay));
    node.activity.note(Activity { at: now, kind: "relay".into(), text, repository: None });
}

pub(super) fn log(news: &News, now: Time) {
    let secs = |until: &Time| until.since(now).as_secs();
    match news {
        News::Connected { relay } => tracing::info!(%relay, "connected"),
        News::Recovered { relay } => tracing::info!(%relay, "the relay is well again"),
        News::Failed { relay, why, failures, next_try } => {
            let retry_secs = secs(next_try);
            tracing::warn!(%relay, why, attempt = failures, retry_secs, "no link to the relay");
        }
        News::Dead { relay, next_try } => {
            let retry_secs = secs(next_try);
            tracing::error!(%relay, retry_secs, "the relay is dead: it failed for a whole day");
        }
        News::SecondTooFull { relay, second } => tracing::warn!(
            %relay, %second,
            "the relay has more events in one second than it gives out at once; some may be missing"
        ),
        News::NoNegentropy { relay } => {
            tracing::info!(%relay, "the relay does not speak NIP-77; its history is read in pages");
        }
        News::Cooling { relay, until } => {
            let secs = secs(until);
            tracing::warn!(%relay, secs, "the relay asked us to slow down");
        }
        News::Paused { relay, why, until } => {
            let secs = secs(until);
            tracing::warn!(%relay, why, secs, "the relay does not want our questions");
        }
        News::Rotating { relay, groups } => tracing::warn!(
            %relay, groups,
            "the relay allows too few subscriptions; part of it is asked for in turn"
        ),
        News::TooManyRelays { relay } => {
            tracing::debug!(%relay, "not followed: as many relays as can be are followed already");
        }
    }
}
