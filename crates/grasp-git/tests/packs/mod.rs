//! Packs made by hand, honest and hostile, for tests of what may come in. Nothing here asks git.
#![allow(dead_code, reason = "each test file uses a part of it")]

use flate2::Compression;
use flate2::write::ZlibEncoder;
use grasp_core::Oid;
use std::io::Write;

pub(crate) const COMMIT: u8 = 1;
pub(crate) const TREE: u8 = 2;
pub(crate) const BLOB: u8 = 3;
pub(crate) const TAG: u8 = 4;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;
pub(crate) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Writes entries one after another, exactly as told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pack {
    entries: Vec<u8>,
    count: u32,
}

impl Pack {
    pub(crate) fn object(self, kind: u8, content: &[u8]) -> Self {
        self.raw(kind, content.len() as u64, &[], &deflate(content))
    }

    /// An object whose header says something else than its content.
    pub(crate) fn lying_object(self, kind: u8, size: u64, content: &[u8]) -> Self {
        self.raw(kind, size, &[], &deflate(content))
    }

    pub(crate) fn delta_back(self, distance: u64, delta: &[u8]) -> Self {
        self.raw(OFS_DELTA, delta.len() as u64, &offset(distance), &deflate(delta))
    }

    pub(crate) fn delta_named(self, base: &Oid, delta: &[u8]) -> Self {
        self.raw(REF_DELTA, delta.len() as u64, base.as_bytes(), &deflate(delta))
    }

    pub(crate) fn raw(mut self, kind: u8, size: u64, base: &[u8], deflated: &[u8]) -> Self {
        let (mut byte, mut rest) = ((kind << 4) | (size & 15) as u8, size >> 4);
        while rest > 0 {
            self.entries.push(byte | 0x80);
            (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
        }
        self.entries.push(byte);
        self.entries.extend_from_slice(base);
        self.entries.extend_from_slice(deflated);
        self.count += 1;
        self
    }

    /// Where the next entry will begin.
    pub(crate) fn end(&self) -> u64 {
        12 + self.entries.len() as u64
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes_claiming(self.count)
    }

    /// With a header that counts as it likes, and the right checksum.
    pub(crate) fn bytes_claiming(&self, count: u32) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend_from_slice(&count.to_be_bytes());
        pack.extend_from_slice(&self.entries);
        let sum = sha1(&pack);
        pack.extend_from_slice(&sum);
        pack
    }
}

pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

pub(crate) fn oid_of(kind: &str, content: &[u8]) -> Oid {
    let mut object = format!("{kind} {}\0", content.len()).into_bytes();
    object.extend_from_slice(content);
    Oid::from_bytes(sha1(&object))
}

pub(crate) fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(bytes);
    let id = hasher.try_finalize().expect("no collision");
    id.as_slice().try_into().expect("20 bytes")
}

/// A delta that copies the whole base, whatever its size, and adds `tail`.
pub(crate) fn delta(base_len: u64, tail: &[u8]) -> Vec<u8> {
    let mut delta = varint(base_len);
    delta.extend(varint(base_len + tail.len() as u64));
    let (mut at, mut left) = (0, base_len);
    while left > 0 {
        let len = left.min(0xff_ffff);
        delta.push(0xff);
        delta.extend_from_slice(&u32::try_from(at).expect("4 GiB").to_le_bytes());
        delta.extend_from_slice(&u32::try_from(len).expect("3 bytes").to_le_bytes()[..3]);
        (at, left) = (at + len, left - len);
    }
    for part in tail.chunks(127) {
        delta.push(part.len() as u8);
        delta.extend_from_slice(part);
    }
    delta
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn offset(mut distance: u64) -> Vec<u8> {
    let mut bytes = vec![(distance & 0x7f) as u8];
    while distance > 0x7f {
        distance = (distance >> 7) - 1;
        bytes.push((distance & 0x7f) as u8 | 0x80);
    }
    bytes.reverse();
    bytes
}

/// 64 deltas, each making a copy of one base of 64 MiB: 4 GiB from less than 100 KB.
pub(crate) fn delta_bomb() -> Vec<u8> {
    let base = vec![0; 64 << 20];
    let mut pack = Pack::default();
    let began = pack.end();
    pack = pack.object(BLOB, &base);
    for copy in 0..64_u8 {
        let distance = pack.end() - began;
        pack = pack.delta_back(distance, &delta(base.len() as u64, &[copy]));
    }
    pack.bytes()
}

/// One blob of zeros that is far larger than its pack.
pub(crate) fn zip_bomb() -> Vec<u8> {
    Pack::default().object(BLOB, &vec![0; 400 << 20]).bytes()
}

/// Two objects, each a delta of the other.
pub(crate) fn cyclic_deltas() -> Vec<u8> {
    let (one, two) = (oid_of("blob", b"one"), oid_of("blob", b"two"));
    Pack::default().delta_named(&two, &delta(3, b"")).delta_named(&one, &delta(3, b"")).bytes()
}

pub(crate) fn small() -> Pack {
    Pack::default().object(BLOB, b"hello\n").object(BLOB, b"world\n")
}

pub(crate) fn commit(tree: &str, parents: &[&str], message: &str) -> Vec<u8> {
    let mut text = format!("tree {tree}\n");
    for parent in parents {
        text.push_str(&format!("parent {parent}\n"));
    }
    let who = "A <a@example.com> 1700000000 +0000";
    text.push_str(&format!("author {who}\ncommitter {who}\n\n{message}\n"));
    text.into_bytes()
}

pub(crate) fn tree(entries: &[(&str, &str, &Oid)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (mode, name, oid) in entries {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        bytes.extend_from_slice(oid.as_bytes());
    }
    bytes
}

/// One commit with these files at its root, complete.
pub(crate) fn snapshot(files: &[(&str, &str, &[u8])]) -> (Pack, Oid) {
    let mut pack = Pack::default();
    let oids: Vec<Oid> = files.iter().map(|(_, _, content)| oid_of("blob", content)).collect();
    for (_, _, content) in files {
        pack = pack.object(BLOB, content);
    }
    let entries: Vec<_> =
        files.iter().zip(&oids).map(|((mode, name, _), oid)| (*mode, *name, oid)).collect();
    let root = tree(&entries);
    let commit = commit(&oid_of("tree", &root).to_hex(), &[], "snapshot");
    let tip = oid_of("commit", &commit);
    (pack.object(TREE, &root).object(COMMIT, &commit), tip)
}
