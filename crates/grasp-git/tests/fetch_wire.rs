//! The asking side of smart HTTP, held against what a real `upload-pack` understands and answers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "the lints' exception for tests misses their helpers, and a test may start git"
)]

mod real_git;
mod rig;

use grasp_core::Oid;
use grasp_git::fetch::{
    self, Advert, AdvertReader, Answer, Listed, RefKind, RefsReader, Refusal, Step, V0Caps,
};
use grasp_git::pktline;
use real_git::{Bare, Git, gits};
use rig::{Author, noise, oids};
use std::io::Write;
use std::process::Stdio;

#[test]
fn an_advertisement_says_what_git_itself_lists() {
    each_story(|it| {
        assert_eq!(it.advert("version=2"), Ok(Advert::V2));
        let expected = it.ls_remote();
        for version in ["", "version=1"] {
            let Ok(Advert::V0 { caps, refs }) = it.advert(version) else { panic!("not version 0") };
            assert_eq!(shown(&refs), expected, "{version}");
            assert!(caps.banded() && caps.ofs_delta && caps.thin_pack && caps.agent);
            assert!(!caps.any_wants());
        }
        for (prefixes, count) in [(&[][..], expected.len()), (&["refs/tags/"], 2)] {
            let answer = it.answers("version=2", &fetch::ls_refs_v2(prefixes));
            assert_eq!(shown(&refs_of(&answer).unwrap()).len(), count, "{prefixes:?}");
        }
        let answer = it.answers("version=2", &fetch::ls_refs_v2::<&str>(&[]));
        assert_eq!(shown(&refs_of(&answer).unwrap()), expected);
    });
}

#[test]
fn what_a_server_allows_beyond_its_tips_is_seen() {
    each_story(|it| {
        it.author.0.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
        let found = it.advert("").unwrap();
        assert!(found.offers(&Oid::from_bytes([9; 20])));
        let Advert::V0 { caps, .. } = found else { panic!("not version 0") };
        assert!(caps.allow_tip && caps.allow_reachable);
    });
}

#[test]
fn an_empty_repository_has_no_refs() {
    for git in gits() {
        let it = Story { author: Author(Bare::new(&git)), first: zero(), second: zero() };
        assert_eq!(it.advert("version=2"), Ok(Advert::V2));
        let Ok(Advert::V0 { refs, .. }) = it.advert("") else { panic!("not version 0") };
        assert_eq!(refs, []);
        let answer = it.answers("version=2", &fetch::ls_refs_v2::<&str>(&[]));
        assert_eq!(refs_of(&answer), Ok(Vec::new()));
    }
}

#[test]
fn another_object_format_is_refused() {
    for git in gits() {
        let bare = Bare::new(&git);
        std::fs::remove_dir_all(bare.dir()).unwrap();
        git.run(&["init", "-q", "--bare", "--object-format=sha256", &bare.path()]);
        let tree = bare.git(&["hash-object", "-w", "-t", "tree", "/dev/null"]);
        let commit = bare.git(&["commit-tree", "-m", "words", &tree]);
        bare.git(&["update-ref", "refs/heads/main", &commit]);
        let it = Story { author: Author(bare), first: zero(), second: zero() };
        assert_eq!(it.advert("version=2"), Err(Refusal::ObjectFormat));
        assert_eq!(it.advert(""), Err(Refusal::ObjectFormat));
        let request = fetch::request_v2(&oids(&[&zero()]), &[]);
        assert!(pack(Answer::v2(), &it.answers("version=2", &request), 100).is_err());
    }
}

