//! How a relay behaves, or misbehaves: one value of plain knobs, played alike by the simulated relay
//! of `world` and by a real one on a socket. It says nothing about how the relay is made; all chance
//! comes from whoever plays it, seeded.

use crate::Random;
use grasp_core::EventId;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// For traces and test names.
    pub name: &'static str,
    pub door: Door,
    pub limits: Limits,
    pub negentropy: Negentropy,
    pub answers: Answers,
    pub refuses: Refuses,
    /// Ends its EOSE with `finish` or `more` (NIP-67).
    pub hints: bool,
    /// It is stocked with so many good events of one and the same second.
    pub same_second: u32,
    /// How far its clock, hence the time of what is written there, is ahead (or behind).
    pub skew_secs: i64,
}

/// What happens to somebody who dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Open,
    /// Accepts, and hangs up soon after.
    Flapping {
        after: Duration,
    },
    /// The dial never completes.
    BlackHole,
    /// The dial fails at once.
    Refuses,
}

/// What it enforces, and whether its NIP-11 says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open subscriptions and reconciliations together; beyond them CLOSED `too many subscriptions`.
    pub subscriptions_max: u32,
    /// Beyond them CLOSED `invalid number of filters`.
    pub filters_per_req_max: u32,
    /// Events per filter, whatever `limit` says.
    pub page_max: u32,
    /// Of all live filters together; beyond them CLOSED `active subscriptions exceed max size`.
    pub retained_bytes_max: u64,
    pub message_bytes_max: u32,
    /// NIP-11 tells `max_subscriptions`, `max_message_length` and `default_limit`.
    pub told: bool,
    /// NIP-11 says GRASP.
    pub grasp: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Negentropy {
    Speaks,
    /// NEG-OPEN is answered by NOTICE `unknown envelope label`.
    Notice,
    /// By NOTICE with these words.
    NoticeWith(&'static str),
    /// By NEG-ERR.
    Error,
    /// By nothing at all.
    Silence,
    /// Claims ids it does not have.
    Claims {
        ids: u32,
    },
    /// Hides some of what it has.
    Hides {
        one_in: u64,
    },
    /// Compares so many events at once; more are refused by NEG-ERR.
    Limited {
        events: u32,
    },
    /// One more round, always.
    Endless,
    /// Nothing ever differs, whatever it has.
    Agrees,
}

/// How a question is answered that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Honest,
    /// Nothing ever comes back; the link stays.
    Silent,
    /// All events, and never EOSE.
    NeverEose,
    /// Matching, well-made, newly invented events without an end.
    Endless,
    /// Events that do not match the filter, well-made.
    Wrong,
    /// The right id, but content or signature are not the author's.
    Forged,
    /// One event at a time.
    SlowDrip {
        every: Duration,
    },
}

