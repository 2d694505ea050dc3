//! Refs on disk, written by us and read by git, and the other way round, with every git there is.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod real_git;

use grasp_git::{Entry, RefTable};
use grasp_testkit::Random;
use real_git::each_git;
use real_git::table::{branches, entry, oid, sample, seen_by_git, told, without_hidden};
use std::fs;

#[test]
fn what_we_write_git_reads() {
    each_git(|bare| {
        let refs = sample(bare);
        refs.write(&bare.dir()).unwrap();
        assert_eq!(seen_by_git(bare), told(&refs));
        assert_eq!(bare.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
        let shown = bare.git(&["show-ref", "--head", "-d"]);
        let tag = &refs.governed[&"refs/tags/v1".parse().unwrap()];
        assert!(shown.contains(&format!("{} refs/tags/v1^{{}}", tag.peeled.unwrap())), "{shown}");
        assert!(shown.starts_with(&bare.git(&["rev-parse", "refs/heads/main"])), "{shown}");
        bare.git(&["fsck", "--strict", "--full"]);
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs);
    });
}

#[test]
fn git_may_pack_what_we_wrote_without_changing_it() {
    each_git(|bare| {
        let refs = sample(bare);
        refs.write(&bare.dir()).unwrap();
        let ours = fs::read_to_string(bare.dir().join("packed-refs")).unwrap();
        bare.git(&["update-ref", "refs/heads/new", &bare.commit("new")]);
        bare.git(&["pack-refs", "--all", "--prune"]);
        bare.git(&["update-ref", "-d", "refs/heads/new"]);
        let gits = fs::read_to_string(bare.dir().join("packed-refs")).unwrap();
        // Only hidden refs may differ: git writes down what a tag among them points to.
        let (ours, gits) = [&ours, &gits].map(|text| without_hidden(text)).into();
        assert_eq!(ours, gits);
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs);
    });
}

#[test]
fn what_git_writes_we_read_loose_and_packed() {
    each_git(|bare| {
        let refs = sample(bare);
        for (name, oid, _) in told(&refs) {
            bare.git(&["update-ref", &name, &oid]);
        }
        bare.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        assert!(!bare.dir().join("packed-refs").exists());
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs, "loose");
        bare.git(&["pack-refs", "--all", "--prune"]);
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs, "packed");

        let newer = bare.commit("newer");
        bare.git(&["update-ref", "refs/heads/main", &newer]);
        let read = RefTable::read(&bare.dir()).unwrap();
        assert_eq!(read.head_entry().unwrap().1.oid.to_hex(), newer, "loose over packed");
    });
}

#[test]
fn writing_ends_the_time_of_loose_refs() {
    each_git(|bare| {
        let mut refs = sample(bare);
        for (name, oid, _) in told(&refs) {
            bare.git(&["update-ref", &name, &oid]);
        }
        bare.git(&["update-ref", "refs/notes/ours", &bare.commit("not our business")]);
        let newer = entry(&bare.commit("newer"));
        refs.governed.insert("refs/heads/main".parse().unwrap(), newer);
        refs.proposals.clear();
        refs.write(&bare.dir()).unwrap();
        let mut expected = told(&refs);
        let seen = seen_by_git(bare);
        expected.extend(seen.iter().filter(|(name, ..)| name == "refs/notes/ours").cloned());
        expected.sort();
        assert_eq!(seen, expected);
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs);
    });
}

#[test]
fn a_branch_may_become_a_directory_and_back() {
    each_git(|bare| {
        let tip = entry(&bare.commit("tip"));
        let flat = branches(&[("refs/heads/a", tip), ("refs/heads/main", tip)]);
        let deep = branches(&[("refs/heads/a/b/c", tip), ("refs/heads/a/d", tip)]);
        bare.git(&["update-ref", "refs/heads/a", &tip.oid.to_hex()]);
        for refs in [&deep, &flat, &deep, &RefTable::default(), &flat] {
            refs.write(&bare.dir()).unwrap();
            assert_eq!(seen_by_git(bare), told(refs));
            assert_eq!(RefTable::read(&bare.dir()).unwrap(), *refs);
        }
        bare.git(&["update-ref", "-d", "refs/heads/a"]);
        bare.git(&["update-ref", "refs/heads/a/b", &tip.oid.to_hex()]);
        flat.write(&bare.dir()).unwrap();
        assert_eq!(seen_by_git(bare), told(&flat), "also where git made the directory");
    });
}

#[test]
fn head_moves_with_the_refs_and_may_point_to_nothing() {
    each_git(|bare| {
        let tip = entry(&bare.commit("tip"));
        let mut refs = branches(&[("refs/heads/main", tip), ("refs/heads/next", tip)]);
        refs.write(&bare.dir()).unwrap();
        assert_eq!(bare.git(&["symbolic-ref", "HEAD"]), "refs/heads/main", "unless told");
        for name in ["refs/heads/next", "refs/heads/not-there", "refs/heads/main"] {
            refs.head = Some(name.parse().unwrap());
            refs.write(&bare.dir()).unwrap();
            assert_eq!(bare.git(&["symbolic-ref", "HEAD"]), name);
            assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs);
            let is_there = refs.head_entry().is_some();
            assert_eq!(is_there, bare.git(&["show-ref", "--head"]).contains(" HEAD"));
        }
    });
}

