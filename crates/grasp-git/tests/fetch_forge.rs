//! The asking side of smart HTTP against servers on a socket, good and bad: what is good arrives, and
//! whatever else they do has a name and an end.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

use grasp_core::Oid;
use grasp_git::fetch::{
    self, Advert, AdvertReader, Answer, Listed, RefsReader, Refusal, Step, wants_slowdown,
};
use grasp_git::{Gate, PackLimits, PackRefused};
use grasp_testkit::forge::{Forge, Manner, What};
use grasp_testkit::{Git, Page, WorkTree};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);
/// As much as is read of what has no end.
const READ_BYTES_MAX: usize = 4 << 20;

#[tokio::test]
async fn what_is_good_arrives_in_both_versions() {
    let it = Hosted::new().await;
    for manner in [Manner::Honest, Manner::V0Only, Manner::RefusesOids] {
        it.forge.behave(manner);
        let pack = it.fetched(&[it.tip]).await.unwrap();
        let mut gate = Gate::new(&PackLimits::push(1 << 20));
        gate.feed(&pack).unwrap();
        assert_eq!(gate.finish().unwrap().objects, 6);
    }
    let kinds: Vec<What> = it.forge.log().iter().map(|it| it.what).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == What::FetchV0).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == What::FetchV2).count(), 2);
    it.forge.behave(Manner::Drip(10_000));
    it.fetched(&[it.tip]).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_named_and_lies_are_found_out() {
    let it = Hosted::new().await;
    it.forge.behave(Manner::RefusesOids);
    assert_eq!(it.fetched(&[it.older, it.tip]).await, Err(Refusal::NotOurRef(it.older)));
    let lie = Oid::from_bytes([9; 20]);
    it.forge.behave(Manner::LiesAboutRefs(vec![lie]));
    assert!(it.listed().await.unwrap().iter().any(|listed| listed.oid == lie));
    assert_eq!(it.fetched(&[lie]).await, Err(Refusal::NotOurRef(lie)));
    it.forge.behave(Manner::Honest);
    assert_eq!(it.fetched(&[it.older]).await.map(|pack| pack.len() > 32), Ok(true));
}

#[tokio::test]
async fn every_trick_has_a_name_and_an_end() {
    let it = Hosted::new().await;
    for (manner, expected) in [
        (Manner::EndlessProgress, Refusal::TooMuchProgress),
        (Manner::Truncate(60), Refusal::Truncated),
        (Manner::Truncate(0), Refusal::Truncated),
        (Manner::HangUpMidPack(200), Refusal::Truncated),
        (Manner::ShallowAnswer, Refusal::Shallow),
        (Manner::PackfileUris, Refusal::PackElsewhere),
        (Manner::Html, Refusal::NotGit),
        (Manner::HangUp, Refusal::NotGit),
        (Manner::GzipBomb, Refusal::NotGit),
        (Manner::Says("Rate limit".into()), Refusal::Said("Rate limit".into())),
    ] {
        it.forge.behave(manner.clone());
        assert_eq!(it.fetched(&[it.tip]).await, Err(expected), "{manner:?}");
    }
    assert!(wants_slowdown("Rate limit"));
    // The pack is not for this layer to judge.
    it.forge.behave(Manner::Unrelated);
    it.fetched(&[it.tip]).await.unwrap();
    it.forge.behave(Manner::CorruptPack);
    it.fetched(&[it.tip]).await.unwrap();
}

#[tokio::test]
async fn a_pack_without_an_end_is_stopped_by_its_size() {
    let it = Hosted::new().await;
    it.forge.behave(Manner::EndlessPack);
    let body = it.posts(true, &fetch::request_v2(&[it.tip].into(), &[])).await;
    let mut answer = Answer::v2();
    let mut gate = Gate::new(&PackLimits::push(1 << 20));
    let (mut rest, mut refused) = (&body[..], None);
    while let (Step::Pack { bytes, rest: later }, None) = (answer.push(rest).unwrap(), &refused) {
        refused = gate.feed(bytes).err();
        rest = later;
    }
    assert_eq!(refused, Some(PackRefused::Bytes { max: 1 << 20 }));
    assert_eq!(answer.finish(), Err(Refusal::Truncated));
}

struct Hosted {
    forge: Forge,
    older: Oid,
    tip: Oid,
}

impl Hosted {
    async fn new() -> Self {
        let forge = Forge::start().await;
        let tree = WorkTree::init(&Git::any()).await;
        let older = tree.commit("file", "one").await;
        let tip = tree.commit("file", "two").await;
        forge.mirrors("/acme.git", &tree).await;
        Self { forge, older, tip }
    }

    async fn advert(&self) -> Result<Advert, Refusal> {
        let page = self.asks("GET", fetch::INFO_REFS, true, b"").await;
        let mut reader = AdvertReader::new();
        page.chunks(100).try_for_each(|piece| reader.push(piece))?;
        reader.finish()
    }

    async fn listed(&self) -> Result<Vec<Listed>, Refusal> {
        let body = self.posts(true, &fetch::ls_refs_v2(&["refs/"])).await;
        let mut reader = RefsReader::new();
        body.chunks(100).try_for_each(|piece| reader.push(piece))?;
        reader.finish()
    }

    async fn fetched(&self, wants: &[Oid]) -> Result<Vec<u8>, Refusal> {
        let wants: BTreeSet<Oid> = wants.iter().copied().collect();
        let (body, mut answer) = match self.advert().await? {
            Advert::V2 => (self.posts(true, &fetch::request_v2(&wants, &[])).await, Answer::v2()),
            Advert::V0 { caps, .. } => {
                let request = fetch::request_v0(&wants, &[], &caps);
                (self.posts(false, &request).await, Answer::v0(&caps))
            }
        };
        let mut pack = Vec::new();
        for mut rest in body.chunks(1_000) {
            while let Step::Pack { bytes, rest: later } = answer.push(rest)? {
                pack.extend_from_slice(bytes);
                rest = later;
            }
        }
        answer.finish().map(|()| pack)
    }

    async fn posts(&self, v2: bool, body: &[u8]) -> Vec<u8> {
        self.asks("POST", fetch::UPLOAD_PACK, v2, body).await
    }

    /// The body of the answer, or the first part of it.
    async fn asks(&self, method: &str, path: &str, v2: bool, body: &[u8]) -> Vec<u8> {
        let (name, value) = fetch::PROTOCOL_HEADER;
        let version = if v2 { format!("{name}: {value}\r\n") } else { String::new() };
        let head = format!(
            "{method} /acme.git/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             {version}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut socket = TcpStream::connect(self.forge.address()).await.unwrap();
        socket.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut bytes = Vec::new();
        let mut limited = socket.take(u64::try_from(READ_BYTES_MAX).unwrap());
        // A reset is an end, too.
        let _ = timeout(CAP, limited.read_to_end(&mut bytes)).await.expect("it ends");
        let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { return bytes };
        let head = String::from_utf8(bytes[..end + 4].to_vec()).unwrap();
        let page = Page::parse(&head).unwrap();
        let body = &bytes[end + 4..];
        if page.header("transfer-encoding").is_some() { dechunked(body) } else { body.to_vec() }
    }
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|it| it == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        let (from, to) = (line + 2, (line + 2 + size).min(bytes.len()));
        body.extend_from_slice(&bytes[from..to]);
        bytes = bytes.get(to + 2..).unwrap_or_default();
    }
    body
}
