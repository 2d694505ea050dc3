//! The server's own memory, its children's excluded, while much more passes through it than it may
//! keep, and while a small request claims to be a huge one.

use super::Run;
use super::hosted::{ALL, Hosted, Refs, git, push, refs};
use super::http::post;
use crate::process;
use crate::report::Row;
use crate::stats::number;
use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use grasp_testkit::{Repository, WorkTree};
use std::io::Write;
use std::time::Duration;

const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Nobody has it.
const NOWHERE: &str = "1111111111111111111111111111111111111111";

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let tree = run.plan.huge.told(&git()).await;
    let mut hosted = Hosted::start(&run.binary, &git().binary).await?;
    let repository = hosted.announces("huge").await?;
    let state = refs(&tree).await;
    hosted.signs(&repository, &state).await?;
    let (pid, url) = (hosted.server.pid(), hosted.url(&repository));
    let size = number(run.plan.huge.bytes() >> 20);

    let ((), above) = Above::of(pid, push(&tree, &url, &ALL)).await?;
    drop(tree);
    above.report(run, &format!("memory above idle, push of {size} MiB"), 100.0);
    let cloning = async {
        let (copy, ran) = WorkTree::try_clone(&git(), &url, &["-q", "--bare"]).await;
        ensure!(ran.ok, "git clone: {}", ran.stderr);
        Ok(copy)
    };
    let (copy, above) = Above::of(pid, cloning).await?;
    drop(copy);
    above.report(run, &format!("memory above idle, clone of {size} MiB"), 100.0);
    bombs(run, &mut hosted, &repository, &state).await
}

/// What a process needed beyond what it had before, in MB.
struct Above {
    idle: f64,
    /// The kernel's own record of what was resident.
    peak: f64,
    /// Without mapped files, as far as samples saw it.
    anonymous: f64,
}

impl Above {
    async fn of<T>(pid: u32, work: impl Future<Output = Result<T>>) -> Result<(T, Self)> {
        let (idle, anonymous) = (process::resident_mb(pid)?, process::anonymous_mb(pid)?);
        process::forget_peak(pid)?;
        let mut most = anonymous;
        let watching = async {
            loop {
                most = most.max(process::anonymous_mb(pid)?);
                tokio::time::sleep(SAMPLE_EVERY).await;
            }
        };
        let done = tokio::select! {
            done = work => done?,
            never = watching => return never,
        };
        let peak = process::peak_mb(pid)? - idle;
        Ok((done, Self { idle, peak, anonymous: most - anonymous }))
    }

    fn report(&self, run: &mut Run, name: &str, limit: f64) {
        run.report.add(Row::new(name, self.peak, "MB").below(limit));
        run.report.note(format!(
            "{name}: {:.1} MB of it anonymous; idle {:.1} MB",
            self.anonymous, self.idle
        ));
    }
}

async fn bombs(
    run: &mut Run,
    hosted: &mut Hosted,
    repository: &Repository,
    state: &Refs,
) -> Result<()> {
    let tip = state.first().map_or(NOWHERE, |(_, oid)| oid.as_str());
    // A state that waits, so that a push for it is allowed as far as its pack.
    let main: Refs = vec![("refs/heads/main".into(), NOWHERE.into())];
    hosted.signs(repository, &main).await?;
    let command = format!("{tip} {NOWHERE} refs/heads/main\0 report-status");
    let pack = b"PACK\0\0\0\x02\0\0\0\x01\x30";
    let push = [pkt(&command).as_bytes(), b"0000", pack].concat();
    let fetch = [pkt(&format!("want {tip}\n")).as_bytes(), b"0000"].concat();
    let mut largest: Option<Above> = None;
    let mut bytes = 0;
    for (service, opening) in [
        ("git-upload-pack", &[][..]),
        ("git-upload-pack", &fetch),
        ("git-receive-pack", &[]),
        ("git-receive-pack", &push),
    ] {
        let bomb = bomb(opening, run.plan.bomb_bytes)?;
        bytes = bomb.len();
        let throwing = throw(hosted, repository, service, &bomb);
        let ((), above) = Above::of(hosted.server.pid(), throwing).await?;
        if largest.as_ref().is_none_or(|largest| above.peak > largest.peak) {
            largest = Some(above);
        }
    }
    let (bytes, unfolded) = (number(bytes) / 1e6, run.plan.bomb_bytes >> 20);
    let name = format!("memory above idle, {bytes:.2} MB of gzip that are {unfolded} MiB");
    if let Some(largest) = largest {
        largest.report(run, &name, 64.0);
    }
    Ok(())
}

async fn throw(hosted: &Hosted, at: &Repository, service: &str, bomb: &[u8]) -> Result<()> {
    let target = format!("{}/{service}", hosted.path(at));
    let headers =
        format!("Content-Type: application/x-{service}-request\r\nContent-Encoding: gzip\r\n");
    let (status, said) = post(&hosted.server.address, &target, &headers, bomb).await?;
    // As a web page, a line of its own, a command's fate, or the band for fatal errors.
    let words = ["ERR ", "ng refs/heads/main", "\u{3}"];
    let is_refused = status >= 400 || words.iter().any(|word| said.contains(word));
    ensure!(is_refused, "a bomb for {service} was answered with {said:?}");
    Ok(())
}

/// Something sensible first, if anything, and then zeros.
fn bomb(opening: &[u8], bytes: u64) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(opening)?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        gzip.write_all(&zeros)?;
    }
    Ok(gzip.finish()?)
}

fn pkt(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}
