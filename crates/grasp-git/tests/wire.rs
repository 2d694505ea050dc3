//! What goes over the wire, held against what git itself says and what its clients understand.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod real_git;

use grasp_core::{EventId, Oid};
use grasp_git::advertise::advertisement;
use grasp_git::pktline::{self, Packet};
use grasp_git::upload::{self, V2Command};
use grasp_git::{Entry, Git as Program, GitLimits, Layout, Protocol, RefTable, Service};
use real_git::{Bare, Git, gits};
use std::collections::BTreeSet;

const VERSIONS: [(Protocol, &str); 3] =
    [(Protocol::V0, ""), (Protocol::V1, "version=1"), (Protocol::V2, "version=2")];

#[test]
fn an_advertisement_is_what_git_would_say() {
    each_git(|bare, child| {
        let refs = fill(bare);
        for (protocol, header) in &VERSIONS[..2] {
            let ours = advertised(Service::UploadPack, *protocol, &refs);
            assert_eq!(ours, said_by(bare, child, "upload-pack", header), "{protocol:?}");
            // A push is received by us, not by a child, so only its clients have to understand.
            let ours = advertised(Service::ReceivePack, *protocol, &refs);
            let gits = said_by(bare, child, "receive-pack", header);
            let hidden = |line: &String| line.contains("refs/internal/");
            assert_eq!(ours, gits.into_iter().filter(|line| !hidden(line)).collect::<Vec<_>>());
        }
    });
}

#[test]
fn every_capability_we_offer_is_one_the_child_has() {
    each_git(|bare, child| {
        let refs = fill(bare);
        for (protocol, header) in VERSIONS {
            let words = |lines: &[String]| -> BTreeSet<String> {
                let caps = lines.iter().flat_map(|line| match protocol {
                    Protocol::V2 => line.split(['=', ' ']).map(str::to_owned).collect::<Vec<_>>(),
                    _ => {
                        let caps = line.split_once('\0').map_or("", |(_, caps)| caps);
                        caps.split(' ').map(str::to_owned).collect()
                    }
                });
                caps.filter(|word| !word.starts_with("agent")).collect()
            };
            let ours = words(&advertised(Service::UploadPack, protocol, &refs));
            let gits = words(&said_by(bare, child, "upload-pack", header));
            assert!(ours.len() > 5 && ours.is_subset(&gits), "{:?}", ours.difference(&gits));
        }
    });
}

#[test]
fn an_empty_repository_is_announced_as_git_does() {
    each_git(|bare, child| {
        let refs = RefTable::read(&bare.dir()).unwrap();
        for service in [Service::UploadPack, Service::ReceivePack] {
            let ours = advertised(service, Protocol::V0, &refs);
            let name = service.name().trim_start_matches("git-");
            let gits = said_by(bare, child, name, "");
            // Git 2.39 says nothing at all here, and its clients then know of no capabilities.
            assert!(ours == gits || gits.is_empty(), "{gits:?}");
        }
    });
}

#[test]
fn refs_are_listed_byte_for_byte_as_git_lists_them() {
    each_git(|bare, child| {
        let refs = fill(bare);
        for arguments in [
            &[][..],
            &["peel", "symrefs"],
            &["peel"],
            &["symrefs", "unborn"],
            &[
                "peel",
                "symrefs",
                "ref-prefix refs/heads/",
                "ref-prefix refs/tags/",
                "ref-prefix HEAD",
            ],
            &["ref-prefix refs/heads/a", "ref-prefix refs/heads/a/b", "ref-prefix refs/heads/a"],
            &["ref-prefix HEAD", "symrefs"],
            &["ref-prefix refs/internal/"],
            &["ref-prefix refs/heads/naï"],
            &["ref-prefix nothing"],
        ] {
            let request = ls_refs_request(arguments);
            let Ok(V2Command::LsRefs(asked)) = upload::v2_command(&request) else {
                panic!("not understood: {arguments:?}")
            };
            let child = child.with_env("GIT_PROTOCOL", "version=2");
            let args = ["upload-pack", "--strict", "--stateless-rpc", &bare.path()];
            let gits = child.with_input(&args, &request);
            assert_eq!(text(&upload::ls_refs(&asked, &refs)), text(&gits), "{arguments:?}");
        }
    });
}

#[test]
fn clients_understand_the_advertisement_in_every_version() {
    each_git(|bare, _| {
        let refs = fill(bare);
        let expected = bare.git(&["ls-remote", &bare.path()]);
        let visible = |line: &&str| !line.contains("refs/internal/");
        let expected: Vec<_> = expected.lines().filter(visible).collect();
        for (protocol, _) in VERSIONS {
            let mut answer = advertisement(Service::UploadPack, protocol, &refs).to_vec();
            answer.drain(..preamble_len(Service::UploadPack));
            if protocol == Protocol::V2 {
                let request = ls_refs_request(&["peel", "symrefs"]);
                let Ok(V2Command::LsRefs(asked)) = upload::v2_command(&request) else { panic!() };
                answer.extend_from_slice(&upload::ls_refs(&asked, &refs));
            }
            let shown = ask(bare, protocol, &answer);
            assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "{protocol:?}");
        }
    });
}

