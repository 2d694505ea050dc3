//! The processes this server starts: what they get, how they end, and that every git obeys the
//! settings, which it would ignore in silence if one were misspelt.
#![allow(clippy::unwrap_used, reason = "a test tells by panicking that it failed")]

mod packs;
mod real_git;
mod rig;

use grasp_core::Oid;
use grasp_git::{
    Git, GitError, GitLimits, Layout, Protocol, RefTable, Running, end_leftovers, ensure_repository,
};
use packs::{oid_of, snapshot};
use real_git::{Git as RealGit, gits};
use rig::{Rig, repo};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A program that says it is git and then does what the test needs.
struct Pretender {
    layout: Layout,
    home: tempfile::TempDir,
}

impl Pretender {
    fn new(script: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::new(home.path().join("data"));
        layout.prepare().unwrap();
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = version ] && {{ echo git version 2.47.3; exit; }}\n{script}\n"
        );
        let binary = home.path().join("git");
        write_program(&binary, &text);
        Self { layout, home }
    }

    async fn git(&self, limits: GitLimits) -> Git {
        Git::find(&self.home.path().join("git"), &self.layout, limits).await.unwrap()
    }

    async fn start(&self) -> Running {
        self.git(GitLimits::default()).await.upload_pack(Path::new("/dir"), Protocol::V2).unwrap()
    }
}

/// Written by another process: a file that this one has open for writing cannot be run, and a child
/// that another test starts meanwhile would keep it open for a moment.
#[allow(clippy::disallowed_methods, reason = "no git is started here")]
fn write_program(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text).unwrap();
    let install = std::process::Command::new("install");
    let copied = { install }.args(["-m", "755"]).args([&draft, path]).status().unwrap();
    assert!(copied.success());
}

async fn said(running: &mut Running) -> String {
    let mut text = String::new();
    running.stdout.read_to_string(&mut text).await.unwrap();
    text
}

fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains("Z (zombie)"))
}

async fn gone(pids: &[String]) {
    grasp_testkit::until("the whole group is gone", || async {
        !pids.iter().any(|pid| is_alive(pid))
    })
    .await;
}

#[tokio::test]
async fn a_child_gets_our_environment_and_nothing_else() {
    let pretender = Pretender::new("env; echo; pwd; echo \"$@\"");
    let mut running = pretender.start().await;
    let text = said(&mut running).await;
    running.finish().await.unwrap();
    let (environment, rest) = text.split_once("\n\n").unwrap();
    let names: BTreeSet<&str> =
        environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // A shell adds PWD.
    let expected = "GIT_ADVICE GIT_ALLOW_PROTOCOL GIT_ASKPASS GIT_ATTR_NOSYSTEM GIT_CONFIG_GLOBAL \
        GIT_CONFIG_NOSYSTEM GIT_CONFIG_SYSTEM GIT_NO_LAZY_FETCH GIT_NO_REPLACE_OBJECTS \
        GIT_OPTIONAL_LOCKS GIT_PROTOCOL GIT_PROTOCOL_FROM_USER GIT_SSH_COMMAND \
        GIT_TERMINAL_PROMPT HOME LC_ALL PATH PWD SSH_ASKPASS TMPDIR XDG_CONFIG_HOME";
    assert_eq!(names, expected.split_whitespace().collect());
    assert!(environment.lines().any(|line| line == "GIT_PROTOCOL=version=2"));
    assert_eq!(rest, "/\nupload-pack --strict --timeout=2100 --stateless-rpc /dir\n");
}

#[tokio::test]
async fn a_child_runs_within_its_limits() {
    let pretender = Pretender::new("read line; cat /proc/self/limits");
    let mut running = pretender.start().await;
    running.stdin.write_all(b"go\n").await.unwrap();
    let text = said(&mut running).await;
    running.finish().await.unwrap();
    let soft = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(soft("Max core file size"), "0");
    assert_eq!(soft("Max open files"), "256");
    assert_eq!(soft("Max cpu time"), "300");
    assert_eq!(soft("Max address space"), (4_u64 << 30).to_string());
    assert_eq!(soft("Max file size"), (64_u64 << 30).to_string());
}

