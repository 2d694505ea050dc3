//! What a refusal means (S-23). Relays say it in prose; the order of the questions matters, because
//! one sentence may contain the words of several. Numbers in the text are never believed.

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
    Unknown,
}

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
            Self::Unknown => "unknown",
        }
    }
}

/// Does this NOTICE say that NIP-77 is not spoken here?
pub(crate) fn denies_negentropy(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["envelope", "neg-", "negentropy"].iter().any(|words| text.contains(words))
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
}
