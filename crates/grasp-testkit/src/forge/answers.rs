//! What a forge has to say to a request: what git says, or what its manner makes of that.

use super::house::House;
use super::noise::{self, Endless};
use super::packets::{band, line, spans};
use super::request::Request;
use super::{Manner, What, git};
use grasp_core::Oid;

const ADVERT_TYPE: &str = "application/x-git-upload-pack-advertisement";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";

pub(super) enum Reaction {
    Answers(Reply),
    /// Nothing, as long as the other side likes to wait.
    Silence,
    HangsUp,
    SlowHeaders,
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Body,
}

pub(super) enum Body {
    Whole(Vec<u8>),
    /// So many bytes of it, then silence.
    Stalls(Vec<u8>, usize),
    /// So many bytes of it, then the connection ends.
    Breaks(Vec<u8>, usize),
    /// So many bytes in a second.
    Drips(Vec<u8>, u64),
    /// What comes first, and what never ends.
    Endless(Vec<u8>, Endless),
}

pub(super) async fn reacts(house: &House, request: &Request) -> Reaction {
    let manner = house.manner();
    if let Some(reaction) = at_the_door(&manner, request) {
        return reaction;
    }
    let found = request.repository().and_then(|(path, _)| house.repository(path));
    let (Some(dir), true) = (found, request.what() != What::Other) else {
        return Reaction::Answers(words(404, "no such repository"));
    };
    let protocol = match request.header("git-protocol") {
        Some(version @ ("version=1" | "version=2")) if manner != Manner::V0Only => version,
        _ => "",
    };
    if request.what() == What::InfoRefs {
        let body = git::info_refs(house, &dir, protocol).await;
        let body = if protocol == "version=2" { body } else { with_lies(body, &manner) };
        return Reaction::Answers(typed(ADVERT_TYPE, &manner, Body::Whole(body)));
    }
    let absent = match &manner {
        Manner::RefusesOids => {
            let tips = git::tips(house, &dir).await;
            request.oids("want").into_iter().find(|oid| !tips.contains(&oid.to_hex()))
        }
        _ => None,
    };
    let body = match (&manner, absent) {
        (Manner::Says(words), _) => Body::Whole(line(&format!("ERR {words}"))),
        (_, Some(oid)) => Body::Whole(line(&format!("ERR upload-pack: not our ref {oid}"))),
        _ => {
            let honest = git::answer(house, &dir, protocol, &request.body).await;
            match request.what() {
                What::LsRefs => Body::Whole(with_lies(honest, &manner)),
                _ if manner == Manner::Smuggles => {
                    let pack = git::pack_with_unrelated(house, &dir, &request.oids("want")).await;
                    let lead = line(if protocol == "version=2" { "packfile" } else { "NAK" });
                    Body::Whole([lead, band(1, &pack), b"0000".to_vec()].concat())
                }
                _ => fetched(house, &manner, request, honest).await,
            }
        }
    };
    Reaction::Answers(typed(RESULT_TYPE, &manner, body))
}

/// For manners that look at nothing.
fn at_the_door(manner: &Manner, request: &Request) -> Option<Reaction> {
    let reply = match manner {
        Manner::Stall => return Some(Reaction::Silence),
        Manner::HangUp => return Some(Reaction::HangsUp),
        Manner::SlowHeaders => return Some(Reaction::SlowHeaders),
        Manner::Lacks => words(404, "no such repository"),
        Manner::Redirect(to) => {
            let to = format!("{}{}", to.trim_end_matches('/'), request.target());
            Reply { headers: vec![("Location", to)], ..words(302, "") }
        }
        Manner::Html => {
            let page = "<!DOCTYPE html><html><title>Welcome</title><p>This is a forge.</html>";
            Reply { headers: vec![("Content-Type", "text/html".into())], ..words(200, page) }
        }
        Manner::Status(status, retry_after) => {
            let mut reply = words(*status, "not now");
            reply.headers.extend(retry_after.map(|secs| ("Retry-After", secs.to_string())));
            reply
        }
        Manner::Auth401 => {
            let mut reply = words(401, "who are you?");
            reply.headers.push(("WWW-Authenticate", "Basic realm=\"forge\"".into()));
            reply
        }
        Manner::GzipBomb => {
            let name = if request.what() == What::InfoRefs { ADVERT_TYPE } else { RESULT_TYPE };
            let mut reply = typed(name, manner, Body::Endless(Vec::new(), noise::bomb()));
            reply.headers.push(("Content-Encoding", "gzip".into()));
            reply
        }
        _ => return None,
    };
    Some(Reaction::Answers(reply))
}