#[tokio::test]
async fn a_child_that_only_burns_time_is_ended() {
    let pretender = Pretender::new("while :; do :; done");
    let git = pretender.git(GitLimits { serve_cpu_secs_max: 1, ..GitLimits::default() }).await;
    let ended = git.upload_pack(Path::new("/dir"), Protocol::V0).unwrap().finish().await;
    assert!(matches!(ended, Err(GitError::Failed { signal: Some(24), .. })), "{ended:?}");
}

#[tokio::test]
async fn whoever_leaves_takes_the_whole_group_along() {
    let pretender = Pretender::new("sleep 1000 & echo $$ $!; wait");
    let mut running = pretender.start().await;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(running.stdout.read_u8().await.unwrap());
    }
    let pids: Vec<String> =
        String::from_utf8(line).unwrap().split_whitespace().map(str::to_owned).collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(pid)));
    drop(running);
    gone(&pids).await;
}

#[tokio::test]
async fn what_an_earlier_server_left_behind_is_ended() {
    let pretender = Pretender::new("sleep 1000 & echo $$ $!; wait");
    let other = Pretender::new("sleep 1000 & echo $$ $!; wait");
    let mut all = Vec::new();
    for it in [&pretender, &other] {
        let mut running = it.start().await;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.push(running.stdout.read_u8().await.unwrap());
        }
        let text = String::from_utf8(line).unwrap();
        let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        assert!(pids.iter().all(|pid| is_alive(pid)));
        all.push((running, pids));
    }
    let layout = pretender.layout.clone();
    let ended = tokio::task::spawn_blocking(move || end_leftovers(&layout)).await.unwrap();
    assert_eq!(ended, 2);
    gone(&all[0].1).await;
    assert!(all[1].1.iter().all(|pid| is_alive(pid)), "another server's are left alone");
}

/// In a container the same path may name the data of another server.
#[tokio::test]
async fn a_process_with_another_root_directory_is_left_alone() {
    let pretender = Pretender::new("exec unshare -r chroot /usr /bin/sleep 1000");
    let running = pretender.start().await;
    let root_of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/root")).ok();
    let is_inside = |pid: &String| root_of(pid).is_some_and(|root| root == Path::new("/usr"));
    let ours = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|it| it.file_name().into_string().ok());
        let mark = pretender.layout.gitconfig().display().to_string();
        let environment = |pid: &String| std::fs::read(format!("/proc/{pid}/environ")).ok();
        pids.filter(is_inside).find(|pid| {
            environment(pid).is_some_and(|it| String::from_utf8_lossy(&it).contains(&mark))
        })
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    let found = loop {
        match ours() {
            Some(pid) => break Some(pid),
            None if tokio::time::Instant::now() > until => break None,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let Some(pid) = found else {
        eprintln!("skipped: this machine allows no other root directory");
        return;
    };
    let layout = pretender.layout.clone();
    let ended = tokio::task::spawn_blocking(move || end_leftovers(&layout)).await.unwrap();
    assert_eq!(ended, 0);
    assert!(is_alive(&pid));
    drop(running);
}

#[tokio::test]
async fn whoever_a_child_leaves_behind_ends_with_it() {
    let pretender = Pretender::new("sleep 1000 & echo $!");
    let mut running = pretender.start().await;
    // The sleeper holds the streams, too: they end with it.
    let left_behind = said(&mut running).await.trim().to_owned();
    running.finish().await.unwrap();
    gone(&[left_behind]).await;
}

#[tokio::test]
async fn a_child_that_overstays_is_asked_and_then_ended() {
    for (script, patience) in [
        ("sleep 1000 & echo $$ $!; wait", Duration::from_secs(1)),
        ("trap '' TERM; sleep 1000 & echo $$ $!; while :; do wait; done", Duration::from_secs(10)),
    ] {
        let pretender = Pretender::new(script);
        let limits =
            GitLimits { serve_deadline: Duration::from_millis(200), ..GitLimits::default() };
        let git = pretender.git(limits).await;
        let mut running = git.upload_pack(Path::new("/dir"), Protocol::V0).unwrap();
        let text = tokio::time::timeout(patience, said(&mut running)).await.unwrap();
        let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let ended = running.finish().await;
        assert!(matches!(ended, Err(GitError::Deadline { .. })), "{ended:?}");
        gone(&pids).await;
    }
}

#[tokio::test]
async fn a_talkative_child_neither_blocks_nor_fills_the_memory() {
    let pretender = Pretender::new(
        "head -c 2000000 /dev/zero | tr '\\0' e >&2; head -c 2000000 /dev/zero; echo end >&2; exit 3",
    );
    let ended = pretender.start().await.finish().await.unwrap_err();
    let GitError::Failed { code: Some(3), stderr, .. } = &ended else { panic!("{ended}") };
    assert!(stderr.len() <= 64 << 10 && stderr.ends_with("end\n"));
    assert!(ended.to_string().len() < 300, "only the end is for people");
}

#[tokio::test]
async fn what_is_not_a_git_we_can_use_is_refused_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    let layout = Layout::new(home.path().to_owned());
    layout.prepare().unwrap();
    let find = async |path: &Path| Git::find(path, &layout, GitLimits::default()).await;
    assert!(matches!(find(Path::new("git")).await, Err(GitError::Relative(_))));
    assert!(matches!(find(Path::new("/nowhere/git")).await, Err(GitError::Start { .. })));
    assert!(matches!(find(Path::new("/bin/true")).await, Err(GitError::NotGit { .. })));
    let old = home.path().join("old");
    write_program(&old, "#!/bin/sh\necho git version 2.30.2\n");
    assert!(matches!(find(&old).await, Err(GitError::TooOld(_))));
}

