//! Our idea of a ref name against git's own: a batch of random names, both ways.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use grasp_core::RefName;
use grasp_fuzz::Tape;
use grasp_testkit::Random;
use std::process::{Command, Stdio};

const NAMES: usize = 500;

#[test]
fn we_accept_exactly_the_branch_and_tag_names_that_git_accepts() {
    let mut random = Random::seeded(34);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..NAMES {
        let name = name(&mut random);
        let ours = name.parse::<RefName>().is_ok();
        assert_eq!(ours, git_accepts(&name), "{name:?}");
        if ours { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted > NAMES / 10 && refused > NAMES / 10, "{accepted} and {refused}");
}

fn name(random: &mut Random) -> String {
    let bytes: Vec<u8> = (0..3).flat_map(|_| random.bytes32()).collect();
    let text = Tape::new(&bytes).text();
    // An argument of a process cannot contain it; we refuse it in a test of its own.
    let text = text.replace('\0', "");
    format!(
        "{}{}",
        random.pick(&["refs/heads/", "refs/heads/a/", "refs/tags/", "refs/heads/x"]),
        text
    )
}

fn git_accepts(name: &str) -> bool {
    let mut git = Command::new("git");
    git.args(["check-ref-format", name]).stdin(Stdio::null()).stdout(Stdio::null());
    git.status().expect("git runs").success()
}

#[test]
fn a_name_with_a_nul_or_of_no_measure_is_refused_without_asking_git() {
    for name in ["refs/heads/a\0b".to_owned(), format!("refs/heads/{}", "a/".repeat(600) + "a")] {
        assert!(name.parse::<RefName>().is_err());
    }
}