async fn fetched(house: &House, manner: &Manner, request: &Request, honest: Vec<u8>) -> Body {
    let v2 = request.what() == What::FetchV2;
    let lead = line(if v2 { "packfile" } else { "NAK" });
    let wanted = request.oids("want").first().map(Oid::to_string).unwrap_or_default();
    match manner {
        Manner::StallMidPack(bytes) => Body::Stalls(honest, *bytes),
        Manner::HangUpMidPack(bytes) => Body::Breaks(honest, *bytes),
        Manner::Drip(per_second) => Body::Drips(honest, *per_second),
        Manner::Truncate(bytes) => Body::Whole(honest.get(..*bytes).unwrap_or(&honest).to_vec()),
        Manner::EndlessProgress => Body::Endless(lead, noise::words()),
        Manner::EndlessPack => Body::Endless(lead, noise::pack()),
        Manner::CorruptPack => Body::Whole(corrupted(honest)),
        Manner::Unrelated => {
            let pack = band(1, &git::unrelated_pack(house).await);
            Body::Whole([lead, pack, b"0000".to_vec()].concat())
        }
        Manner::ShallowAnswer => {
            let cut = line(&format!("shallow {wanted}"));
            let before = if v2 { [line("shallow-info"), cut].concat() } else { cut };
            let mark: &[u8] = if v2 { b"0001" } else { b"0000" };
            Body::Whole([&before[..], mark, &honest].concat())
        }
        Manner::PackfileUris if v2 => {
            let place = line(&format!("{wanted} {}/elsewhere.pack", house.origin));
            Body::Whole([line("packfile-uris"), place, b"0001".to_vec(), honest].concat())
        }
        _ => Body::Whole(honest),
    }
}

/// One bit, in the middle of the longest piece of the pack.
fn corrupted(mut body: Vec<u8>) -> Vec<u8> {
    let pieces = spans(&body).into_iter().filter(|(from, _)| body.get(from + 4) == Some(&1));
    let (from, to) = pieces.max_by_key(|(from, to)| to - from).unwrap_or((0, body.len()));
    if let Some(byte) = body.get_mut(from.midpoint(to)) {
        *byte ^= 1;
    }
    body
}

/// Refs that are not there, behind those that are.
fn with_lies(mut body: Vec<u8>, manner: &Manner) -> Vec<u8> {
    if let (Manner::LiesAboutRefs(oids), true) = (manner, body.ends_with(b"0000")) {
        body.truncate(body.len() - 4);
        for (n, oid) in oids.iter().enumerate() {
            body.extend(line(&format!("{oid} refs/heads/lie-{n}")));
        }
        body.extend_from_slice(b"0000");
    }
    body
}

fn words(status: u16, text: &str) -> Reply {
    let headers = vec![("Content-Type", "text/plain".into())];
    Reply { status, headers, body: Body::Whole(text.as_bytes().to_vec()) }
}

fn typed(name: &str, manner: &Manner, body: Body) -> Reply {
    let name = if *manner == Manner::WrongContentType { "text/plain" } else { name };
    let headers = vec![("Content-Type", name.to_owned()), ("Cache-Control", "no-cache".into())];
    Reply { status: 200, headers, body }
}
