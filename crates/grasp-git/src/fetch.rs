//! The asking side of git's smart HTTP: what to say to somebody else's `upload-pack`, and what is to
//! be made of its answers. Bytes in, values out; no socket and no disk. Everything that comes in has
//! a bound, and of what a server says about itself only object ids are used.

mod advert;
mod answer;
mod glance;
mod packets;
mod refs;
mod refusal;
mod steps;

pub use advert::{Advert, AdvertReader, V0Caps};
pub use answer::{Answer, PROGRESS_BYTES_MAX, Step};
pub use glance::Glance;
pub use refs::{LIST_BYTES_MAX, Listed, REFS_MAX, RefKind, RefsReader};
pub use refusal::{Refusal, printable, wants_slowdown};
pub use steps::FetchSteps;

use crate::advertise::{self, AGENT, Service};
use crate::pktline;
use grasp_core::Oid;
use std::collections::BTreeSet;

/// Behind the repository's address and a slash: the first question (GET).
pub const INFO_REFS: &str = "info/refs?service=git-upload-pack";
/// Every other question (POST).
pub const UPLOAD_PACK: &str = "git-upload-pack";
/// The header that asks for version 2. It must not go with a question of version 0.
pub const PROTOCOL_HEADER: (&str, &str) = ("git-protocol", "version=2");

/// The type of the answer to `INFO_REFS`.
pub const ADVERT_TYPE: &str = advertise::advertisement_type(Service::UploadPack);
/// The type of a question.
pub const REQUEST_TYPE: &str = advertise::request_type(Service::UploadPack);
/// The type of the answer to `UPLOAD_PACK`.
pub const RESULT_TYPE: &str = advertise::result_type(Service::UploadPack);

/// Is this `Content-Type` that type, whatever its parameters?
pub fn is_type(header: &str, wanted: &str) -> bool {
    header.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(wanted))
}

/// Everything behind `wants` that is not behind `haves`, in one round.
pub fn request_v2(wants: &BTreeSet<Oid>, haves: &[Oid]) -> Vec<u8> {
    let mut out = command("fetch");
    for option in ["thin-pack", "ofs-delta", "no-progress"] {
        pktline::text(&mut out, option);
    }
    wants.iter().for_each(|oid| pktline::text(&mut out, &format!("want {oid}")));
    end(&mut out, haves);
    pktline::flush(&mut out);
    out
}

/// The commits behind `wants` that are not behind `haves`, without what is in them. Not thin: they are
/// looked at alone.
pub fn commits_v2(wants: &BTreeSet<Oid>, haves: &[Oid]) -> Vec<u8> {
    let mut out = command("fetch");
    for option in ["ofs-delta", "no-progress", "filter tree:0"] {
        pktline::text(&mut out, option);
    }
    wants.iter().for_each(|oid| pktline::text(&mut out, &format!("want {oid}")));
    end(&mut out, haves);
    pktline::flush(&mut out);
    out
}

/// Only to see whether these are given out: nothing of what is before them and, of servers that know how
/// to leave that out, nothing of what is in them.
pub fn sample_v2(wants: &BTreeSet<Oid>, sample: Sample) -> Vec<u8> {
    let mut out = command("fetch");
    for option in ["ofs-delta", "no-progress", "deepen 1"] {
        pktline::text(&mut out, option);
    }
    if sample == Sample::Bare {
        pktline::text(&mut out, "filter tree:0");
    }
    wants.iter().for_each(|oid| pktline::text(&mut out, &format!("want {oid}")));
    end(&mut out, &[]);
    pktline::flush(&mut out);
    out
}

/// How much comes with the objects of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// Commits without their trees.
    Bare,
    /// Commits with all their files.
    Files,
}

/// The refs whose names begin with one of these, or all. Servers may list others as well.
pub fn ls_refs_v2<S: AsRef<str>>(prefixes: &[S]) -> Vec<u8> {
    let mut out = command("ls-refs");
    pktline::text(&mut out, "peel");
    for prefix in prefixes {
        pktline::text(&mut out, &format!("ref-prefix {}", prefix.as_ref()));
    }
    pktline::flush(&mut out);
    out
}

/// As `request_v2`, for a server that knows only the first protocol, with those of its offers that
/// are of use. Nothing wanted makes an empty request, which asks for nothing.
pub fn request_v0(wants: &BTreeSet<Oid>, haves: &[Oid], caps: &V0Caps) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chosen = Some(caps.chosen());
    for oid in wants {
        match chosen.take() {
            Some(caps) => pktline::text(&mut out, format!("want {oid} {caps}").trim_end()),
            None => pktline::text(&mut out, &format!("want {oid}")),
        }
    }
    pktline::flush(&mut out);
    if !wants.is_empty() {
        // A second flush would end the round before the pack.
        end(&mut out, haves);
    }
    out
}

/// The head of a question in version 2. The object format is left out: without it SHA-1 is meant, and
/// servers from before there was a choice refuse a word they do not know.
fn command(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    pktline::text(&mut out, &format!("command={name}"));
    pktline::text(&mut out, AGENT);
    pktline::delim(&mut out);
    out
}

fn end(out: &mut Vec<u8>, haves: &[Oid]) {
    haves.iter().for_each(|oid| pktline::text(out, &format!("have {oid}")));
    pktline::text(out, "done");
}

#[cfg(test)]
mod tests;
