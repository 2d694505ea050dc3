//! Streams without an end, made by hand: a pack of noise, and zeroes packed very small.

use super::packets::band;
use crate::Random;

const BLOB_LEN: u16 = 16_384;
/// As many objects as a large, honest repository may have.
const OBJECTS_CLAIMED: u32 = 4_000_000;

/// Pieces of a body, for ever.
pub(super) type Endless = Box<dyn FnMut() -> Vec<u8> + Send>;

pub(super) fn words() -> Endless {
    let piece = band(2, "still counting, please wait\r".repeat(500).as_bytes());
    Box::new(move || piece.clone())
}

/// Behind the lines that come before a pack: blobs that do not compress, each of them right.
pub(super) fn pack() -> Endless {
    let mut random = Random::seeded(1);
    let mut head = Some([&b"PACK\0\0\0\x02"[..], &OBJECTS_CLAIMED.to_be_bytes()].concat());
    Box::new(move || {
        let mut piece = head.take().unwrap_or_default();
        piece.extend(blob(&mut random));
        band(1, &piece)
    })
}

/// An entry of a pack: kind and size, then one stored block.
fn blob(random: &mut Random) -> Vec<u8> {
    let len = usize::from(BLOB_LEN);
    let mut content: Vec<u8> = Vec::with_capacity(len + 8);
    while content.len() < len {
        content.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    content.truncate(len);
    // Kind 3, and the size in groups of 4, 7 and 7 bits, lowest first.
    let [low, middle, high] = [BLOB_LEN & 15, BLOB_LEN >> 4 & 127, BLOB_LEN >> 11];
    let size = [low | 0x80 | 3 << 4, middle | 0x80, high].map(|it| it.to_le_bytes()[0]);
    let block = [BLOB_LEN.to_le_bytes(), (!BLOB_LEN).to_le_bytes()].concat();
    let sum = adler32(&content).to_be_bytes();
    [&size[..], b"\x78\x01\x01", &block, &content, &sum].concat()
}

fn adler32(bytes: &[u8]) -> u32 {
    let step = |(a, b), byte: &u8| {
        let a: u32 = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    };
    let (a, b) = bytes.iter().fold((1, 0), step);
    b << 16 | a
}

/// A gzip stream of zeroes: one literal, then "the same, 258 times" in 13 bits, over and over.
pub(super) fn bomb() -> Endless {
    let mut bits = Bits::default();
    bits.put(0b010, 3); // Not the last block; fixed codes.
    bits.put(0b0000_1100, 8); // The literal 0, its code's first bit first.
    let mut head = Some(vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
    Box::new(move || {
        let mut piece = head.take().unwrap_or_default();
        for _ in 0..5_000 {
            bits.put(0b1010_0011, 8); // Length 258.
            bits.put(0, 5); // One byte back.
        }
        piece.append(&mut bits.whole());
        piece
    })
}

/// Bits from the low end of each byte up.
#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    last: u32,
    count: u32,
}

impl Bits {
    fn put(&mut self, bits: u32, count: u32) {
        self.last |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.last.to_le_bytes()[0]);
            self.last >>= 8;
            self.count -= 8;
        }
    }

    fn whole(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
