//! Answers to a push, as real git clients show them. The other side is a program that says what we
//! would say, so nothing but the answer is under test.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod real_git;

use grasp_git::advertise::advertisement;
use grasp_git::{
    BadPush, HeadLimits, HeadReader, Protocol, PushHead, RefTable, Service, Step, report,
};
use real_git::{Bare, gits};
use std::fs;

#[test]
fn success_is_success() {
    each_push("--no-atomic", |push| {
        let (ok, shown) = push.answered(&report::accepted(&push.head));
        assert!(ok && shown.contains("[new branch]"), "{shown}");
        assert!(push.head.wants.side_band_64k && push.head.wants.report_status_v2);
        assert_eq!(&*push.head.commands[0].name, "refs/heads/main");
    });
}

#[test]
fn a_refusal_shows_the_advice_and_the_reason() {
    each_push("--atomic", |push| {
        assert!(push.head.wants.atomic);
        let answer = report::refused(&push.head, "no state", "Publish a state first,\nthen push.");
        let (ok, shown) = push.answered(&answer);
        assert!(!ok);
        for words in [
            "remote: Publish a state first,",
            "remote: then push.",
            "remote unpack failed: no state",
            "! [remote rejected]",
            "(no state)",
        ] {
            assert!(shown.contains(words), "{words} is not in {shown}");
        }
    });
}

#[test]
fn words_on_the_way_are_shown_and_signs_of_life_are_not() {
    each_push("--progress", |push| {
        let mut answer = report::progress(&push.head, "looking at it").unwrap().to_vec();
        let quiet = PushHead {
            wants: grasp_git::PushCaps { quiet: true, ..push.head.wants },
            ..push.head.clone()
        };
        answer.extend_from_slice(&report::progress(&quiet, "hush").unwrap());
        answer.extend_from_slice(&report::accepted(&push.head));
        let (ok, shown) = push.answered(&answer);
        assert!(
            ok && shown.contains("remote: looking at it") && !shown.contains("hush"),
            "{shown}"
        );
    });
}

#[test]
fn a_list_we_could_not_read_is_explained() {
    each_push("--no-atomic", |push| {
        let (ok, shown) = push.answered(&report::refused_unread(&BadPush::Shallow));
        assert!(!ok && shown.contains("git fetch --unshallow"), "{shown}");
    });
}

#[test]
fn the_pack_begins_where_the_list_ends() {
    each_push("--no-atomic", |push| assert!(push.rest.starts_with(b"PACK")));
}

#[test]
fn a_push_from_a_shallow_clone_is_recognised() {
    for git in gits() {
        let bare = Bare::new(&git);
        let parent = bare.commit("parent");
        let tree = bare.git(&["hash-object", "-t", "tree", "/dev/null"]);
        let tip = bare.git(&["commit-tree", "-p", &parent, "-m", "tip", &tree]);
        bare.git(&["update-ref", "refs/heads/main", &tip]);
        fs::write(bare.dir().join("shallow"), format!("{tip}\n")).unwrap();
        let sent = Push::sent(&bare, "--no-atomic");
        let refusal = HeadReader::new(HeadLimits::default()).feed(&sent);
        assert_eq!(refusal, Err(BadPush::Shallow));
    }
}

/// A push by a real client, and what it sent.
struct Push<'a> {
    bare: &'a Bare,
    option: &'a str,
    head: PushHead,
    rest: Vec<u8>,
}

impl Push<'_> {
    /// What the client sends to someone who then hangs up.
    fn sent(bare: &Bare, option: &str) -> Vec<u8> {
        Push::talk(bare, option, b"");
        fs::read(bare.home.path().join("sent")).unwrap()
    }

    /// Does the client take this answer for success, and what does it show?
    fn answered(&self, answer: &[u8]) -> (bool, String) {
        Push::talk(self.bare, self.option, answer)
    }

    fn talk(bare: &Bare, option: &str, answer: &[u8]) -> (bool, String) {
        let at = |name: &str| bare.home.path().join(name).to_str().unwrap().to_owned();
        let advert = advertisement(Service::ReceivePack, Protocol::V0, &RefTable::default());
        fs::write(at("advert"), &advert["0000# service=git-receive-pack\n0000".len()..]).unwrap();
        fs::write(at("answer"), answer).unwrap();
        let (advert, sent, answer) = (at("advert"), at("sent"), at("answer"));
        let program = format!("--receive-pack=cat {advert}; cat >{sent}; cat {answer}; : ");
        let other = at("other.git");
        bare.git.run(&["init", "-q", "--bare", "--template=", &other]);
        let url = format!("file://{other}");
        let path = bare.path();
        let args = ["--git-dir", &path, "push", option, &program, &url, "main"];
        let output = bare.git.output(&args);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }
}

fn each_push(option: &str, story: impl Fn(&Push<'_>)) {
    for git in gits() {
        let bare = Bare::new(&git);
        let tip = bare.commit("tip");
        bare.git(&["update-ref", "refs/heads/main", &tip]);
        let sent = Push::sent(&bare, option);
        match HeadReader::new(HeadLimits::default()).feed(&sent).unwrap() {
            Step::Done { head, rest } => {
                let rest = sent[sent.len() - rest..].to_vec();
                story(&Push { bare: &bare, option, head, rest });
            }
            Step::More => panic!("the list does not end: {sent:?}"),
        }
    }
}