#[test]
fn a_whole_pack_arrives_in_every_version_and_in_pieces_of_any_size() {
    each_story(|it| {
        let wants = oids(&[&it.second]);
        let v2 = it.answers("version=2", &fetch::request_v2(&wants, &[]));
        let offered = it.v0_caps();
        let forms = [
            offered,
            V0Caps { side_band_64k: false, ..offered },
            V0Caps { side_band_64k: false, side_band: false, ..offered },
            V0Caps::default(),
        ];
        for piece in [1, 7, 4_096, usize::MAX] {
            it.holds(&pack(Answer::v2(), &v2, piece).unwrap(), 6);
        }
        for caps in forms {
            let answer = it.answers("", &fetch::request_v0(&wants, &[], &caps));
            for piece in [1, 1_000, usize::MAX] {
                it.holds(&pack(Answer::v0(&caps), &answer, piece).unwrap(), 6);
            }
            let cut = pack(Answer::v0(&caps), &answer[..answer.len() - 4], 1_000);
            assert_eq!(cut.err(), caps.banded().then_some(Refusal::Truncated));
        }
        let cut = pack(Answer::v2(), &v2[..v2.len() - 4], 1_000);
        assert_eq!(cut, Err(Refusal::Truncated));
    });
}

#[test]
fn what_is_here_already_is_not_sent_again_and_deltas_may_lean_on_it() {
    each_story(|it| {
        let wants = oids(&[&it.second]);
        let unknown = Oid::from_bytes([9; 20]);
        let haves = [unknown, it.first];
        let v2 = it.answers("version=2", &fetch::request_v2(&wants, &haves));
        let v2 = pack(Answer::v2(), &v2, 1_000).unwrap();
        let offered = it.v0_caps();
        let bare = V0Caps { side_band_64k: false, side_band: false, ..offered };
        for caps in [offered, bare] {
            let answer = it.answers("", &fetch::request_v0(&wants, &haves, &caps));
            assert_eq!(pack(Answer::v0(&caps), &answer, 1_000).unwrap().len(), v2.len());
        }
        assert!(v2.len() < 1_000, "a delta, not the whole file again: {}", v2.len());
        let said = it.indexed(&v2, &["--fix-thin"]);
        assert!(said.0, "{}", said.1);
        let alone = Author(Bare::new(&it.author.0.git));
        let alone = Story { author: alone, first: zero(), second: zero() };
        assert!(!alone.indexed(&v2, &[]).0, "it is thin");
        let nothing = it.answers("version=2", &fetch::request_v2(&wants, &[it.second]));
        assert_eq!(pack(Answer::v2(), &nothing, 1_000).unwrap().len(), 32, "a pack of nothing");
    });
}

#[test]
fn an_object_that_is_not_there_is_named() {
    each_story(|it| {
        let unknown = Oid::from_bytes([9; 20]);
        let wants = oids(&[&it.first, &unknown, &it.second]);
        let v2 = it.answers("version=2", &fetch::request_v2(&wants, &[]));
        assert_eq!(pack(Answer::v2(), &v2, 10), Err(Refusal::NotOurRef(unknown)));
        let caps = it.v0_caps();
        let v0 = it.answers("", &fetch::request_v0(&wants, &[], &caps));
        assert_eq!(pack(Answer::v0(&caps), &v0, 10), Err(Refusal::NotOurRef(unknown)));
        let hidden = it.author.commit(&[("hidden", b"x")], &[]);
        let wants = oids(&[&hidden]);
        let v0 = it.answers("", &fetch::request_v0(&wants, &[], &caps));
        assert_eq!(pack(Answer::v0(&caps), &v0, 10), Err(Refusal::NotOurRef(hidden)));
    });
}

#[test]
fn progress_that_nobody_asked_for_is_dropped() {
    each_story(|it| {
        let wants = oids(&[&it.second]);
        let caps = V0Caps { no_progress: false, ..it.v0_caps() };
        let answer = it.answers("", &fetch::request_v0(&wants, &[], &caps));
        assert!(answer.windows(8).any(|it| it == b"Counting"), "git talks");
        it.holds(&pack(Answer::v0(&caps), &answer, 5).unwrap(), 6);
    });
}

/// A repository of two commits, in which a large file changed a little, and a tag.
struct Story {
    author: Author,
    first: Oid,
    second: Oid,
}

fn each_story(tell: impl Fn(&Story)) {
    for git in gits() {
        tell(&Story::new(&git));
    }
}

