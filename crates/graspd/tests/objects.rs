//! What is inside a push: odd things that git allows, and damaged things that nobody should take.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN, assert_refused, refs};
use common::wire::{commands, posts, report};
use grasp_core::Oid;
use grasp_testkit::{Git, Random, WorkTree, until};

/// Pushes `main` as it is now; it must be taken and be whole.
async fn is_taken(hosted: &mut Hosted) {
    let tip = hosted.tree.rev_parse("main").await;
    hosted.signs(&[(MAIN, tip)]).await;
    hosted.pushes(&["main"]).await.expect("a push");
    let directory = hosted.directory().display().to_string();
    hosted.tree.git(&["--git-dir", &directory, "fsck", "--connectivity-only"]).await;
}

#[tokio::test]
async fn submodules_point_to_commits_that_are_elsewhere() {
    for git in Git::all() {
        let (mut hosted, _) = Hosted::published(&git, &[]).await;
        let elsewhere = "160000,1234567890123456789012345678901234567890,vendored";
        hosted.tree.git(&["update-index", "--add", "--cacheinfo", elsewhere]).await;
        let modules = "[submodule \"vendored\"]\n\tpath = vendored\n\turl = https://x.example/y\n";
        hosted.tree.commit(".gitmodules", modules).await;
        is_taken(&mut hosted).await;
        let copy = WorkTree::clone(&git, &hosted.url(), &[]).await;
        assert_eq!(copy.read(".gitmodules"), modules);
    }
}

#[tokio::test]
async fn a_submodule_that_would_attack_whoever_clones_is_refused() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    for modules in [
        "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n",
        "[submodule \"../../x\"]\n\tpath = x\n\turl = https://x.example/y\n",
        "[submodule \"x\"]\n\tpath = \"x\r\"\n\turl = https://x.example/y\n",
    ] {
        let tip = hosted.tree.commit(".gitmodules", modules).await;
        hosted.signs(&[(MAIN, tip)]).await;
        let push = hosted.pushes(&["main"]).await;
        assert!(push.is_rejected(), "{modules:?}: {push:?}");
        assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
        until("nothing is kept of it", || async { hosted.incoming() == 0 }).await;
        hosted.tree.git(&["reset", "-q", "--hard", &first.to_hex()]).await;
    }
}

#[tokio::test]
async fn tags_may_be_of_anything_even_of_tags() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let blob = hosted.tree.rev_parse("HEAD:README").await;
    let tree = hosted.tree.rev_parse("HEAD^{tree}").await;
    let inner = hosted.tree.annotated_tag("inner", &first).await;
    let outer = hosted.tree.annotated_tag("outer", &inner).await;
    hosted.tree.tag("blob", &blob).await;
    hosted.tree.tag("tree", &tree).await;
    let all = [
        (MAIN, first),
        ("refs/tags/blob", blob),
        ("refs/tags/tree", tree),
        ("refs/tags/outer", outer),
        ("refs/tags/inner", inner),
    ];
    hosted.signs(&all).await;
    hosted.pushes(&["--tags"]).await.expect("all of them");
    let peeled = [("refs/tags/outer^{}", first), ("refs/tags/inner^{}", first)];
    assert_eq!(hosted.shown().await, refs(&[&all[..], &peeled].concat()));
    for git in Git::all() {
        for protocol in [0, 2] {
            let copy = WorkTree::clone(&git.speaking(protocol), &hosted.url(), &["--mirror"]).await;
            assert_eq!(copy.rev_parse("refs/tags/outer").await, outer);
            assert_eq!(copy.rev_parse("refs/tags/outer^{}").await, first);
        }
    }
}

#[tokio::test]
async fn a_branch_is_a_commit_and_nothing_else() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let blob = hosted.tree.rev_parse("HEAD:README").await;
    let tag = hosted.tree.annotated_tag("v1", &first).await;
    for odd in [blob, tag] {
        let (state, answer) = hosted.says(&[(MAIN, odd)], Some("main")).await;
        assert!(answer.ok && answer.text.starts_with("purgatory:"), "{answer:?}");
        let list = commands(&[(&first.to_hex(), &odd.to_hex(), MAIN)], "report-status");
        let body = [list, hosted.pack_of(&first, &tag).await].concat();
        let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
        assert!(page.body.contains("unpack missing objects"), "{page:?}");
        assert!(!hosted.serves(&state).await);
    }
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn a_pack_may_build_on_what_is_here() {
    for git in Git::all() {
        let mut hosted = Hosted::announced(&git, &[]).await;
        let mut random = Random::seeded(11);
        let noise: String = (0..20_000).map(|_| format!("{:x}\n", random.next_u64())).collect();
        hosted.tree.commit("noise", &noise).await;
        is_taken(&mut hosted).await;
        hosted.tree.commit("noise", &format!("{noise}one more line\n")).await;
        is_taken(&mut hosted).await;
        // Somebody without any of the files can add to them.
        let args = ["--filter=blob:none", "--no-checkout"];
        let copy = WorkTree::clone(&git, &hosted.url(), &args).await;
        copy.git(&["reset", "-q"]).await;
        let tip = copy.commit("beside", "another file").await;
        hosted.signs(&[(MAIN, tip)]).await;
        copy.push(&hosted.url(), &["main"]).await.expect("from a partial clone");
        let whole = WorkTree::clone(&git, &hosted.url(), &[]).await;
        assert_eq!(whole.read("noise").len(), noise.len() + 14);
        whole.git(&["fsck", "--strict"]).await;
    }
}

