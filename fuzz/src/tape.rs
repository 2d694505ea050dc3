//! A tape of bytes that answers questions. At its end every answer is zero, so whatever is built
//! from it comes to an end as well.

use bolero::ValueGenerator;
use bolero::produce;

/// Tapes of any length up to `len_max`. A plain `&[u8]` input never exceeds 64 bytes outside of a
/// coverage-guided run, which is hardly one event.
pub fn tapes(len_max: usize) -> impl ValueGenerator<Output = Vec<u8>> {
    produce::<Vec<u8>>().with().len(0..=len_max)
}

#[derive(Debug, Clone)]
pub struct Tape<'b>(&'b [u8]);

/// Where parsers, paths and git have opinions.
const HOSTILE: &[&str] = &[
    "",
    "\"",
    "\\",
    "\u{0}",
    "\u{1}",
    "\u{8}",
    "\t",
    "\n",
    "\u{b}",
    "\r",
    "\u{1f}",
    " ",
    "\u{7f}",
    "\u{80}",
    "\u{9f}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffd}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{10ffff}",
    "🦀",
    "ü",
    "/",
    "//",
    ".",
    "..",
    "./",
    ":",
    "::",
    "-",
    "--",
    "^{}",
    "@",
    "@{",
    "~",
    "*",
    "?",
    "[",
    "%",
    "%2e",
    "%2F",
    "%00",
    "%zz",
    "#",
    "&",
    ".lock",
    ".git",
    "ref: ",
    "refs/heads/",
    "refs/tags/",
    "HEAD",
    "main",
    "null",
    "true",
    "0",
    "-1",
    "1e3",
    "18446744073709551616",
];

impl<'b> Tape<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// All that is left, as it is.
    pub fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn below(&mut self, end: usize) -> usize {
        let wide = if end > 256 { u16::from_be_bytes(self.bytes()) } else { self.byte().into() };
        usize::from(wide) % end.max(1)
    }

    /// True about once in `n` times, never at the end of the tape.
    pub fn one_in(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// Often near a border.
    pub fn number(&mut self) -> u64 {
        const BORDERS: &[u64] = &[
            0,
            1,
            2,
            127,
            128,
            255,
            256,
            65_535,
            65_536,
            1_700_000_000,
            1 << 31,
            1 << 32,
            1 << 53,
            (1 << 53) + 1,
            i64::MAX as u64,
            u64::MAX - 1,
            u64::MAX,
        ];
        match self.below(3) {
            0 => self.byte().into(),
            1 => *self.pick(BORDERS),
            _ => u64::from_be_bytes(self.bytes()),
        }
    }

    /// One of few values, so that two of them often meet.
    pub fn key<const N: usize>(&mut self) -> [u8; N] {
        match self.below(8) {
            0 => self.bytes(),
            few => [u8::try_from(few).unwrap_or(0) * 0x11; N],
        }
    }

    pub fn text(&mut self) -> String {
        (0..self.below(6)).map(|_| self.piece()).collect()
    }

    fn piece(&mut self) -> String {
        match self.below(4) {
            0 => (*self.pick(HOSTILE)).to_owned(),
            1 => char::from_u32(u32::from_be_bytes(self.bytes()) % 0x11_0000)
                .map(String::from)
                .unwrap_or_default(),
            2 => char::from(self.byte() & 0x7f).to_string(),
            _ => (0..self.below(12)).map(|_| char::from(b'a' + self.byte() % 26)).collect(),
        }
    }
}
