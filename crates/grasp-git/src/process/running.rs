//! A git process from its start to its end. One task alone waits for it and ends it, so a signal can
//! never reach a stranger that got its number. Its whole group ends with it: when its holder leaves,
//! when its time is over, when it is done by itself.

use super::GitError;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::future::poll_fn;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::Poll;
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
        let Self { stdin, stdout, exit } = self;
        drop(stdin);
        finish(stdout, exit).await
    }

    /// The same for a process that ends with its input.
    pub(super) async fn finish_with_input(self) -> Result<(), GitError> {
        let Self { stdin, stdout, exit } = self;
        let ended = finish(stdout, exit).await;
        drop(stdin);
        ended
    }
}

async fn finish(mut stdout: ChildStdout, exit: Exit) -> Result<(), GitError> {
    // Read to its end, or a process with much to say would wait for ever.
    let (_, ended) =
        tokio::join!(async { tokio::io::copy(&mut stdout, &mut sink()).await }, exit.finish());
    ended
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
        tokio::spawn(self.look_after(Group::new(child), stderr, tell));
        Exit { what, outcome }
    }

    async fn look_after(
        self,
        mut group: Group,
        stderr: ChildStderr,
        mut tell: oneshot::Sender<Result<(), GitError>>,
    ) {
        let what = self.what;
        let ended = async { tokio::join!(group.wait(), tail(stderr)) };
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
struct Group {
    leader: Child,
    /// Its number, and the group's; nobody else gets it before the leader has been waited for.
    id: Option<Pid>,
}

impl Group {
    fn new(leader: Child) -> Self {
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader, id }
    }

    async fn end(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(GRACE, self.wait()).await.is_err() {
            self.kill().await;
        }
    }

    async fn kill(&mut self) {
        self.signal(Signal::KILL);
        // An error means it was reaped already.
        let _ = self.wait().await;
    }

    /// Waits for the leader. Whoever it leaves behind ends while the dead leader still has the
    /// number; if it dies between the look and the wait, right after.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let id = self.id;
        let status = {
            let mut reaped = pin!(self.leader.wait());
            poll_fn(|cx| {
                let dead = id.filter(|id| is_dead(*id));
                dead.inspect(|id| signal(*id, Signal::KILL));
                match reaped.as_mut().poll(cx) {
                    Poll::Ready(status) if dead.is_none() => {
                        id.inspect(|id| signal(*id, Signal::KILL));
                        Poll::Ready(status)
                    }
                    polled => polled,
                }
            })
            .await
        };
        self.id = None;
        status
    }

    /// A process that has been waited for has no number any more and gets no signal.
    fn signal(&self, which: Signal) {
        self.id.inspect(|id| signal(*id, which));
    }
}

fn signal(group: Pid, signal: Signal) {
    // It may be gone already.
    let _ = kill_process_group(group, signal);
}

/// Dead, and not yet waited for.
fn is_dead(id: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(id), look), Ok(Some(_)))
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
