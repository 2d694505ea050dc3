//! Refs on disk when something went wrong: locks left behind, damage, strange files, many readers.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod real_git;

use grasp_git::{RefTable, RefsError};
use real_git::each_git;
use real_git::table::{branches, entry, seen_by_git, told};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_detached_or_missing_head_is_none() {
    each_git(|bare| {
        let tip = bare.commit("tip");
        fs::write(bare.dir().join("HEAD"), format!("{tip}\n")).unwrap();
        assert_eq!(RefTable::read(&bare.dir()).unwrap().head, None);
        fs::write(bare.dir().join("HEAD"), "ref: refs/tags/v1\n").unwrap();
        assert_eq!(RefTable::read(&bare.dir()).unwrap().head, None);
        fs::remove_file(bare.dir().join("HEAD")).unwrap();
        let refs = RefTable::read(&bare.dir()).unwrap();
        assert_eq!(refs.head, None);
        refs.write(&bare.dir()).unwrap();
        assert_eq!(bare.git(&["symbolic-ref", "HEAD"]), "refs/heads/main", "repaired");
    });
}

#[test]
fn a_broken_loose_ref_is_no_ref_to_git_nor_to_us_until_it_is_written_again() {
    each_git(|bare| {
        let refs = branches(&[("refs/heads/main", entry(&bare.commit("tip")))]);
        refs.write(&bare.dir()).unwrap();
        fs::create_dir_all(bare.dir().join("refs/heads")).unwrap();
        let missing = "1".repeat(40) + "\n";
        for text in ["", "\0\0\0\0", "ref: refs/heads/nowhere\n", &missing, "ref:"] {
            fs::write(bare.dir().join("refs/heads/main"), text).unwrap();
            let shown = bare.git.output(&["--git-dir", &bare.path(), "show-ref"]).stdout;
            assert!(shown.is_empty(), "{text:?}");
            assert_eq!(RefTable::read(&bare.dir()).unwrap(), RefTable::default(), "{text:?}");
            refs.write(&bare.dir()).unwrap();
            assert_eq!(seen_by_git(bare), told(&refs), "{text:?}");
        }
    });
}

#[test]
fn links_among_loose_refs_are_not_followed() {
    each_git(|bare| {
        let tip = bare.commit("tip");
        let outside = bare.home.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("x"), format!("{tip}\n")).unwrap();
        fs::create_dir_all(bare.dir().join("refs/heads")).unwrap();
        std::os::unix::fs::symlink(&outside, bare.dir().join("refs/heads/dir")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), bare.dir().join("refs/heads/file")).unwrap();
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), RefTable::default());
        let refs = branches(&[("refs/heads/file", entry(&tip))]);
        refs.write(&bare.dir()).unwrap();
        assert!(outside.join("x").exists());
        assert_eq!(seen_by_git(bare), told(&refs), "the link is gone");
    });
}

#[test]
fn a_lock_in_the_way_is_named_and_nothing_changes() {
    each_git(|bare| {
        let before = branches(&[("refs/heads/main", entry(&bare.commit("before")))]);
        before.write(&bare.dir()).unwrap();
        let mut after = branches(&[("refs/heads/main", entry(&bare.commit("after")))]);
        after.head = Some("refs/heads/other".parse().unwrap());
        let lock = bare.dir().join("packed-refs.lock");
        fs::write(&lock, "").unwrap();
        let refusal = after.write(&bare.dir()).unwrap_err();
        assert!(matches!(&refusal, RefsError::Locked { path } if *path == lock));
        let text = refusal.to_string();
        assert!(text.contains(lock.to_str().unwrap()) && text.contains("remove that file"));
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), before);
        assert!(lock.exists(), "it may be someone's");
    });
}

#[test]
fn after_a_crash_every_leftover_lock_can_be_cleared() {
    each_git(|bare| {
        let refs = branches(&[("refs/heads/main", entry(&bare.commit("tip")))]);
        refs.write(&bare.dir()).unwrap();
        fs::create_dir_all(bare.dir().join("refs/heads")).unwrap();
        for name in ["packed-refs.lock", "packed-refs.new", "HEAD.lock", "refs/heads/main.lock"] {
            fs::write(bare.dir().join(name), "half").unwrap();
        }
        RefTable::clear_locks(&bare.dir()).unwrap();
        RefTable::clear_locks(&bare.dir()).unwrap();
        assert_eq!(RefTable::read(&bare.dir()).unwrap(), refs);
        refs.write(&bare.dir()).unwrap();
        bare.git(&["update-ref", "refs/heads/main", &bare.commit("by git")]);
        bare.git(&["symbolic-ref", "HEAD", "refs/heads/other"]);
        bare.git(&["pack-refs", "--all"]);
    });
}

#[test]
fn a_damaged_file_is_reported_by_its_line() {
    each_git(|bare| {
        let tip = bare.commit("tip");
        let path = bare.dir().join("packed-refs");
        for (text, at) in [
            (format!("{tip} refs/heads/main\nrubbish\n"), 2),
            (format!("{tip} refs/heads/main"), 1),
            (format!("{tip} refs/heads/main\n{tip} refs/hea"), 2),
            (format!("^{tip}\n"), 1),
            (format!("# pack-refs with: peeled \n^{tip}\n"), 2),
            (format!("{tip} refs/tags/a\n^{tip}\n^{tip}\n"), 3),
            (format!("{} refs/heads/main\n", tip.to_uppercase().replace('0', "A")), 1),
            (format!("{tip}\n"), 1),
            (format!("{tip} \n"), 1),
            ("\n".to_owned(), 1),
            ("\0\0\0\0\0\0\0\0".to_owned(), 1),
        ] {
            fs::write(&path, &text).unwrap();
            let damage = RefTable::read(&bare.dir()).unwrap_err();
            assert!(matches!(damage, RefsError::Damaged { line, .. } if line == at), "{text:?}");
        }
        RefTable::default().write(&bare.dir()).unwrap();
        assert_eq!(seen_by_git(bare), [], "writing repairs");
    });
}

#[test]
fn a_directory_without_refs_is_an_empty_table() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(RefTable::read(home.path()).unwrap(), RefTable::default());
    assert_eq!(RefTable::read(&home.path().join("nowhere")).unwrap(), RefTable::default());
    let refusal = RefTable::default().write(&home.path().join("nowhere")).unwrap_err();
    assert!(refusal.to_string().starts_with("cannot create "), "{refusal}");
}

#[test]
fn readers_see_all_of_a_change_or_nothing() {
    each_git(|bare| {
        let (a, b) = (entry(&bare.commit("a")), entry(&bare.commit("b")));
        let names: Vec<_> = (0..200).map(|n| format!("refs/heads/{n}")).collect();
        let all = |tip| branches(&names.iter().map(|n| (n.as_str(), tip)).collect::<Vec<_>>());
        let (all_a, all_b) = (all(a), all(b));
        all_a.write(&bare.dir()).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for refs in [&all_b, &all_a].into_iter().cycle().take(60) {
                    refs.write(&bare.dir()).unwrap();
                }
                over.store(true, Ordering::Release);
            });
            while !over.load(Ordering::Acquire) {
                let seen = RefTable::read(&bare.dir()).unwrap();
                assert!(seen == all_a || seen == all_b);
                let seen = bare.git(&["for-each-ref", "--format=%(objectname)"]);
                let first = seen.lines().next().unwrap();
                assert!(seen.lines().all(|line| line == first) && seen.lines().count() == 200);
            }
        });
    });
}
