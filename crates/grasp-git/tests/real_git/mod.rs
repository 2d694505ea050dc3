//! Real gits in temporary directories, for tests that ask what git itself would say.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]
#![allow(clippy::disallowed_methods, reason = "a test may start git without the server's bounds")]

pub(crate) mod table;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Every git of this machine, oldest first: what works must work with each.
pub(crate) fn gits() -> Vec<Git> {
    let places = ["/usr/bin/git", "/usr/local/bin/git"];
    let found: Vec<_> = places.iter().filter(|path| Path::new(path).exists()).collect();
    assert!(!found.is_empty(), "these tests need a git in {places:?}");
    found.into_iter().map(|path| Git { binary: path.into(), env: Vec::new() }).collect()
}

#[derive(Debug, Clone)]
pub(crate) struct Git {
    pub(crate) binary: PathBuf,
    env: Vec<(String, String)>,
}

impl Git {
    pub(crate) fn with_env(&self, name: &str, value: &str) -> Self {
        let mut git = self.clone();
        git.env.push((name.to_owned(), value.to_owned()));
        git
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear().args(args);
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.com"),
            ("GIT_AUTHOR_DATE", "1700000000 +0000"),
            ("GIT_COMMITTER_NAME", "A"),
            ("GIT_COMMITTER_EMAIL", "a@example.com"),
            ("GIT_COMMITTER_DATE", "1700000000 +0000"),
        ] {
            command.env(name, value);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("git starts")
    }

    /// Standard output of a command that must succeed.
    pub(crate) fn run(&self, args: &[&str]) -> Vec<u8> {
        let output = self.output(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {args:?}: {stderr}", self.binary.display());
        output.stdout
    }

    pub(crate) fn with_input(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = self.command(args);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("git starts");
        // One that needs no more input may be gone before it read all of it.
        let _ = child.stdin.take().expect("piped").write_all(input);
        let output = child.wait_with_output().expect("git ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// A bare repository with a commit, its child, and an annotated tag of the first.
#[derive(Debug)]
pub(crate) struct Bare {
    pub(crate) git: Git,
    pub(crate) home: TempDir,
}

impl Bare {
    pub(crate) fn new(git: &Git) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let bare = Self { git: git.clone(), home };
        bare.git.run(&["init", "-q", "--bare", "-b", "main", "--template=", &bare.path()]);
        bare
    }

    pub(crate) fn path(&self) -> String {
        self.dir().to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.path().join("bare.git")
    }

    /// The trimmed output of a command inside.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let path = self.path();
        let output = self.git.run(&[&["--git-dir", &path], args].concat());
        String::from_utf8(output).expect("UTF-8").trim_end().to_owned()
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        let tree = self.git(&["hash-object", "-w", "-t", "tree", "/dev/null"]);
        self.git(&["commit-tree", "-m", message, &tree])
    }

    /// An annotated tag object; no ref is made.
    pub(crate) fn tag(&self, name: &str, of: &str, kind: &str) -> String {
        let tagger = "A <a@example.com> 1700000000 +0000";
        let text = format!("object {of}\ntype {kind}\ntag {name}\ntagger {tagger}\n\nwords\n");
        let path = self.path();
        let oid = self.git.with_input(&["--git-dir", &path, "mktag"], text.as_bytes());
        String::from_utf8(oid).expect("UTF-8").trim_end().to_owned()
    }
}

/// Tells the same story with every git.
pub(crate) fn each_git(story: impl Fn(&Bare)) {
    for git in gits() {
        story(&Bare::new(&git));
    }
}
