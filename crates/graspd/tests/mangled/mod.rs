//! Bodies of pushes that went wrong on the way: each begins as what a client would send for the state
//! that waits, and then something happens to it. The same seed makes the same bodies.

use crate::common::wire::{FLUSH, FRAMED, ZERO, pkt};
use flate2::Compression;
use flate2::write::GzEncoder;
use grasp_testkit::Random;
use std::io::Write;

/// `old new name`.
pub(crate) type Line = (String, String, String);

/// What an honest client would send now.
#[derive(Debug, Clone)]
pub(crate) struct Honest {
    pub(crate) lines: Vec<Line>,
    pub(crate) pack: Vec<u8>,
}

/// What goes over the wire.
#[derive(Debug)]
pub(crate) struct Mangled {
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
    /// The client leaves before it has said what it said it would.
    pub(crate) breaks_off: bool,
}

impl Mangled {
    fn new(headers: &str, body: Vec<u8>) -> Self {
        Self { headers: headers.to_owned(), body, breaks_off: false }
    }
}

const NAMES: [&str; 12] = [
    "refs/heads/main",
    "refs/heads/evil",
    "refs/heads/main/below",
    "refs/heads/../../x",
    "refs/heads/x.lock",
    "refs/tags/v0",
    "refs/internal/0101010101010101010101010101010101010101",
    "refs/nostr/0101010101010101010101010101010101010101010101010101010101010101",
    "refs/nostr/0202",
    "refs/notes/commits",
    "HEAD",
    "packed-refs",
];
const TAILS: [&str; 5] = ["\0x", " y", "\n", "^{}", "é"];
const CAPABILITIES: [&str; 9] = [
    FRAMED,
    "report-status",
    "report-status-v2 side-band-64k atomic object-format=sha1",
    "",
    " ",
    "report-status push-options",
    "report-status push-cert=nonce",
    "report-status object-format=sha256",
    "report-status side-band-64k atomic quiet delete-refs ofs-delta agent=x session-id=y",
];
const CERTIFICATE: [&str; 6] = [
    "certificate version 0.1\n",
    "pusher A <a@example.com> 1 +0000\n",
    "nonce x\n",
    "\n",
    "",
    "push-cert-end\n",
];
const LENGTHS: [&[u8]; 9] =
    [b"0001", b"0002", b"0003", b"0004", b"fff0", b"ffff", b"zzzz", b"00FF", b"0"];

/// One body; one in a dozen is left as it is.
pub(crate) fn mangle(random: &mut Random, honest: &Honest, oids: &[String]) -> Mangled {
    let mut it = honest.clone();
    if random.one_in(12) {
        return Mangled::new("", spelled(&it, FRAMED));
    }
    if random.one_in(2) {
        lines(random, &mut it.lines, oids);
    }
    if random.one_in(4) {
        pack(random, &mut it.pack);
    }
    let caps = if random.one_in(3) { *random.pick(&CAPABILITIES) } else { FRAMED };
    let mut body = match random.below(8) {
        0 => certified(&it, caps),
        1 => with_more(random, &it, caps),
        _ => spelled(&it, caps),
    };
    if random.one_in(2) {
        bytes(random, &mut body, it.pack.len());
    }
    encoded(random, body)
}

fn list(lines: &[Line], caps: &str) -> String {
    let mut text = String::new();
    for (at, (old, new, name)) in lines.iter().enumerate() {
        let caps = if at == 0 { format!("\0{caps}") } else { String::new() };
        text.push_str(&pkt(&format!("{old} {new} {name}{caps}")));
    }
    text
}

fn spelled(it: &Honest, caps: &str) -> Vec<u8> {
    [list(&it.lines, caps).as_bytes(), FLUSH.as_bytes(), &it.pack].concat()
}

/// Commands inside a push certificate, where another parser would find them.
fn certified(it: &Honest, caps: &str) -> Vec<u8> {
    let mut text = pkt(&format!("push-cert\0{caps}\n"));
    for line in CERTIFICATE {
        text.push_str(&pkt(line));
        if line == "\n" {
            it.lines
                .iter()
                .for_each(|(a, b, name)| text.push_str(&pkt(&format!("{a} {b} {name}\n"))));
        }
    }
    [text.as_bytes(), FLUSH.as_bytes(), &it.pack].concat()
}