#[tokio::test]
async fn clients_that_negotiate_before_they_push_are_understood() {
    for git in Git::all() {
        let (mut hosted, _) = Hosted::published(&git, &[]).await;
        hosted.tree.git(&["config", "push.negotiate", "true"]).await;
        hosted.tree.git(&["config", "transfer.advertiseSID", "true"]).await;
        hosted.tree.commit("README", "second").await;
        is_taken(&mut hosted).await;
        let tip = hosted.tree.commit("README", "third").await;
        hosted.signs(&[(MAIN, tip)]).await;
        let options = ["--atomic", "--quiet", "--no-thin", "--force"];
        hosted.tree.push_with(&hosted.url(), &["main"], &options).await.expect("with options");
    }
}

#[tokio::test]
async fn old_mistakes_in_old_histories_are_forgiven() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let tree = hosted.tree.rev_parse("HEAD^{tree}").await;
    let odd = format!(
        "tree {tree}\nparent {first}\nauthor A <a@example.com> 1700000000 +051800\n\
         committer A <a@example.com> 1700000000 +051800\n\nan odd time zone\n"
    );
    let args = ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"];
    let odd: Oid = hosted.tree.git_reading(&args, odd.as_bytes()).await.parse().unwrap();
    hosted.tree.git(&["update-ref", MAIN, &odd.to_hex()]).await;
    is_taken(&mut hosted).await;
}

#[tokio::test]
async fn damaged_and_incomplete_packs_are_refused_and_leave_nothing() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let third = hosted.tree.commit("README", "third").await;
    hosted.signs(&[(MAIN, third)]).await;
    let list = commands(&[(&first.to_hex(), &third.to_hex(), MAIN)], "report-status");
    let whole = hosted.pack_of(&first, &third).await;
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    let gap = hosted.pack_of(&second, &third).await;
    let long = [&whole[..], b"and more"].concat();
    let (short, none) = (whole[..whole.len() - 30].to_vec(), Vec::new());
    for (what, pack) in [
        ("a flipped bit", flipped),
        ("a missing parent", gap),
        ("bytes behind the end", long),
        ("no end", short),
        ("no pack at all", none),
        ("something else", b"this is no pack, whatever it claims".to_vec()),
    ] {
        let body = [&list[..], &pack].concat();
        let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
        assert_eq!(page.status, 200, "{what}");
        assert!(
            page.body.contains("unpack ") && !page.body.contains("unpack ok"),
            "{what}: {page:?}"
        );
        assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]), "{what}");
        until("nothing is kept of it", || async { hosted.incoming() == 0 }).await;
    }
    let body = [list, whole].concat();
    let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
    assert!(page.body.contains("unpack ok"), "{page:?}");
    assert_eq!(report(&page), "", "nothing was framed");
}

#[tokio::test]
async fn more_than_the_operator_allows_is_refused_with_the_limit() {
    let settings = [
        ("NGIT_GIT_MAX_PACK_BYTES", "1048576"),
        ("NGIT_GIT_MAX_PROPOSAL_PACK_BYTES", "1048576"),
        ("NGIT_GIT_MAX_OBJECTS", "50"),
    ];
    let (mut hosted, first) = Hosted::published(&Git::any(), &settings).await;
    let mut random = Random::seeded(5);
    let noise: String = (0..300_000).map(|_| format!("{:x}\n", random.next_u64())).collect();
    let big = hosted.tree.commit("noise", &noise).await;
    hosted.signs(&[(MAIN, big)]).await;
    assert_refused(&hosted.pushes(&["main"]).await, "1048576");
    hosted.tree.git(&["reset", "-q", "--hard", &first.to_hex()]).await;
    for n in 0..20 {
        hosted.tree.commit("README", &n.to_string()).await;
    }
    let many = hosted.tree.rev_parse("main").await;
    hosted.signs(&[(MAIN, many)]).await;
    assert_refused(&hosted.pushes(&["main"]).await, "50");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

#[tokio::test]
async fn branches_may_have_any_name_git_allows() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let names = ["ünï/🦀", "Main", "a@b", "-x", "con", "refs/heads/x", &"l".repeat(200)];
    let names: Vec<String> = names.iter().map(|name| format!("refs/heads/{name}")).collect();
    let odd: Vec<(&str, Oid)> = names.iter().map(|name| (name.as_str(), second)).collect();
    let all = [&[(MAIN, first)], &odd[..]].concat();
    hosted.signs(&all).await;
    let specs: Vec<String> = names.iter().map(|name| format!("{second}:{name}")).collect();
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    hosted.pushes(&specs).await.expect("all of them");
    assert_eq!(hosted.shown().await, refs(&all));
    let copy = WorkTree::clone(&Git::any(), &hosted.url(), &["--mirror"]).await;
    assert_eq!(copy.rev_parse("refs/heads/ünï/🦀").await, second);
}
