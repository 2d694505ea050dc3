//! Somebody with a working copy and a real git, cut off from whatever this machine's user has
//! configured. Commits carry a fixed author and date: the same story has the same object ids.

use grasp_core::Oid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The caps on waiting only make a broken test fail.
const CAP: Duration = Duration::from_secs(120);
const PLACES: [&str; 2] = ["/usr/bin/git", "/usr/local/bin/git"];
/// What `init` calls its branch; no server could guess it.
pub const UNBORN: &str = "trunk";

/// One of the gits of this machine.
#[derive(Debug, Clone)]
pub struct Git {
    pub binary: PathBuf,
    protocol: u8,
}

impl Git {
    /// Every git of this machine, oldest first: what works must work with each.
    pub fn all() -> Vec<Self> {
        let found = PLACES.iter().filter(|path| Path::new(path).exists());
        let found: Vec<Self> =
            found.map(|path| Self { binary: PathBuf::from(path), protocol: 2 }).collect();
        assert!(!found.is_empty(), "these tests need a git in {PLACES:?}");
        found
    }

    /// Whichever comes last, where it makes no difference.
    pub fn any() -> Self {
        Self::all().pop().expect("there is one")
    }

    /// The version of the wire protocol it asks for.
    pub fn speaking(&self, protocol: u8) -> Self {
        Self { protocol, ..self.clone() }
    }

    pub(crate) fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear().current_dir(home).kill_on_drop(true);
        let path = home.display().to_string();
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", &path),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_AUTHOR_DATE", "1700000000 +0000"),
            ("GIT_COMMITTER_DATE", "1700000000 +0000"),
        ] {
            command.env(name, value);
        }
        command
    }

    fn settings(&self) -> String {
        let protocol = self.protocol;
        format!(
            "[user]\nname = A\nemail = a@example.com\n[init]\ndefaultBranch = {UNBORN}\n\
             [protocol]\nversion = {protocol}\n[gc]\nauto = 0\n[maintenance]\nauto = false\n\
             [advice]\ndetachedHead = false\n[core]\nautocrlf = false\n"
        )
    }
}

/// What became of a command.
#[derive(Debug, Clone)]
pub struct Ran {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The output, if all went well.
    pub fn expect(self, what: &str) -> String {
        assert!(self.ok, "{what}: {}", self.stderr);
        self.stdout
    }

    /// Refused by the server's own words: git shows a sentence and each ref's fate.
    pub fn is_rejected(&self) -> bool {
        !self.ok && self.stderr.contains("remote: ") && self.stderr.contains("[remote rejected]")
    }

    pub fn says(&self, text: &str) -> bool {
        self.stderr.contains(text)
    }
}

/// A temporary home with a working copy in it.
#[derive(Debug)]
pub struct WorkTree {
    git: Git,
    home: TempDir,
}

impl WorkTree {
    /// A new repository on a branch that does not exist yet.
    pub async fn init(git: &Git) -> Self {
        let tree = Self::vacant(git);
        tree.at_home(&["init", "-q", "tree"]).await.expect("git init");
        tree
    }

    pub async fn clone(git: &Git, url: &str, args: &[&str]) -> Self {
        let (tree, ran) = Self::try_clone(git, url, args).await;
        ran.expect("git clone");
        tree
    }

    pub async fn try_clone(git: &Git, url: &str, args: &[&str]) -> (Self, Ran) {
        let tree = Self::vacant(git);
        let ran = tree.at_home(&[&["clone"], args, &[url, "tree"]].concat()).await;
        (tree, ran)
    }

