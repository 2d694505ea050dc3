//! A server under load that loses its power again and again, and is looked over afterwards.

mod check;
mod disk;
mod line;
mod project;

use crate::common::hosted::DOMAIN;
use check::Inspector;
use grasp_testkit::{Git, Home, Random, Server};
use line::{Line, Power};
use project::Project;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;

#[derive(Debug)]
pub(crate) struct Ordeal {
    pub(crate) server: Server,
    git_root: PathBuf,
    projects: Vec<Project>,
    random: Random,
    round: usize,
    seed: u64,
}

/// A lasting name, so that announcements outlive a port.
pub(crate) const SETTINGS: [(&str, &str); 1] = [("NGIT_DOMAIN_ALIASES", DOMAIN)];
/// Things done in one round before the power may fail.
const ACTS_MAX: usize = 4;
/// About as long as the slowest of them takes.
const MOMENT: Duration = Duration::from_millis(80);

impl Ordeal {
    /// Three projects: of one owner, of two, and of one who is joined by another on the way.
    pub(crate) async fn begins(home: Home, git_root: PathBuf, seed: u64) -> Self {
        eprintln!("seed {seed}");
        let gits = Git::all();
        let (old, new) = (&gits[0], &gits[gits.len() - 1]);
        let server = home.serve().await;
        let mut projects = vec![
            Project::new(0, 1, old).await,
            Project::new(1, 2, new).await,
            Project::new(2, 2, new).await,
        ];
        let mut line = Line::open(&server.address, &Power::default()).await.expect("a line");
        for (project, members) in projects.iter_mut().zip([1, 2, 1]) {
            project.announces(&mut line, members).await.expect("an answer");
        }
        Self { server, git_root, projects, random: Random::seeded(seed), round: 0, seed }
    }

    pub(crate) fn pushes(&self) -> usize {
        self.projects.iter().map(|it| it.pushes).sum()
    }

    /// Everybody works until `blow` has hit the server, which is then started again.
    pub(crate) async fn suffers(&mut self, blow: impl AsyncFnOnce(&mut Server)) {
        self.round += 1;
        let power = Power::default();
        let (tell, mut told) = unbounded_channel();
        let mut at_work = Vec::new();
        for project in self.projects.drain(..) {
            let random = Random::seeded(self.random.next_u64());
            let (address, power) = (self.server.address.clone(), power.clone());
            at_work.push(tokio::spawn(project.works(address, power, random, tell.clone())));
        }
        drop(tell);
        for _ in 0..self.random.index(ACTS_MAX) {
            if told.recv().await.is_none() {
                break; // Somebody's complaint is on its way.
            }
        }
        let moment = u64::try_from(MOMENT.as_micros()).unwrap_or(0);
        tokio::time::sleep(Duration::from_micros(self.random.below(moment))).await;
        power.fails();
        blow(&mut self.server).await;
        for project in at_work {
            self.projects.push(project.await.expect("nobody has a complaint"));
        }
        self.server.restart().await;
    }

    pub(crate) async fn is_looked_over(&self, thorough: bool) {
        let when = format!("seed {}, round {}", self.seed, self.round);
        let git_root = self.git_root.clone();
        let inspector = Inspector { server: &self.server, git_root, when, thorough };
        inspector.inspects(&self.projects).await;
    }

    /// What it was all about, in one line.
    pub(crate) fn tells(&self) -> String {
        let states = self.projects.iter().map(|it| it.states.len()).sum::<usize>();
        let cut = self.projects.iter().map(|it| it.cut).sum::<usize>();
        let requests = self.projects.iter().map(|it| it.requests.len()).sum::<usize>();
        let deletions = self.projects.iter().map(|it| it.deletions.len()).sum::<usize>();
        format!(
            "{} rounds, {} pushes, {cut} of them cut, {states} states, {requests} pull requests, {deletions} \
             deletions, {} owners",
            self.round,
            self.pushes(),
            self.projects.iter().map(|it| it.joined).sum::<usize>()
        )
    }
}
