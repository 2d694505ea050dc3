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
    above.report(run, &format!("memory above idle, push of {size} MiB"), 100.0);
    let cloning = async {
        let (copy, ran) = WorkTree::try_clone(&git(), &url, &["-q", "--bare"]).await;
        ensure!(ran.ok, "git clone: {}", ran.stderr);
        Ok(copy)
    };
    let (copy, above) = Above::of(pid, cloning).await?;
    let (pushed, cloned) = (tree.rev_parse("main").await, copy.rev_parse("main").await);
    ensure!(pushed == cloned, "the clone is not what was pushed");
    drop((tree, copy));
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
        // What was given back meanwhile may be more than was needed.
        let peak = (process::peak_mb(pid)? - idle).max(0.0);
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

async fn bombs(run: &mut Run, hosted: &mut Hosted, at: &Repository, state: &Refs) -> Result<()> {
    // A state that waits, so that a push for it is allowed as far as its pack.
    hosted.signs(at, &vec![("refs/heads/main".into(), NOWHERE.into())]).await?;
    let tip = state.first().map_or(NOWHERE, |(_, oid)| oid.as_str());
    let (mut worst, mut bytes, mut answers) = (None::<Above>, 0, String::new());
    for (service, opening, filling) in kinds(tip) {
        let bomb = bomb(&opening, &filling, run.plan.bomb_bytes)?;
        bytes = bomb.len();
        let throwing = throw(hosted, at, service, &bomb);
        let (answer, above) = Above::of(hosted.server.pid(), throwing).await?;
        answers.push_str(&format!("\n  {service}: {answer}"));
        worst = worst.filter(|worst| worst.peak >= above.peak).or(Some(above));
    }
    let (bytes, unfolded) = (number(bytes) / 1e6, run.plan.bomb_bytes >> 20);
    let name = format!("memory above idle, {bytes:.2} MB of gzip that are {unfolded} MiB");
    if let Some(worst) = worst {
        worst.report(run, &name, 64.0);
    }
    run.report.note(format!("the answers to it:{answers}"));
    Ok(())
}

/// For which service, what gets a request further in, and what then comes without end.
fn kinds(tip: &str) -> [(&'static str, Vec<u8>, Vec<u8>); 4] {
    let command = format!("{tip} {NOWHERE} refs/heads/main\0 report-status");
    let pack = b"PACK\0\0\0\x02\0\0\0\x01\x30";
    let push = [pkt(&command).as_bytes(), b"0000", pack].concat();
    let (want, zeros) = (pkt(&format!("want {tip}\n")).into_bytes(), vec![0]);
    [
        ("git-upload-pack", Vec::new(), zeros.clone()),
        ("git-upload-pack", Vec::new(), want),
        ("git-receive-pack", Vec::new(), zeros.clone()),
        ("git-receive-pack", push, zeros),
    ]
}

/// How it was refused.
async fn throw(hosted: &Hosted, at: &Repository, service: &str, bomb: &[u8]) -> Result<String> {
    let target = format!("{}/{service}", hosted.path(at));
    let headers =
        format!("Content-Type: application/x-{service}-request\r\nContent-Encoding: gzip\r\n");
    let (status, said) = post(&hosted.server.address, &target, &headers, bomb).await?;
    // As a page, a line of its own, a command's fate, or the band for fatal errors.
    let words = ["ERR ", "ng refs/heads/main", "\u{3}"];
    let is_refused = status >= 400 || words.iter().any(|word| said.contains(word));
    ensure!(is_refused, "a bomb for {service} was answered with {said:?}");
    let body = said.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(format!("{status} {}", body.escape_debug()))
}

fn bomb(opening: &[u8], filling: &[u8], bytes: u64) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(opening)?;
    let piece = filling.repeat((1 << 20) / filling.len());
    let mut left = usize::try_from(bytes)?;
    while left > 0 {
        let piece = piece.get(..left).unwrap_or(&piece);
        gzip.write_all(piece)?;
        left -= piece.len();
    }
    Ok(gzip.finish()?)
}

fn pkt(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}
