//! Why a server's answer is of no use, and the few words of its own that are passed on. What it says
//! is shown to people, cut and cleaned; nothing but an object id is ever read out of it.

use grasp_core::Oid;

/// What is passed on of a server's own words, in characters.
const SAID_CHARS_MAX: usize = 200;
const OID_HEX_LEN: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It does not have this object, or does not give it away. Not necessarily one we asked for.
    #[error("the server does not have {0}")]
    NotOurRef(Oid),
    /// It refused in words, which are printable and short.
    #[error("the server says: {0}")]
    Said(String),
    #[error("this is not the answer of a git server")]
    NotGit,
    #[error("the repository does not use SHA-1")]
    ObjectFormat,
    #[error("the repository is shallow")]
    Shallow,
    #[error("the server wants its pack to be fetched from somewhere else")]
    PackElsewhere,
    #[error("the server talks without end")]
    TooMuchProgress,
    #[error("the list of refs is longer than {max} bytes")]
    LongList { max: usize },
    #[error("there are more than {max} refs")]
    ManyRefs { max: usize },
    #[error("the answer ended too early")]
    Truncated,
    #[error("the answer is not understood: {0}")]
    Malformed(&'static str),
}

impl Refusal {
    /// From the words of an `ERR` packet or of the third band.
    pub(super) fn said(words: &[u8]) -> Self {
        let text = printable(words);
        absent(&text).map_or(Self::Said(text), Self::NotOurRef)
    }
}

/// Git says `upload-pack: not our ref <oid>`, some servers `want <oid> not valid`.
fn absent(text: &str) -> Option<Oid> {
    ["not our ref ", "want "].into_iter().find_map(|before| {
        let (_, behind) = text.split_once(before)?;
        let (hex, rest) = behind.split_at_checked(OID_HEX_LEN)?;
        let fits = before != "want " || rest.starts_with(" not valid");
        hex.parse().ok().filter(|_| fits)
    })
}

/// A server's words, fit to be shown: one line, no control characters, cut.
pub fn printable(words: &[u8]) -> String {
    // No character has more than four bytes.
    let words = words.get(..SAID_CHARS_MAX * 4).unwrap_or(words);
    let text = String::from_utf8_lossy(words);
    let clean = text.trim().chars().map(|c| if shown(c) { c } else { ' ' });
    let text: String = clean.take(SAID_CHARS_MAX).collect();
    text.trim_end().to_owned()
}

/// Also not what turns the direction of the text around it, or has no width.
fn shown(c: char) -> bool {
    let hidden = ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{2069}'];
    let hidden = hidden.iter().any(|range| range.contains(&c)) || c == '\u{feff}';
    !c.is_control() && !hidden
}

/// Do these words, of an error or of an error page, ask for fewer requests?
pub fn wants_slowdown(words: &str) -> bool {
    const WORDS: [&str; 17] = [
        "rate limit",
        "rate-limit",
        "ratelimit",
        "rate_limit",
        "rate exceeded",
        "too many requests",
        "too many connections",
        "too many concurrent",
        "too many clients",
        "slow down",
        "slowdown",
        "throttl",
        "quota exceeded",
        "exceeded a secondary",
        "overloaded",
        "too busy",
        "try again later",
    ];
    let words = words.to_lowercase();
    WORDS.iter().any(|word| words.contains(word))
}
