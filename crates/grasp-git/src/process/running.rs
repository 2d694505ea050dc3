//! A git process from its start to its end. One task alone waits for it and ends it, so a signal can
//! never reach a stranger that got its number. It is ended with its whole group: when its holder
//! leaves, when its time is over.

use super::GitError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncReadExt, sink};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;

/// Of what git complains about, the end is kept.
const STDERR_BYTES_MAX: usize = 64 << 10;
/// Between asking a process to end and ending it.
const GRACE: Duration = Duration::from_secs(2);

/// A git process at work. Take it apart to move the streams into different tasks.
#[derive(Debug)]
pub struct Running {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub exit: Exit,
}

impl Running {
    /// Nothing more to say and nothing more to hear: waits for the end.
    pub async fn finish(self) -> Result<(), GitError> {
        let Self { stdin, mut stdout, exit } = self;
        drop(stdin);
        // Read to its end, or a process with much to say would wait for ever.
        let (_, ended) =
            tokio::join!(async { tokio::io::copy(&mut stdout, &mut sink()).await }, exit.finish());
        ended
    }
}

/// The end of a process. Whoever drops it unwaited ends the process and all it started.
#[derive(Debug)]
pub struct Exit {
    what: &'static str,
    outcome: oneshot::Receiver<Result<(), GitError>>,
}

impl Exit {
    /// Waits until the process has ended by itself; an error if it did not succeed.
    pub async fn finish(self) -> Result<(), GitError> {
        let what = self.what;
        self.outcome.await.unwrap_or(Err(GitError::Abandoned { what }))
    }
}

/// What the one task that looks after a process needs to know.
#[derive(Debug)]
pub(super) struct Care {
    pub(super) what: &'static str,
    pub(super) deadline: Duration,
}

impl Care {
    pub(super) fn begin(self, child: Child, stderr: ChildStderr) -> Exit {
        let (tell, outcome) = oneshot::channel();
        let what = self.what;
        tokio::spawn(self.look_after(Group(child), stderr, tell));
        Exit { what, outcome }
    }

    async fn look_after(
        self,
        mut group: Group,
        stderr: ChildStderr,
        mut tell: oneshot::Sender<Result<(), GitError>>,
    ) {
        let what = self.what;
        let ended = async { tokio::join!(group.0.wait(), tail(stderr)) };
        let outcome = tokio::select! {
            (status, complaint) = ended => match status {
                Ok(status) => judge(what, status, &complaint),
                Err(source) => Err(GitError::Start { what, source }),
            },
            () = tokio::time::sleep(self.deadline) => {
                group.end().await;
                Err(GitError::Deadline { what, secs: self.deadline.as_secs() })
            }
            () = tell.closed() => return group.kill().await,
        };
        // Nobody listens any more: nothing is left to tell.
        let _ = tell.send(outcome);
    }
}

fn judge(what: &'static str, status: ExitStatus, complaint: &[u8]) -> Result<(), GitError> {
    if status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(complaint).into_owned();
    Err(GitError::Failed { what, code: status.code(), signal: status.signal(), stderr })
}

/// Reads to the end and keeps the last of it.
async fn tail(mut stderr: ChildStderr) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = [0; 4 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(chunk.get(..read).unwrap_or_default());
        if let Some(surplus) = kept.len().checked_sub(STDERR_BYTES_MAX) {
            kept.drain(..surplus);
        }
    }
    kept
}

/// A process and everything it started. Ends with it when dropped, also when the runtime stops.
#[derive(Debug)]
struct Group(Child);

impl Group {
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(GRACE, self.0.wait()).await.is_err() {
            self.kill().await;
        }
    }

    async fn kill(&mut self) {
        self.signal(Signal::KILL);
        // An error means it was reaped already.
        let _ = self.0.wait().await;
    }

    /// A process that has been waited for has no number any more and gets no signal.
    fn signal(&self, signal: Signal) {
        let leader = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // It may be gone already.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