#[tokio::test]
async fn the_settings_are_read_only_and_written_anew() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let file = rig.layout.gitconfig();
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o444);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "[core]\n\thooksPath = /evil\n").unwrap();
    let git = Git::find(&real.binary, &rig.layout, GitLimits::default()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(git.warnings().len(), usize::from(git.version().minor < 43));
}

/// A repository with two refs, one of them hidden.
struct Served {
    rig: Rig,
    dir: PathBuf,
    tip: Oid,
    hidden: Oid,
}

impl Served {
    async fn new(real: &RealGit) -> Self {
        let rig = Rig::new(real).await;
        let large = rig::noise(1, 5_000);
        let (pack, tip) =
            snapshot(&[("100644", "README", b"hello\n"), ("100644", "large", &large)]);
        let (older, hidden) = snapshot(&[("100644", "README", b"older\n")]);
        rig.push(&repo("acme"), &older.bytes(), &hidden).await;
        let dir = rig.push(&repo("acme"), &pack.bytes(), &tip).await;
        let mut refs = RefTable::read(&dir).unwrap();
        refs.kept.insert(hidden);
        refs.write(&dir).unwrap();
        Self { rig, dir, tip, hidden }
    }

    async fn ask(&self, protocol: Protocol, request: &[u8]) -> String {
        ask(&self.rig.git, &self.dir, protocol, request).await
    }

    async fn fetch(&self, want: &Oid, filter: Option<&str>) -> String {
        let mut request = line("command=fetch");
        request.extend_from_slice(b"0001");
        for argument in ["no-progress".to_owned(), format!("want {want}"), "done".to_owned()] {
            request.extend(line(&argument));
        }
        request.extend(filter.map(|filter| line(&format!("filter {filter}"))).unwrap_or_default());
        request.extend_from_slice(b"0000");
        self.ask(Protocol::V2, &request).await
    }
}

/// The answer to one request, and what git complained about.
async fn ask(git: &Git, dir: &Path, protocol: Protocol, request: &[u8]) -> String {
    let Running { mut stdin, mut stdout, exit } = git.upload_pack(dir, protocol).unwrap();
    stdin.write_all(request).await.unwrap();
    drop(stdin);
    let mut answer = Vec::new();
    stdout.read_to_end(&mut answer).await.unwrap();
    let mut answer = String::from_utf8_lossy(&answer).into_owned();
    if let Err(GitError::Failed { stderr, .. }) = exit.finish().await {
        answer.push_str(&stderr);
    }
    answer
}

fn line(text: &str) -> Vec<u8> {
    format!("{:04x}{text}\n", text.len() + 5).into_bytes()
}

