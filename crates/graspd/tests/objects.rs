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
        assert!(
            page.body.contains("unpack a ref of the signed state cannot be served"),
            "{page:?}"
        );
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

/// Objects that few repositories have, made once and used in many states.
struct OddObjects {
    plain: Vec<Oid>,
    /// Each a tag of the one before.
    nested: Vec<Oid>,
    /// What a branch cannot point to and a tag can.
    others: Vec<Oid>,
    /// Each a delta on the one before, once packed.
    deep: Vec<Oid>,
}

/// The content of a tag object.
fn tag_of(target: &Oid, kind: &str, message: &str) -> String {
    format!(
        "object {target}\ntype {kind}\ntag t\ntagger A <a@example.com> 1700000000 +0000\n\n{message}"
    )
}

async fn write_object(tree: &WorkTree, kind: &str, content: &str) -> Oid {
    let args = ["hash-object", "-t", kind, "-w", "--stdin"];
    tree.git_reading(&args, content.as_bytes()).await.parse().unwrap()
}

impl OddObjects {
    const NESTED: usize = 80;
    const DEEP: usize = 300;

    async fn make(tree: &WorkTree, first: &Oid) -> Self {
        let blob = write_object(tree, "blob", "a blob\n").await;
        let root = tree.rev_parse("main^{tree}").await;
        let mut others = vec![blob, root];
        let mut random = Random::seeded(11);
        for (target, kind, bytes) in [
            (&blob, "blob", 10),
            (&root, "tree", 10),
            (first, "commit", 1 << 20),
            (&blob, "blob", 2 << 20),
        ] {
            let mut message = String::new();
            while message.len() <= bytes {
                message.push_str(&format!("{:x}\n", random.next_u64()));
            }
            others.push(write_object(tree, "tag", &tag_of(target, kind, &message)).await);
        }
        let mut nested = vec![write_object(tree, "tag", &tag_of(first, "commit", "1\n")).await];
        while nested.len() < Self::NESTED {
            let inner = nested[nested.len() - 1];
            nested.push(write_object(tree, "tag", &tag_of(&inner, "tag", "more\n")).await);
        }
        let plain = vec![*first, tree.commit("README", "second").await];
        let deep = Self::deep(tree, first).await;
        Self { plain, nested, others, deep }
    }

    /// One process writes them, and one packs them as deep as they are many.
    async fn deep(tree: &WorkTree, first: &Oid) -> Vec<Oid> {
        let mut random = Random::seeded(12);
        let (mut message, mut paths) = (String::new(), String::new());
        let dir = tempfile::tempdir().unwrap();
        for at in 0..Self::DEEP {
            message.push_str(&format!("{:x}\n", random.next_u64()));
            let path = dir.path().join(at.to_string());
            std::fs::write(&path, tag_of(first, "commit", &message)).unwrap();
            paths.push_str(&format!("{}\n", path.display()));
        }
        let args = ["hash-object", "-t", "tag", "-w", "--stdin-paths"];
        let written = tree.git_reading(&args, paths.as_bytes()).await;
        let deep: Vec<Oid> = written.lines().map(|oid| oid.parse().unwrap()).collect();
        let names: String = deep.iter().map(|oid| format!("{oid}\n")).collect();
        let pack = tree.path().join(".git/objects/pack/pack").display().to_string();
        let args = ["pack-objects", "-q", "--depth=4095", "--window=8", &pack];
        tree.git_reading(&args, names.as_bytes()).await;
        tree.git(&["prune-packed"]).await;
        deep
    }

    /// A few branches and tags, most of which git can have.
    fn state(&self, random: &mut Random) -> Vec<(String, Oid)> {
        let mut refs = vec![(MAIN.to_owned(), *random.pick(&self.plain))];
        for at in 0..random.below(4) {
            let oid = match random.below(3) {
                0 => random.pick(&self.nested),
                1 => random.pick(&self.others),
                _ => random.pick(&self.plain),
            };
            let folder = if random.one_in(12) { "heads" } else { "tags" };
            refs.push((format!("refs/{folder}/odd{at}"), *oid));
        }
        if random.one_in(25) {
            let deep = self.deep.iter().enumerate();
            refs.extend(deep.map(|(at, oid)| (format!("refs/tags/deep{at:03}"), *oid)));
        }
        refs
    }
}

/// Signs random states and pushes them: what is served is listed in full, and a push succeeds if and
/// only if the refs moved.
async fn random_states_are_shown_whole_or_not_at_all(seed: u64, cases: usize) {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let odd = OddObjects::make(&hosted.tree, &first).await;
    let mut random = Random::seeded(seed);
    let (mut taken, mut refused) = (0, 0);
    let mut before = refs(&[(MAIN, first)]);
    for case in 0..cases {
        let wanted = odd.state(&mut random);
        let named: Vec<(&str, Oid)> = wanted.iter().map(|(name, oid)| (&**name, *oid)).collect();
        let what = format!(
            "seed {seed}, case {case}: {} refs, {:?}",
            named.len(),
            &named[..named.len().min(5)]
        );
        let expected = refs(&named);
        let (state, answer) = hosted.says(&named, Some("main")).await;
        assert!(answer.ok, "{what}: {answer:?}");
        let mut specs: Vec<String> =
            named.iter().map(|(name, oid)| format!("+{oid}:{name}")).collect();
        let gone = before.keys().filter(|name| !expected.contains_key(*name));
        specs.extend(gone.map(|name| format!(":{name}")));
        let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
        let push = hosted.pushes(&specs).await;
        let mut shown = hosted.shown().await;
        shown.retain(|name, _| !name.ends_with("^{}"));
        let is_served = hosted.serves(&state).await;
        assert_eq!(is_served, shown == expected, "{what}: {push:?}, {answer:?}");
        assert_eq!(push.ok, shown == expected, "{what}: {push:?}");
        assert!(!push.says("internal error"), "{what}: {push:?}");
        if push.ok {
            taken += 1;
        } else {
            refused += 1;
            assert_eq!(shown, before, "{what}: {push:?}");
            assert!(push.says("a branch must point to a commit"), "{what}: {push:?}");
        }
        before = shown;
    }
    println!(
        "{cases} states: {taken} taken and listed in full, {refused} refused and nothing moved"
    );
    assert!(taken > refused, "most are fine");
}

#[tokio::test]
async fn odd_tags_are_shown_whole_or_refused_with_the_reason() {
    random_states_are_shown_whole_or_not_at_all(1, 50).await;
}

/// Run by `scripts/odd-tags`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn a_thousand_states_with_odd_tags_are_shown_whole_or_not_at_all() {
    random_states_are_shown_whole_or_not_at_all(2, 1_000).await;
}
