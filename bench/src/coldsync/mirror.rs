//! A server that starts with nothing, and what it serves as time passes.

use super::projects::{Projects, path};
use crate::git::http::Question;
use crate::wire::{Socket, connect};
use crate::work::query::count_of;
use anyhow::{Result, ensure};
use grasp_testkit::{Repository, Server};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Often enough for the figures, seldom enough not to be one of the reasons for them.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When the last of each kind was served.
#[derive(Debug, Default)]
pub(super) struct Milestones {
    reached: Vec<(&'static str, Duration)>,
}

#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) server: &'a Server,
    pub(super) projects: &'a Projects,
    /// What another server answers to the first question of a clone, by project.
    pub(super) expected: &'a [Vec<u8>],
    pub(super) started: Instant,
    pub(super) patience: Duration,
}

impl Watch<'_> {
    /// Waits until everything is served and every repository could be cloned.
    pub(super) async fn until_complete(&self) -> Result<Milestones> {
        let mut milestones = Milestones::default();
        let mut socket = connect(&self.server.address).await?;
        let projects = self.projects.all.len();
        let mut kinds = vec![
            ("announcements", "{\"kinds\":[30617]}", projects),
            ("states", "{\"kinds\":[30618]}", projects),
            ("issues", "{\"kinds\":[1621]}", self.projects.issues.len()),
            ("replies", "{\"kinds\":[1111]}", self.projects.replies.len()),
        ];
        let mut whole = 0;
        loop {
            self.count(&mut socket, &mut kinds, &mut milestones).await?;
            if whole < projects {
                whole += self.whole_from(whole).await;
                if whole == projects {
                    milestones.reach("repositories", self.started.elapsed());
                }
            }
            if kinds.is_empty() && whole == projects {
                break;
            }
            let is_late = self.started.elapsed() > self.patience;
            ensure!(!is_late, "{whole} repositories are whole; incomplete: {kinds:?}");
            sleep(LOOK_EVERY).await;
        }
        let expected = self.projects.events().count();
        let has = count_of(&mut socket, "{}").await?;
        ensure!(has == expected, "{has} events are served instead of {expected}");
        Ok(milestones)
    }

    /// Looks at what was not complete.
    async fn count(
        &self,
        socket: &mut Socket,
        kinds: &mut Vec<(&'static str, &'static str, usize)>,
        milestones: &mut Milestones,
    ) -> Result<()> {
        for (name, filter, expected) in std::mem::take(kinds) {
            match count_of(socket, filter).await? == expected {
                true => milestones.reach(name, self.started.elapsed()),
                false => kinds.push((name, filter, expected)),
            }
        }
        Ok(())
    }

    /// How many repositories in a row are as they should be.
    async fn whole_from(&self, first: usize) -> usize {
        let rest = self.projects.all.iter().zip(self.expected).skip(first);
        let mut whole = 0;
        for (project, expected) in rest {
            // One that is not there yet is an error, too.
            match first_answer(&self.server.address, &project.repository).answer().await {
                Ok(answer) if answer == *expected => whole += 1,
                _ => break,
            }
        }
        whole
    }
}

impl Milestones {
    fn reach(&mut self, name: &'static str, after: Duration) {
        self.reached.push((name, after));
    }

    /// When the last of all was reached.
    pub(super) fn end(&self) -> Duration {
        self.reached.iter().map(|(_, after)| *after).max().unwrap_or_default()
    }

    pub(super) fn sentence(&self) -> String {
        let parts: Vec<String> = self
            .reached
            .iter()
            .map(|(name, after)| format!("{name} {:.1} s", after.as_secs_f64()))
            .collect();
        parts.join(", ")
    }
}

/// What a clone asks first: the answer is all refs and what HEAD names.
pub(super) fn first_answer(address: &str, of: &Repository) -> Arc<Question> {
    Question::get(address, &format!("{}/info/refs?service=git-upload-pack", path(of)), "")
}