    fn vacant(git: &Git) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(home.path().join(".gitconfig"), git.settings()).expect("a writable home");
        Self { git: git.clone(), home }
    }

    pub fn path(&self) -> PathBuf {
        self.home.path().join("tree")
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path().join(file)).expect("the file is there")
    }

    /// The trimmed output of a command that must succeed.
    pub async fn git(&self, args: &[&str]) -> String {
        let ran = self.tries(args).await;
        ran.expect(&format!("git {args:?}")).trim_end().to_owned()
    }

    pub async fn tries(&self, args: &[&str]) -> Ran {
        self.at_home(&[&["-C", "tree"], args].concat()).await
    }

    async fn at_home(&self, args: &[&str]) -> Ran {
        self.runs(args, b"").await
    }

    /// With bytes on its standard input, inside the working copy.
    pub async fn git_reading(&self, args: &[&str], input: &[u8]) -> String {
        let ran = self.runs(&[&["-C", "tree"], args].concat(), input).await;
        ran.expect(&format!("git {args:?}")).trim_end().to_owned()
    }

    async fn runs(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.git.command(self.home.path());
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("git starts");
        let mut stdin = child.stdin.take().expect("its input is piped");
        let feeding = async move {
            // One that needs no more input may be gone before it read all of it.
            let _ = stdin.write_all(input).await;
        };
        let both = async { tokio::join!(feeding, child.wait_with_output()).1 };
        let ended = timeout(CAP, both).await.unwrap_or_else(|_| panic!("git {args:?} hangs"));
        let output = ended.expect("git ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Ran { ok: output.status.success(), stdout, stderr }
    }

    /// Writes a file and commits it on the current branch.
    pub async fn commit(&self, file: &str, text: &str) -> Oid {
        let path = self.path().join(file);
        let parent = path.parent().expect("a file is in a directory");
        std::fs::create_dir_all(parent).expect("a writable directory");
        std::fs::write(&path, text).expect("a writable file");
        self.git(&["add", file]).await;
        self.git(&["commit", "-q", "-m", text.get(..40).unwrap_or(text)]).await;
        self.rev_parse("HEAD").await
    }

    pub async fn rev_parse(&self, name: &str) -> Oid {
        self.git(&["rev-parse", name]).await.parse().expect("an object id")
    }

    pub async fn has(&self, oid: &Oid) -> bool {
        self.tries(&["cat-file", "-e", &oid.to_hex()]).await.ok
    }

    /// Points a branch somewhere, and makes it if need be.
    pub async fn branch(&self, name: &str, at: &Oid) {
        let name = format!("refs/heads/{name}");
        self.git(&["update-ref", &name, &at.to_hex()]).await;
    }

    pub async fn tag(&self, name: &str, at: &Oid) {
        self.git(&["tag", "-f", name, &at.to_hex()]).await;
    }

    /// The id is the tag object's own.
    pub async fn annotated_tag(&self, name: &str, at: &Oid) -> Oid {
        self.git(&["tag", "-f", "-a", "-m", name, name, &at.to_hex()]).await;
        self.rev_parse(&format!("refs/tags/{name}")).await
    }

    pub async fn push(&self, url: &str, refspecs: &[&str]) -> Ran {
        self.push_with(url, refspecs, &[]).await
    }

    pub async fn push_with(&self, url: &str, refspecs: &[&str], options: &[&str]) -> Ran {
        self.tries(&[&["push"], options, &[url], refspecs].concat()).await
    }

    pub async fn fetch(&self, url: &str, args: &[&str]) -> Ran {
        self.tries(&[&["fetch", url], args].concat()).await
    }

    /// What the server shows: names and ids; `HEAD` is there if it points to something.
    pub async fn ls_remote(&self, url: &str) -> BTreeMap<String, String> {
        let listed = self.git(&["ls-remote", url]).await;
        let rows = listed.lines().filter_map(|line| line.split_once('\t'));
        rows.map(|(oid, name)| (name.to_owned(), oid.to_owned())).collect()
    }

    /// The branch that the server's HEAD names.
    pub async fn remote_head(&self, url: &str) -> Option<String> {
        let listed = self.git(&["ls-remote", "--symref", url, "HEAD"]).await;
        let named = listed.lines().find_map(|line| line.strip_prefix("ref: "))?;
        Some(named.split_once('\t')?.0.to_owned())
    }
}