impl Story {
    fn new(git: &Git) -> Self {
        let author = Author(Bare::new(git));
        let mut file = noise(1, 50_000);
        let first = author.commit(&[("large", &file)], &[]);
        file[100] ^= 1;
        let second = author.commit(&[("large", &file)], &[&first]);
        author.0.git(&["update-ref", "refs/heads/main", &second.to_hex()]);
        let tag = author.0.tag("v1", &first.to_hex(), "commit");
        author.0.git(&["update-ref", "refs/tags/v1", &tag]);
        Self { author, first, second }
    }

    /// What stands behind `info/refs`: git leaves the first lines to its HTTP server.
    fn advert(&self, version: &str) -> Result<Advert, Refusal> {
        let mut page = Vec::new();
        if version != "version=2" {
            pktline::text(&mut page, "# service=git-upload-pack");
            pktline::flush(&mut page);
        }
        page.extend(self.upload_pack(&["--http-backend-info-refs"], version, b""));
        let mut reader = AdvertReader::new();
        page.chunks(7).try_for_each(|piece| reader.push(piece))?;
        assert!(reader.is_over());
        reader.finish()
    }

    fn v0_caps(&self) -> V0Caps {
        match self.advert("") {
            Ok(Advert::V0 { caps, .. }) => caps,
            other => panic!("{other:?}"),
        }
    }

    fn answers(&self, version: &str, request: &[u8]) -> Vec<u8> {
        self.upload_pack(&[], version, request)
    }

    /// It may fail: what it said until then is its answer.
    fn upload_pack(&self, options: &[&str], version: &str, input: &[u8]) -> Vec<u8> {
        let path = self.author.0.path();
        let args = [&["upload-pack", "--stateless-rpc"], options, &[&path]].concat();
        let mut command = self.author.0.git.with_env("GIT_PROTOCOL", version).command(&args);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().stdout
    }

    fn ls_remote(&self) -> Vec<(RefKind, Oid)> {
        let listed = self.author.0.git(&["ls-remote", &self.author.0.path()]);
        let rows = listed.lines().map(|line| line.split_once('\t').unwrap());
        let kind = |name: &str| match name.split('/').nth(1) {
            Some("heads") => RefKind::Branch,
            Some("tags") => RefKind::Tag,
            _ => RefKind::Other,
        };
        rows.map(|(oid, name)| (kind(name), oid.parse().unwrap())).collect()
    }

    /// It is a pack of so many objects, complete in itself, with the second commit.
    fn holds(&self, pack: &[u8], objects: usize) {
        let fresh = Bare::new(&self.author.0.git);
        let fresh = Self { author: Author(fresh), first: self.first, second: self.second };
        let (ok, said) = fresh.indexed(pack, &["--strict"]);
        assert!(ok, "{said}");
        fresh.author.0.git(&["cat-file", "-e", &self.second.to_hex()]);
        let all = fresh.author.0.git(&["rev-list", "--objects", &self.second.to_hex()]);
        assert_eq!(all.lines().count(), objects);
    }

    fn indexed(&self, pack: &[u8], options: &[&str]) -> (bool, String) {
        let path = self.author.0.path();
        let args = [&["--git-dir", &path, "index-pack", "--stdin"], options].concat();
        let mut command = self.author.0.git.command(&args);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(pack);
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn zero() -> Oid {
    Oid::from_bytes([0; 20])
}

/// As `git ls-remote` shows them, without their names.
fn shown(refs: &[Listed]) -> Vec<(RefKind, Oid)> {
    let mut all = Vec::new();
    for it in refs {
        all.push((it.kind, it.oid));
        all.extend(it.peeled.map(|oid| (it.kind, oid)));
    }
    all
}

fn refs_of(answer: &[u8]) -> Result<Vec<Listed>, Refusal> {
    let mut reader = RefsReader::new();
    answer.chunks(11).try_for_each(|piece| reader.push(piece))?;
    reader.finish()
}

fn pack(mut answer: Answer, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Refusal> {
    let mut pack = Vec::new();
    for mut rest in bytes.chunks(piece) {
        while let Step::Pack { bytes, rest: later } = answer.push(rest)? {
            pack.extend_from_slice(bytes);
            rest = later;
        }
    }
    answer.finish().map(|()| pack)
}