#[tokio::test]
async fn only_cheap_filters_are_served() {
    for real in gits() {
        let served = Served::new(&real).await;
        for filter in ["blob:none", "blob:limit=1k", "tree:0"] {
            let answer = served.fetch(&served.tip, Some(filter)).await;
            assert!(answer.contains("packfile"), "{filter}: {answer}");
        }
        for filter in [
            "tree:1",
            "tree:3",
            "combine:tree:0+blob:none",
            "object:type=commit",
            "sparse:oid=main",
        ] {
            let answer = served.fetch(&served.tip, Some(filter)).await;
            assert!(!answer.contains("packfile"), "{filter}");
            let told = ["not supported", "not allowed", "tree filter allows max depth 0"];
            assert!(told.iter().any(|told| answer.contains(told)), "{filter}: {answer}");
        }
    }
}

#[tokio::test]
async fn hidden_refs_are_not_listed_but_their_tips_can_be_fetched() {
    for real in gits() {
        let served = Served::new(&real).await;
        let list = [line("command=ls-refs"), b"0000".to_vec()].concat();
        let listed = served.ask(Protocol::V2, &list).await;
        assert!(listed.contains("refs/heads/main") && !listed.contains("internal"), "{listed}");
        for protocol in [Protocol::V0, Protocol::V1] {
            let want = format!("want {} ofs-delta", served.hidden);
            let request = [line(&want), b"0000".to_vec(), line("done")].concat();
            let answer = served.ask(protocol, &request).await;
            assert!(answer.contains("NAK") && answer.contains("PACK"), "{answer}");
            let blob = oid_of("blob", b"hello\n");
            let request = [line(&format!("want {blob}")), b"0000".to_vec(), line("done")].concat();
            let answer = served.ask(protocol, &request).await;
            assert!(answer.contains("PACK"), "reachable ids can be wanted: {answer}");
        }
        assert!(served.fetch(&served.hidden, None).await.contains("packfile"));
    }
}

#[tokio::test]
async fn a_branch_that_does_not_exist_is_not_listed() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let dir = ensure_repository(&rig.layout, &repo("empty")).unwrap();
        let list = [line("command=ls-refs"), b"0001".to_vec(), line("symrefs"), line("unborn")];
        let request = [list.concat(), b"0000".to_vec()].concat();
        assert_eq!(ask(&rig.git, &dir, Protocol::V2, &request).await, "0000");
    }
}

#[tokio::test]
async fn no_child_reaches_another_place() {
    for real in gits() {
        let served = Served::new(&real).await;
        let config = served.rig.layout.gitconfig();
        let bound = real.with_env("GIT_CONFIG_GLOBAL", config.to_str().unwrap());
        for (transport, place) in [
            ("file", format!("file://{}", served.dir.display())),
            ("https", "https://localhost:1/x".to_owned()),
            ("ssh", "ssh://localhost:1/x".to_owned()),
            ("git", "git://localhost:1/x".to_owned()),
            ("ext", "ext::sh -c true".to_owned()),
        ] {
            let output = bound.output(&["ls-remote", &place]);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let words = format!("transport '{transport}' not allowed");
            assert!(!output.status.success() && told.contains(&words), "{told}");
        }
    }
}

#[tokio::test]
async fn hooks_are_never_run() {
    for real in gits() {
        let served = Served::new(&real).await;
        let config = served.rig.layout.gitconfig();
        let bound = real.with_env("GIT_CONFIG_GLOBAL", config.to_str().unwrap());
        let (hooks, proof) = (served.dir.join("hooks"), served.rig.home.path().join("proof"));
        std::fs::create_dir(&hooks).unwrap();
        let hook = hooks.join("reference-transaction");
        write_program(&hook, &format!("#!/bin/sh\ntouch '{}'\n", proof.display()));
        let dir = format!("--git-dir={}", served.dir.display());
        let (tip, hidden) = (served.tip.to_hex(), served.hidden.to_hex());
        bound.run(&[&dir, "update-ref", "refs/heads/main", &hidden]);
        assert!(!proof.exists(), "with our settings");
        real.run(&[&dir, "update-ref", "refs/heads/main", &tip]);
        assert!(proof.exists(), "without them, to show that the hook works");
    }
}

#[tokio::test]
async fn a_restored_directory_of_another_user_is_served() {
    for real in gits() {
        let served = Served::new(&real).await;
        let nobody = Some(65_534);
        if let Err(error) = std::os::unix::fs::chown(&served.dir, nobody, nobody) {
            println!("skipped: only root can give a directory away ({error})");
            return;
        }
        assert!(served.fetch(&served.tip, None).await.contains("packfile"));
    }
}
