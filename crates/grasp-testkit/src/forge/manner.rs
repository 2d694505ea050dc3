//! How a forge treats those who ask. Each is one way to be good or bad; what a manner does not speak
//! of is done honestly, so that whoever asks gets as far as the trick.

use grasp_core::Oid;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Manner {
    #[default]
    Honest,
    /// Knows nothing of `Git-Protocol`.
    V0Only,
    /// What is not the tip of a listed ref is `not our ref`, in every version.
    RefusesOids,
    /// 404 for everything.
    Lacks,
    /// Takes every question and answers nothing.
    Stall,
    /// A fetch is answered by so many bytes of the body, and then nothing.
    StallMidPack(usize),
    /// A fetch is answered at so many bytes in a second.
    Drip(u64),
    /// A fetch is answered by words on the second band, for ever.
    EndlessProgress,
    /// A fetch is answered by a well-made pack of noise that never ends.
    EndlessPack,
    /// Lists refs at these objects, which it does not have.
    LiesAboutRefs(Vec<Oid>),
    /// 302 to this address with the path behind it.
    Redirect(String),
    /// 200, and a page for people.
    Html,
    /// This status, with `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// A few bytes that unpack to zeroes without end, for everything.
    GzipBomb,
    /// A fetch is answered by a good pack of something else.
    Unrelated,
    /// A fetch is answered by what was asked for, and something else in the same pack.
    Smuggles,
    /// A fetch is answered by a pack in which one bit is wrong.
    CorruptPack,
    /// The body of a fetch ends after so many bytes as if that were all.
    Truncate(usize),
    /// The connection ends after so many bytes of the body of a fetch.
    HangUpMidPack(usize),
    /// Every answer is called `text/plain`.
    WrongContentType,
    /// The connection ends as soon as a question is there.
    HangUp,
    /// 401, asking for a password.
    Auth401,
    /// A header that never ends, byte by byte.
    SlowHeaders,
    /// A fetch is answered as if its history were cut off at the wanted commit.
    ShallowAnswer,
    /// A fetch is answered by an address where the pack is (version 2).
    PackfileUris,
    /// `ERR` and these words, for every POST.
    Says(String),
}
