//! Gzip, undone a little at a time and only as far as there is room. Knows nothing of sockets. What
//! swells beyond reason is refused early: a few kilobytes of input never become gigabytes of work.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

/// From here on the ratio is looked at; tiny requests may compress as well as they like.
const RATIO_FROM_BYTES: u64 = 1 << 20;
const RATIO_MAX: u64 = 100;
/// The largest window gzip has.
const WINDOW_BITS: u8 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadGzip {
    #[error("the body is not gzip as its header says")]
    Garbled,
    #[error("the compressed body ends in the middle")]
    Truncated,
    #[error("the compressed body unpacks to more than {RATIO_MAX} times its size")]
    Bomb,
}

#[derive(Debug)]
pub(super) struct Inflater {
    stream: Decompress,
    is_done: bool,
}

impl Default for Inflater {
    fn default() -> Self {
        Self { stream: Decompress::new_gzip(WINDOW_BITS), is_done: false }
    }
}

impl Inflater {
    /// Takes from `input` and fills `room`; how much came out. Nothing means: more input, please.
    pub(super) fn inflate(&mut self, input: &mut Bytes, room: &mut [u8]) -> Result<usize, BadGzip> {
        if self.is_done {
            return if input.is_empty() { Ok(0) } else { Err(BadGzip::Garbled) };
        }
        let (taken_before, made_before) = (self.stream.total_in(), self.stream.total_out());
        let status = self.stream.decompress(input, room, FlushDecompress::None);
        let status = status.map_err(|_| BadGzip::Garbled)?;
        let (taken, made) = (self.stream.total_in(), self.stream.total_out());
        input.advance(usize::try_from(taken - taken_before).unwrap_or(usize::MAX).min(input.len()));
        self.is_done = status == Status::StreamEnd;
        if status == Status::BufError && !input.is_empty() {
            return Err(BadGzip::Garbled);
        }
        if made > RATIO_FROM_BYTES && made > taken.saturating_mul(RATIO_MAX) {
            return Err(BadGzip::Bomb);
        }
        Ok(usize::try_from(made - made_before).unwrap_or(usize::MAX))
    }

    /// No more input will come.
    pub(super) fn finish(&self) -> Result<(), BadGzip> {
        if self.is_done { Ok(()) } else { Err(BadGzip::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    }

    /// Everything, with input in pieces of `step` and room for `room` at a time.
    fn inflated(gzip: &[u8], step: usize, room: usize) -> Result<Vec<u8>, BadGzip> {
        let (mut inflater, mut all, mut room) = (Inflater::default(), Vec::new(), vec![0; room]);
        for piece in gzip.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            loop {
                let made = inflater.inflate(&mut piece, &mut room)?;
                all.extend_from_slice(&room[..made]);
                if made == 0 && piece.is_empty() {
                    break;
                }
            }
        }
        inflater.finish().map(|()| all)
    }

    #[test]
    fn whatever_the_pieces_the_text_comes_out() {
        let text: Vec<u8> = (0..50_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let packed = gzip(&text);
        for (step, room) in [(1, 7), (3, 1), (1_000, 64), (usize::MAX, 65_536), (17, 100_000)] {
            let step = step.min(packed.len());
            assert!(inflated(&packed, step, room).as_ref() == Ok(&text), "{step} {room}");
        }
        assert_eq!(inflated(&gzip(b""), 5, 5), Ok(Vec::new()));
    }

    #[test]
    fn half_a_body_and_no_gzip_at_all_are_refused() {
        let packed = gzip(b"0014command=ls-refs\n0000");
        for len in 1..packed.len() {
            assert_eq!(inflated(&packed[..len], len, 100), Err(BadGzip::Truncated), "{len}");
        }
        assert_eq!(inflated(b"0014command=ls-refs\n0000", 5, 100), Err(BadGzip::Garbled));
        let followed = [packed.as_slice(), b"x"].concat();
        assert_eq!(inflated(&followed, followed.len(), 100), Err(BadGzip::Garbled));
        let mut damaged = packed.clone();
        damaged[packed.len() - 6] ^= 1;
        assert_eq!(inflated(&damaged, 9, 100), Err(BadGzip::Garbled), "its checksum is checked");
    }

    #[test]
    fn a_bomb_is_refused_before_it_unfolds() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        let (mut inflater, mut room) = (Inflater::default(), vec![0; 65_536]);
        let (mut input, mut made) = (Bytes::from(bomb), 0);
        let refused = loop {
            match inflater.inflate(&mut input, &mut room) {
                Ok(some) => made += some,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, BadGzip::Bomb);
        assert!(made <= (1 << 20) + 65_536, "{made} bytes came out before");
    }

    #[test]
    fn small_requests_may_repeat_themselves() {
        let text = vec![b'w'; 1 << 20];
        assert!(inflated(&gzip(&text), 4_096, 65_536) == Ok(text));
    }
}