#[test]
fn a_tag_of_a_tag_is_peeled_to_the_end() {
    each_git(|bare| {
        let tip = bare.commit("tip");
        let inner = bare.tag("inner", &tip, "commit");
        let outer = bare.tag("outer", &inner, "tag");
        bare.git(&["update-ref", "refs/tags/outer", &outer]);
        let refs = RefTable::read(&bare.dir()).unwrap();
        let found = refs.governed[&"refs/tags/outer".parse().unwrap()];
        assert_eq!(found, Entry { oid: oid(&outer), peeled: Some(oid(&tip)) });
        refs.write(&bare.dir()).unwrap();
        let shown = bare.git(&["show-ref", "-d"]);
        assert!(shown.ends_with(&format!("{tip} refs/tags/outer^{{}}")), "{shown}");
    });
}

#[test]
fn an_old_file_that_says_nothing_of_tags_is_read_with_their_objects() {
    each_git(|bare| {
        let tip = bare.commit("tip");
        let tag = bare.tag("v1", &tip, "commit");
        for header in ["", "# pack-refs with: peeled \n"] {
            let text = format!("{header}{tip} refs/heads/main\n{tag} refs/tags/v1\n");
            fs::write(bare.dir().join("packed-refs"), text).unwrap();
            let refs = RefTable::read(&bare.dir()).unwrap();
            let found = refs.governed[&"refs/tags/v1".parse().unwrap()];
            assert_eq!(found.peeled, Some(oid(&tip)));
            assert_eq!(refs.head_entry().unwrap().1.peeled, None);
        }
    });
}

#[test]
fn a_symbolic_branch_counts_as_what_it_points_to() {
    each_git(|bare| {
        let tip = entry(&bare.commit("tip"));
        branches(&[("refs/heads/main", tip)]).write(&bare.dir()).unwrap();
        bare.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/other"]);
        bare.git(&["symbolic-ref", "refs/heads/other", "refs/heads/main"]);
        let refs = RefTable::read(&bare.dir()).unwrap();
        let expected = ["refs/heads/alias", "refs/heads/main", "refs/heads/other"];
        assert_eq!(refs, branches(&expected.map(|name| (name, tip))));
        assert_eq!(seen_by_git(bare), told(&refs));
    });
}

#[test]
fn names_that_are_not_ours_are_not_read() {
    each_git(|bare| {
        let tip = bare.commit("tip");
        let tag = bare.tag("v1", &tip, "commit");
        let header = "# pack-refs with: peeled fully-peeled sorted \n";
        let mut text = format!("{header}{tip} refs/heads/main\n{tag} refs/heads/").into_bytes();
        text.extend_from_slice(b"\xff\xfe\n");
        let foreign = ["refs/notes/x", "refs/nostr/123", "refs/internal/x", "refs/heads/a..b"];
        text.extend_from_slice(format!("^{tip}\n").as_bytes());
        for name in foreign {
            text.extend_from_slice(format!("{tag} {name}\n^{tip}\n").as_bytes());
        }
        fs::write(bare.dir().join("packed-refs"), text).unwrap();
        let refs = RefTable::read(&bare.dir()).unwrap();
        assert_eq!(refs, branches(&[("refs/heads/main", entry(&tip))]));
    });
}

#[test]
fn three_thousand_refs_are_one_file_and_quick() {
    each_git(|bare| {
        let tip = entry(&bare.commit("tip"));
        let tag = Entry { oid: oid(&bare.tag("t", &tip.oid.to_hex(), "commit")), ..tip };
        let tag = Entry { peeled: Some(tip.oid), ..tag };
        let mut refs = RefTable::default();
        for n in 0..1_500 {
            refs.governed.insert(format!("refs/heads/topic/{n}").parse().unwrap(), tip);
            refs.governed.insert(format!("refs/tags/v{n}").parse().unwrap(), tag);
        }
        let start = std::time::Instant::now();
        refs.write(&bare.dir()).unwrap();
        let written = start.elapsed();
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs);
        println!("written in {written:?}, and read in {:?}", start.elapsed() - written);
        assert_eq!(seen_by_git(bare), told(&refs));
        assert!(!bare.dir().join("refs/heads/topic").exists());
    });
}

#[test]
fn every_name_that_is_one_to_us_is_one_to_git() {
    let parts = ["a", "B", "é", "🦀", ".", "..", "-", "@", "{", "@{", "/", "~", "^", ":", "?", "*"];
    let more =
        ["[", "]", "\\", ".lock", "!", "#", "$", "%", "'", "\"", "|", ";", "\u{85}", "\u{7f}"];
    let parts = [&parts[..], &more[..]].concat();
    each_git(|bare| {
        let mut random = Random::seeded(7);
        let tip = entry(&bare.commit("tip"));
        let mut refs = RefTable::default();
        for _ in 0..20_000 {
            let name: String = (0..random.below(7)).map(|_| *random.pick(&parts)).collect();
            let root = *random.pick(&["refs/heads/", "refs/tags/"]);
            let name = format!("{root}{name}").parse();
            refs.governed.extend(name.ok().map(|name| (name, tip)));
        }
        assert!(refs.governed.len() > 1_000);
        refs.write(&bare.dir()).unwrap();
        assert_eq!(seen_by_git(bare), told(&refs));
    });
}