/// Which questions are refused, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    Nothing,
    /// Each REQ and NEG-OPEN by CLOSED (NEG-ERR) with this text.
    All(&'static str),
    /// Only the first so many of each link.
    First(u32, &'static str),
    /// CLOSED `auth-required:` until a NIP-42 answer came; with `never` also after it.
    WithoutAuth {
        never: bool,
    },
    /// More than so many REQs in a minute are dropped, and only a NOTICE says so.
    RateByNotice {
        per_minute: u32,
    },
    /// The same, by CLOSED `rate-limited:`.
    RateByClosed {
        per_minute: u32,
    },
}

/// NIP-11 never mentions a number as large as this: no limit.
pub const UNLIMITED: u32 = u32::MAX;

/// CLOSED and NOTICE texts as relays in the field word them, by class, in the order of judging.
pub const REFUSALS: [(&str, &[&str]); 7] = [
    ("auth", &["auth-required: sign in first", "auth-required: we can't serve you"]),
    (
        "filter count",
        &["ERROR: bad req: invalid number of filters", "invalid: max filter count is 1"],
    ),
    ("retained bytes", &["error: active subscriptions exceed max size 65536 bytes"]),
    (
        "policy",
        &[
            "error: not a member of this relay",
            "membership needed",
            "restricted: for friends only",
            "blocked: you are not welcome",
            "request rejected",
        ],
    ),
    (
        "filter",
        &[
            "unsupported filter",
            "filter item too large",
            "filter validation failed",
            "unsupported: invalid filters",
            "error: limit must be positive",
        ],
    ),
    (
        "rate",
        &[
            "rate-limited: slow down there chief",
            "ERROR: too many queries",
            "error: too many concurrent REQs",
            "please slow down",
            "throttled",
            "too many concurrent NEG requests",
        ],
    ),
    ("unknown", &["error: could not connect to the database", "shutting down", ""]),
];

pub const NOTICE_NO_NEGENTROPY: &str = "ERROR: bad msg: unknown envelope label NEG-OPEN";
pub const NEG_ERR_TOO_MANY: &str = "blocked: too many query results";
pub const NOTICE_RATE: &str = "rate limited: too many queries, slow down";
pub const CLOSED_RATE: &str = "rate-limited: too many queries";
pub const CLOSED_FILTERS: &str = "ERROR: bad req: invalid number of filters";
pub const CLOSED_SUBSCRIPTIONS: &str = "ERROR: too many subscriptions";
pub const CLOSED_AUTH: &str = "auth-required: sign in first";

/// The text names the limit, as relays do.
pub fn closed_retained(max: u64) -> String {
    format!("error: active subscriptions exceed max size {max} bytes")
}

impl Limits {
    /// As a GRASP server tells them.
    pub const fn grasp() -> Self {
        Self {
            subscriptions_max: 500,
            filters_per_req_max: 20,
            page_max: 5_000,
            retained_bytes_max: 5 << 20,
            message_bytes_max: 1 << 20,
            told: true,
            grasp: true,
        }
    }

    /// A strict relay that says nothing: 20 subscriptions, 1 filter, 100 results.
    pub const fn strict() -> Self {
        Self {
            subscriptions_max: 20,
            filters_per_req_max: 1,
            page_max: 100,
            retained_bytes_max: u64::MAX,
            message_bytes_max: 128 << 10,
            told: false,
            grasp: false,
        }
    }

    /// A common relay.
    pub const fn common() -> Self {
        Self { subscriptions_max: 200, filters_per_req_max: 20, page_max: 500, ..Self::strict() }
    }
}

impl Negentropy {
    /// Does it answer NEG-OPEN as NIP-77 says?
    pub fn is_spoken(self) -> bool {
        !matches!(self, Self::Notice | Self::NoticeWith(_) | Self::Error | Self::Silence)
    }

    /// Does it keep this event from comparisons? By id, so that what is hidden stays hidden.
    pub fn hides(self, id: &EventId) -> bool {
        let Self::Hides { one_in } = self else { return false };
        let end = id.as_bytes().last_chunk::<8>().copied().unwrap_or_default();
        u64::from_be_bytes(end).is_multiple_of(one_in.max(1))
    }
}

impl Behaviour {
    /// Everything right, all of NIP-77 and NIP-67, told limits.
    pub fn honest() -> Self {
        Self {
            name: "honest",
            door: Door::Open,
            limits: Limits::grasp(),
            negentropy: Negentropy::Speaks,
            answers: Answers::Honest,
            refuses: Refuses::Nothing,
            hints: true,
            same_second: 0,
            skew_secs: 0,
        }
    }

    /// An honest relay as most are: no NIP-77, no hints, limits not told.
    pub fn common() -> Self {
        Self {
            name: "common",
            limits: Limits::common(),
            negentropy: Negentropy::Notice,
            hints: false,
            ..Self::honest()
        }
    }

    /// The caps of 20 subscriptions, 1 filter, 100 results.
    pub fn strict() -> Self {
        Self { name: "strict", limits: Limits::strict(), ..Self::common() }
    }

    /// Several filters at a time, but few events for each.
    pub fn small_pages() -> Self {
        let limits = Limits { page_max: 100, ..Limits::common() };
        Self { name: "small pages", limits, ..Self::common() }
    }

    /// The first questions on each link fail, for no reason that it tells.
    pub fn slow_to_start() -> Self {
        let refuses = Refuses::First(6, "error: could not connect to the database");
        Self { name: "slow to start", refuses, ..Self::common() }
    }

    /// One of each kind, by name: what every test of bad relays should meet.
    pub fn catalogue() -> Vec<Self> {
        let negentropy =
            |name, negentropy| Self { name, negentropy, hints: false, ..Self::honest() };
        let door = |name, door| Self { name, door, ..Self::common() };
        let answers = |name, answers| Self { name, answers, ..Self::common() };
        let refuses = |name, refuses| Self { name, refuses, ..Self::common() };
        let skewed = |name, skew_secs| Self { name, skew_secs, ..Self::common() };
        let retained = Limits { retained_bytes_max: 64 << 10, ..Limits::common() };
        let mut all = vec![
            Self::honest(),
            Self::common(),
            Self::strict(),
            Self { name: "told caps", limits: told(Limits::strict()), ..Self::common() },
            Self { name: "retained bytes", limits: retained, ..Self::common() },
            Self::small_pages(),
            Self::slow_to_start(),
            negentropy("no nip77, notice", Negentropy::Notice),
            negentropy("no nip77, error", Negentropy::Error),
            negentropy("no nip77, silence", Negentropy::Silence),
            negentropy("nip77 claims", Negentropy::Claims { ids: 400 }),
            negentropy("nip77 hides", Negentropy::Hides { one_in: 3 }),
            negentropy("nip77 endless", Negentropy::Endless),
            negentropy("nip77 limited", Negentropy::Limited { events: 40 }),
            door("flapping", Door::Flapping { after: Duration::from_secs(3) }),
            door("black hole", Door::BlackHole),
            door("refuses", Door::Refuses),
            answers("silent", Answers::Silent),
            answers("never eose", Answers::NeverEose),
            answers("endless events", Answers::Endless),
            answers("wrong events", Answers::Wrong),
            answers("forged copies", Answers::Forged),
            answers("slow drip", Answers::SlowDrip { every: Duration::from_secs(2) }),
            refuses("auth required", Refuses::WithoutAuth { never: false }),
            refuses("auth never enough", Refuses::WithoutAuth { never: true }),
            refuses("rate by notice", Refuses::RateByNotice { per_minute: 20 }),
            refuses("rate by closed", Refuses::RateByClosed { per_minute: 20 }),
            skewed("clock ahead", 600),
            skewed("clock behind", -6 * 3600),
            Self { name: "same-second flood", same_second: 700, ..Self::strict() },
        ];
        for (class, texts) in REFUSALS {
            all.extend(texts.iter().map(|text| refuses(class, Refuses::All(text))));
        }
        all
    }

    pub fn random(random: &mut Random) -> Self {
        random.pick(&Self::catalogue()).clone()
    }

    /// In the end it gives out all it has to somebody patient, and nothing else.
    pub fn keeps_its_word(&self) -> bool {
        let speaks = matches!(
            self.negentropy,
            Negentropy::Speaks
                | Negentropy::Limited { .. }
                | Negentropy::Notice
                | Negentropy::NoticeWith(_)
                | Negentropy::Error
                | Negentropy::Silence
        );
        let answers = matches!(self.answers, Answers::Honest | Answers::SlowDrip { .. });
        let allows = match self.refuses {
            Refuses::Nothing | Refuses::RateByNotice { .. } | Refuses::RateByClosed { .. } => true,
            Refuses::WithoutAuth { never } => !never,
            // Whoever fails without a reason is asked again.
            Refuses::First(_, text) => text.starts_with("error: "),
            Refuses::All(_) => false,
        };
        let fits = self.same_second <= self.limits.page_max;
        self.door == Door::Open && speaks && answers && allows && fits
    }
}

fn told(limits: Limits) -> Limits {
    Limits { told: true, ..limits }
}
