use super::*;
use proptest::prelude::*;

#[path = "../../tests/packs/mod.rs"]
mod packs;

use packs::{BLOB, COMMIT, Pack, delta, small};

fn check_with(limits: &PackLimits, pack: &[u8], piece: usize) -> Result<Seen, PackRefused> {
    let mut gate = Gate::new(limits);
    for piece in pack.chunks(piece) {
        gate.feed(piece)?;
    }
    gate.finish()
}

fn check(pack: &[u8]) -> Result<Seen, PackRefused> {
    check_with(&PackLimits::push(1 << 30), pack, 64 << 10)
}

#[test]
fn an_honest_pack_goes_through_however_it_is_cut() {
    let began = small().end();
    let pack = small().object(COMMIT, b"commit").object(BLOB, &[7; 300_000]);
    let to_commit = pack.end() - began;
    let pack = pack.delta_back(to_commit, &delta(6, b"more")).object(BLOB, b"");
    let bytes = pack.bytes();
    for piece in [1, 2, 3, 13, 4096, bytes.len()] {
        let seen = check_with(&PackLimits::push(1 << 20), &bytes, piece).unwrap();
        assert_eq!((seen.objects, seen.bytes), (6, bytes.len() as u64));
        assert_eq!(seen.commits, [began, began + to_commit], "the delta of a commit is a commit");
    }
}

#[test]
fn a_pack_without_objects_is_a_pack() {
    let bytes = Pack::default().bytes();
    assert_eq!(check(&bytes).unwrap(), Seen { bytes: 32, ..Seen::default() });
}

#[test]
fn what_is_no_pack_is_refused_at_its_first_bytes() {
    assert_eq!(check(b"GET / HTTP/1.1\r\n\r\n"), Err(PackRefused::NotAPack));
    assert_eq!(check(b"PACK\0\0\0\x03\0\0\0\0"), Err(PackRefused::Version(3)));
    let refused = check(b"PACK\0\0\0\x02\xff\xff\xff\xff").unwrap_err();
    assert!(matches!(refused, PackRefused::Objects { count: u32::MAX, .. }));
}

#[test]
fn bombs_are_refused_without_being_unpacked() {
    let bomb = packs::delta_bomb();
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    assert!(matches!(check(&bomb), Err(PackRefused::Deltas { .. })));
    assert!(matches!(check(&packs::zip_bomb()), Err(PackRefused::Inflates { .. })));
    let huge = small().lying_object(BLOB, 1 << 40, b"").bytes();
    assert!(matches!(check(&huge), Err(PackRefused::Object { bytes, .. }) if bytes == 1 << 40));
    let claims = [packs::varint(3), packs::varint(1 << 40)].concat();
    let makes_huge = small().delta_back(20, &claims).bytes();
    assert!(matches!(check(&makes_huge), Err(PackRefused::Object { .. })));
    let limits = PackLimits { bytes_max: 1_000, ..PackLimits::push(0) };
    let long = check_with(&limits, &Pack::default().raw(BLOB, 0, b"", &[0; 2_000]).bytes(), 100);
    assert!(long.is_err());
    let random: Vec<u8> =
        (0..3_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let long = check_with(&limits, &Pack::default().object(BLOB, &random).bytes(), 100);
    assert_eq!(long, Err(PackRefused::Bytes { max: 1_000 }));
}

#[test]
fn what_is_not_as_it_says_is_refused() {
    let damaged = |pack: Vec<u8>, words: &str| {
        let refused = check(&pack).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    };
    damaged(small().lying_object(BLOB, 3, b"longer").bytes(), "longer than it says");
    damaged(small().lying_object(BLOB, 9, b"short").bytes(), "shorter than it says");
    damaged(small().raw(0, 1, b"", &packs::deflate(b"x")).bytes(), "unknown type");
    damaged(small().raw(5, 1, b"", &packs::deflate(b"x")).bytes(), "unknown type");
    damaged(small().raw(BLOB, 5, b"", b"no zlib here").bytes(), "does not inflate");
    damaged(small().delta_back(100_000, &delta(3, b"")).bytes(), "base is not in the pack");
    damaged(small().delta_back(0, &delta(3, b"")).bytes(), "base is not in the pack");
    damaged(small().delta_back(20, &[0x80]).bytes(), "does not say what it makes");
    damaged(small().delta_back(20, &[0xff; 30]).bytes(), "out of range");
    let endless = [b"PACK\0\0\0\x02\0\0\0\x01".as_slice(), &[0xbf; 40]].concat();
    damaged(endless, "size is out of range");
    let far = [b"PACK\0\0\0\x02\0\0\0\x01\x61".as_slice(), &[0xff; 40]].concat();
    damaged(far, "base is out of range");
}

#[test]
fn counts_and_ends_must_be_right() {
    let pack = small();
    assert!(matches!(check(&pack.bytes_claiming(1)), Err(PackRefused::Trailing)));
    assert!(check(&pack.bytes_claiming(3)).is_err());
    let mut behind = pack.bytes();
    behind.push(b'x');
    assert_eq!(check(&behind), Err(PackRefused::Trailing));
    let whole = pack.bytes();
    for len in 0..whole.len() {
        let cut = check(&whole[..len]);
        assert_eq!(cut, Err(PackRefused::Truncated { bytes: len as u64 }));
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic_or_depend_on_the_cut(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0_usize..100,
        piece in 1_usize..50,
    ) {
        let mut pack = small().delta_back(20, &delta(6, b"x")).bytes();
        for (place, byte) in pack.iter_mut().skip(at).zip(bytes) {
            *place = byte;
        }
        let limits = PackLimits::proposal(1 << 20);
        let (small, large) = (check_with(&limits, &pack, piece), check_with(&limits, &pack, 1_000));
        prop_assert_eq!(small.ok(), large.ok());
    }
}
