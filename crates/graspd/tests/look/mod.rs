//! Looking at a page as a stranger would: questions to a browser, each answered by a list of what is
//! wrong, which should be empty.
#![allow(dead_code, reason = "each file of tests needs its own part of this")]

use grasp_testkit::Tab;
use serde_json::Value;

pub(crate) const READABLE: &str = include_str!("readable.js");
pub(crate) const ORDERLY: &str = include_str!("orderly.js");
pub(crate) const INERT: &str = include_str!("inert.js");

/// Words stand out from what is behind them (WCAG AA).
pub(crate) async fn is_readable(tab: &Tab, page: &str) {
    finds_nothing(tab, READABLE, page).await;
}

/// People who cannot see it find their way, too.
pub(crate) async fn is_orderly(tab: &Tab, page: &str) {
    finds_nothing(tab, ORDERLY, page).await;
}

/// Nothing that strangers wrote does anything.
pub(crate) async fn is_inert(tab: &Tab, origin: &str, page: &str) {
    finds_nothing(tab, INERT, page).await;
    assert_eq!(tab.evaluates("typeof window.__xss").await, "undefined", "{page}");
    is_quiet(tab, origin, page);
}

/// No dialog, no complaint, and nobody else is asked for anything.
pub(crate) fn is_quiet(tab: &Tab, origin: &str, page: &str) {
    let seen = tab.seen();
    assert!(seen.dialogs.is_empty(), "{page}: {:?}", seen.dialogs);
    assert!(seen.console.is_empty(), "{page}: {:#?}", seen.console);
    for asked in &seen.asked {
        let own = asked.url.starts_with(&format!("{origin}/")) || asked.url == "about:blank";
        assert!(own, "{page} asks {}", asked.url);
    }
}

async fn finds_nothing(tab: &Tab, question: &str, page: &str) {
    let found = tab.evaluates(question).await;
    assert_eq!(found, Value::Array(Vec::new()), "{page}: {found:#}");
}