#[test]
fn clients_show_the_words_of_an_error() {
    each_git(|bare, _| {
        for (protocol, _) in VERSIONS {
            let shown = ask(bare, protocol, &upload::error("busy; try again in a minute"));
            assert!(shown.contains("remote error: busy; try again in a minute"), "{shown}");
        }
    });
}

#[test]
fn a_clients_probe_before_a_large_push_is_no_push() {
    use grasp_git::{HeadLimits, HeadReader, Step};
    let step = HeadReader::new(HeadLimits::default()).feed(b"0000").unwrap();
    assert!(matches!(step, Step::Done { head, rest: 0 } if head.commands.is_empty()));
}

/// A git client talking to a program that says exactly this; what it then shows.
fn ask(bare: &Bare, protocol: Protocol, answer: &[u8]) -> String {
    let said = bare.home.path().join("said");
    std::fs::write(&said, answer).unwrap();
    let program = format!("--upload-pack=cat {} - #", said.display());
    let version = match protocol {
        Protocol::V0 => "protocol.version=0",
        Protocol::V1 => "protocol.version=1",
        Protocol::V2 => "protocol.version=2",
    };
    let url = format!("file://{}", bare.path());
    let output = bare.git.output(&["-c", version, "ls-remote", &program, &url]);
    String::from_utf8(if output.status.success() { output.stdout } else { output.stderr }).unwrap()
}

fn each_git(story: impl Fn(&Bare, &Git)) {
    for git in gits() {
        let bare = Bare::new(&git);
        let layout = Layout::new(bare.home.path().to_owned());
        layout.prepare().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Program::find(&git.binary, &layout, GitLimits::default())).unwrap();
        let settings = layout.gitconfig();
        story(&bare, &git.with_env("GIT_CONFIG_GLOBAL", settings.to_str().unwrap()));
    }
}

/// The lines of our advertisement, behind its preamble and without the agent's name.
fn advertised(service: Service, protocol: Protocol, refs: &RefTable) -> Vec<String> {
    lines(&advertisement(service, protocol, refs)[preamble_len(service)..])
}

fn preamble_len(service: Service) -> usize {
    "0000# service=\n0000".len() + service.name().len()
}

fn said_by(bare: &Bare, child: &Git, service: &str, header: &str) -> Vec<String> {
    let child =
        if header.is_empty() { child.clone() } else { child.with_env("GIT_PROTOCOL", header) };
    let mut args = vec![service, "--stateless-rpc", "--advertise-refs"];
    if service == "upload-pack" {
        args.push("--strict");
    }
    let path = bare.path();
    args.push(&path);
    lines(&child.run(&args))
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut lines) = (bytes, Vec::new());
    while let Some((packet, len)) = pktline::decode(rest).unwrap() {
        if let Packet::Data(line) = packet {
            let line = text(line);
            let words = line.trim_end().split(' ');
            let nameless = |word| if str::starts_with(word, "agent=") { "agent=" } else { word };
            lines.push(words.map(nameless).collect::<Vec<_>>().join(" "));
        }
        rest = &rest[len..];
    }
    assert!(rest.is_empty());
    lines
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn ls_refs_request(arguments: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    pktline::text(&mut out, "command=ls-refs");
    pktline::text(&mut out, "agent=git/test");
    pktline::text(&mut out, "object-format=sha1");
    out.extend_from_slice(b"0001");
    arguments.iter().for_each(|line| pktline::text(&mut out, line));
    pktline::flush(&mut out);
    out
}

/// Writes some of everything into the repository.
fn fill(bare: &Bare) -> RefTable {
    let (one, two) = (oid(&bare.commit("one")), oid(&bare.commit("two")));
    let inner = oid(&bare.tag("inner", &one.to_hex(), "commit"));
    let outer = oid(&bare.tag("outer", &inner.to_hex(), "tag"));
    let plain = |oid| Entry { oid, peeled: None };
    let tag = |oid| Entry { oid, peeled: Some(one) };
    let governed = [
        ("refs/heads/a-b", plain(one)),
        ("refs/heads/a/b", plain(two)),
        ("refs/heads/main", plain(two)),
        ("refs/heads/naïve", plain(one)),
        ("refs/tags/inner", tag(inner)),
        ("refs/tags/light", plain(one)),
        ("refs/tags/outer", tag(outer)),
    ];
    let refs = RefTable {
        governed: governed.map(|(name, entry)| (name.parse().unwrap(), entry)).into(),
        proposals: [(EventId::from_bytes([7; 32]), plain(two))].into(),
        kept: [one].into(),
        head: Some("refs/heads/main".parse().unwrap()),
    };
    refs.write(&bare.dir()).unwrap();
    refs
}

fn oid(hex: &str) -> Oid {
    hex.parse().unwrap()
}
