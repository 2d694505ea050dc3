//! What a refusal means (S-23). Relays say it in prose; the order of the questions matters, because
//! one sentence may contain the words of several. Numbers in the text are never believed.

use crate::vocabulary::End;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    AuthRequired,
    /// Too many filters in one request.
    FilterCount,
    /// Too much in live subscriptions.
    RetainedBytes,
    /// More subscriptions at once than it allows.
    TooManyAtOnce,
    /// It does not want us.
    Policy,
    /// It does not understand this filter and never will.
    InvalidFilter,
    RateLimit,
    /// It does not compare so many events at once (S-44).
    TooManyEvents,
    Unknown,
}

/// How relays say that a comparison is too large.
const TOO_MANY_EVENTS: [&str; 13] = [
    "too many query results",
    "too many results",
    "too many events",
    "too many records",
    "too many items",
    "too many matching",
    "results_too_big",
    "results too big",
    "query is too big",
    "query too big",
    "query is too large",
    "query too large",
    "result set too large",
];

/// How relays say that they do not know the messages of NIP-77.
const UNKNOWN_MESSAGE: [&str; 8] = [
    "envelope",
    "neg-",
    "negentropy",
    "could not parse command",
    "bad message type",
    "command unrecognized",
    "unknown message type",
    "invalid enum value",
];

impl Refusal {
    pub fn of(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let has = |words: &str| text.contains(words);
        let any = |list: &[&str]| list.iter().any(|words| has(words));
        if has("auth-required") {
            Self::AuthRequired
        } else if any(&["invalid number of filters", "max filter count", "too many filters"]) {
            Self::FilterCount
        } else if has("bytes") && any(&["active subscriptions exceed", "retained"]) {
            Self::RetainedBytes
        } else if any(&TOO_MANY_EVENTS) || (has("more than") && has("events match")) {
            Self::TooManyEvents
        } else if any(&["not a member", "membership", "restricted", "blocked", "request rejected"])
            && !has("too many")
        {
            Self::Policy
        } else if any(&[
            "unsupported filter",
            "filter item too large",
            "filter validation failed",
            "unsupported: invalid filters",
            "limit must be positive",
        ]) {
            Self::InvalidFilter
        } else if has("too many") && any(&["concurrent", "subscription", "sessions"]) {
            Self::TooManyAtOnce
        } else if (has("rate") && has("limit")) || any(&["too many", "slow down", "throttl"]) {
            Self::RateLimit
        } else {
            Self::Unknown
        }
    }

    /// For counting; stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::AuthRequired => "auth-required",
            Self::FilterCount => "filter-count",
            Self::RetainedBytes => "retained-bytes",
            Self::TooManyAtOnce => "too-many-at-once",
            Self::Policy => "policy",
            Self::InvalidFilter => "invalid-filter",
            Self::RateLimit => "rate-limit",
            Self::TooManyEvents => "too-many-events",
            Self::Unknown => "unknown",
        }
    }
}

/// Does this NOTICE say that NIP-77 is not spoken here?
pub(crate) fn denies_negentropy(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    UNKNOWN_MESSAGE.iter().any(|words| text.contains(words))
}

/// What a NEG-ERR means for the comparison. Some relays have the words of NIP-77 only to say that they
/// do not speak it. `limit` is a fourth element: how many events the relay compares at once.
pub fn end_of_neg_err(text: String, limit: Option<u64>) -> End {
    if Refusal::of(&text) == Refusal::TooManyEvents {
        return End::TooManyEvents { limit };
    }
    let lower = text.to_ascii_lowercase();
    let never = ["unsupported", "not supported", "disabled", "not implemented", "unknown"];
    match never.iter().any(|words| lower.contains(words)) {
        true => End::NoNegentropy,
        false => End::NegentropyFailed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s23_each_refusal_is_understood_in_order() {
        use Refusal::*;
        for (text, meaning) in [
            ("auth-required: we only serve members", AuthRequired),
            ("auth-required: rate limited until you log in", AuthRequired),
            ("error: invalid number of filters: 7", FilterCount),
            ("max filter count exceeded (4)", FilterCount),
            ("active subscriptions exceed max size 1048576 bytes", RetainedBytes),
            ("restricted: not a member", Policy),
            ("blocked: you are banned", Policy),
            ("request rejected", Policy),
            ("unsupported: invalid filters", InvalidFilter),
            ("error: filter item too large", InvalidFilter),
            ("limit must be positive", InvalidFilter),
            ("filter validation failed: too many tags", InvalidFilter),
            ("rate-limited: calm down", RateLimit),
            ("ERROR: Rate Limit exceeded", RateLimit),
            ("you send too many requests", RateLimit),
            ("please slow down", RateLimit),
            ("throttled", RateLimit),
            ("too many concurrent REQs", TooManyAtOnce),
            ("error: too many concurrent NEG requests", TooManyAtOnce),
            ("blocked: too many subscriptions, 20 allowed", TooManyAtOnce),
            ("blocked: too many query results", TooManyEvents),
            ("blocked: this query is too big", TooManyEvents),
            ("RESULTS_TOO_BIG", TooManyEvents),
            ("error: query too large", TooManyEvents),
            ("blocked: too many events match, 1000 allowed", TooManyEvents),
            (
                "blocked: more than 1000 events match; narrow the filter, for example by time",
                TooManyEvents,
            ),
            ("ERROR: too many queries", RateLimit),
            ("error: shutting down idle subscription", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(Refusal::of(text), meaning, "{text}");
        }
    }

    #[test]
    fn s19_a_notice_about_an_unknown_envelope_is_recognised() {
        assert!(denies_negentropy("ERROR: bad msg: unknown envelope label"));
        assert!(denies_negentropy("NEG-OPEN is not supported"));
        assert!(denies_negentropy("negentropy disabled"));
        assert!(!denies_negentropy("slow down"));
    }

    #[test]
    fn s61_the_words_of_relays_that_do_not_know_nip_77_are_known() {
        for text in [
            "ERROR: bad msg: unknown envelope label NEG-OPEN",
            "negentropy is not enabled",
            "NEG-OPEN: not here",
            "could not parse command",
            "error: bad message type",
            "Command unrecognized",
            "unknown message type",
            "invalid: Invalid enum value. Expected 'EVENT' | 'REQ', received 'NEG-OPEN'",
            "invalid enum value",
        ] {
            assert!(denies_negentropy(text), "{text}");
        }
    }

    #[test]
    fn s44_a_neg_err_says_too_large_not_spoken_or_failed() {
        for text in TOO_MANY_EVENTS {
            for text in [text.to_owned(), format!("blocked: {}", text.to_ascii_uppercase())] {
                for limit in [None, Some(0), Some(1_000), Some(u64::MAX)] {
                    let end = end_of_neg_err(text.clone(), limit);
                    assert_eq!(end, End::TooManyEvents { limit }, "{text}");
                }
            }
        }
        for text in ["error: negentropy is disabled", "unsupported: NEG-OPEN"] {
            assert_eq!(end_of_neg_err(text.to_owned(), Some(5)), End::NoNegentropy, "{text}");
        }
        for text in
            ["closed: you took too long to respond!", "error: too many concurrent NEG requests"]
        {
            let failed = End::NegentropyFailed(text.to_owned());
            assert_eq!(end_of_neg_err(text.to_owned(), None), failed);
        }
    }
}