/// Lines and sections of protocols that are not spoken here.
fn with_more(random: &mut Random, it: &Honest, caps: &str) -> Vec<u8> {
    let shallow = pkt(&format!("shallow {}\n", it.lines.first().map_or(ZERO, |line| &line.1)));
    let list = list(&it.lines, caps);
    let text = match random.below(5) {
        0 => format!("{shallow}{list}{FLUSH}"),
        1 => format!("{list}{shallow}{FLUSH}"),
        2 => format!("{list}{FLUSH}{}{FLUSH}", pkt("option=value")),
        3 => format!("{list}{FLUSH}{list}{FLUSH}"),
        _ => format!("{list}0001{list}{FLUSH}"),
    };
    [text.as_bytes(), &it.pack].concat()
}

fn lines(random: &mut Random, lines: &mut Vec<Line>, oids: &[String]) {
    for _ in 0..=random.below(2) {
        let at = random.index(lines.len());
        match random.below(10) {
            0 => drop(lines.pop()),
            1 if !lines.is_empty() => lines.push(lines[at].clone()),
            2 if !lines.is_empty() => lines[at].0 = id(random, oids),
            3 if !lines.is_empty() => lines[at].1 = id(random, oids),
            4 if !lines.is_empty() => lines[at].2 = (*random.pick(&NAMES)).to_owned(),
            5 if !lines.is_empty() => lines[at].2.push_str(TAILS[random.index(TAILS.len())]),
            6 => lines.reverse(),
            7 => lines.clear(),
            _ => {
                let name = (*random.pick(&NAMES)).to_owned();
                let old = if random.one_in(2) { ZERO.to_owned() } else { id(random, oids) };
                lines.insert(at, (old, id(random, oids), name));
            }
        }
    }
}

fn id(random: &mut Random, oids: &[String]) -> String {
    let oid = random.pick(oids).clone();
    match random.below(12) {
        0 => ZERO.to_owned(),
        1 => oid.to_uppercase(),
        2 => oid[..39].to_owned(),
        3 => format!("{oid}0"),
        4 => "1".repeat(64),
        5 => "f".repeat(40),
        _ => oid,
    }
}

fn pack(random: &mut Random, pack: &mut Vec<u8>) {
    if pack.is_empty() {
        return;
    }
    let at = random.index(pack.len());
    match random.below(6) {
        0 => pack.clear(),
        1 => pack.truncate(at),
        2 => pack[at] ^= 1 << random.below(8),
        3 => pack.extend_from_slice(b"and more"),
        4 => pack.extend_from_within(..),
        _ => drop(pack.splice(8..12, [0xff; 4])),
    }
}

/// Accidents anywhere in the command list; its lengths are the favourite place.
fn bytes(random: &mut Random, body: &mut Vec<u8>, pack: usize) {
    for _ in 0..=random.below(2) {
        let head = body.len().saturating_sub(pack).max(1).min(body.len());
        if head == 0 {
            return;
        }
        let at = random.index(head);
        match random.below(6) {
            0 => body[at] ^= 1 << random.below(8),
            1 => body.insert(at, *random.pick(b"\0 0aF\n\xff")),
            2 => drop(body.remove(at)),
            3 => body.truncate(at),
            4 => {
                let length = *random.pick(&LENGTHS);
                let end = (length.len()).min(body.len());
                drop(body.splice(..end, length.iter().copied()));
            }
            _ => drop(body.splice(at..at, random.pick(&LENGTHS).iter().copied())),
        }
    }
}

/// How HTTP carries it: as it is, zipped, in chunks, or in a way that does not add up.
fn encoded(random: &mut Random, body: Vec<u8>) -> Mangled {
    let zipped = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).expect("memory is patient");
        encoder.finish().expect("memory is patient")
    };
    let gzip = "Content-Encoding: gzip\r\n";
    let length = |bytes: usize| format!("Content-Length: {bytes}\r\n");
    match random.below(14) {
        0 | 1 => Mangled::new(gzip, zipped(&body)),
        2 => Mangled::new(gzip, body),
        3 => {
            let mut body = zipped(&body);
            body.truncate(random.index(body.len()));
            Mangled::new(gzip, body)
        }
        4 => Mangled::new(gzip, zipped(&zipped(&body))),
        5 | 6 => chunked(random, &body),
        7 => Mangled::new("Content-Encoding: br\r\n", body),
        8 => Mangled::new(&length(body.len() / 2), body),
        9 => Mangled { breaks_off: true, ..Mangled::new(&length(body.len() + 10), body) },
        _ => Mangled::new("", body),
    }
}

fn chunked(random: &mut Random, body: &[u8]) -> Mangled {
    let mut out = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(1 + random.index(rest.len().min(700)));
        out.extend(format!("{:x}\r\n", chunk.len()).bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        rest = after;
    }
    let breaks_off = random.one_in(6);
    if !breaks_off {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    Mangled { breaks_off, ..Mangled::new("Transfer-Encoding: chunked\r\n", out) }
}
