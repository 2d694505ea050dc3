//! What came of it, and where to look.

use super::project::Project;
use super::servers::Server;
use super::story::Story;
use crate::ops::print::{Sheet, Tone};
use crate::ops::terminal::print_line;
use crate::report::Verdict;
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Report {
    agreed: bool,
    seconds: f64,
    repository: String,
    servers: Vec<Place>,
    verdicts: Vec<Said>,
}

#[derive(Serialize)]
struct Place {
    name: &'static str,
    page: String,
    relay: String,
    repository: String,
    clone: String,
}

/// What one says of the other.
#[derive(Serialize)]
struct Said {
    server: &'static str,
    peer: String,
    verdict: Option<Verdict>,
    because: String,
}

/// How the demonstration is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Telling {
    pub(super) took: Duration,
    pub(super) json: bool,
    /// The servers keep running, so that commands can be tried.
    pub(super) keeps_running: bool,
}

pub(super) fn print(
    servers: &[Server; 2],
    project: &Project,
    story: &Story,
    telling: Telling,
) -> Result<()> {
    let report = report(servers, project, story, telling.took);
    if telling.json {
        return print_line(&serde_json::to_string(&report)?);
    }
    let mut sheet = Sheet::for_stdout();
    sheet.heading(&report.repository);
    for said in &report.verdicts {
        let words = match said.verdict {
            Some(Verdict::Equal) => "equal".to_owned(),
            Some(_) => said.because.clone(),
            None => "not compared yet".to_owned(),
        };
        sheet.pair(&format!("{} says", said.server), format!("{}: {words}", said.peer));
    }
    match report.agreed {
        true => sheet.toned_line(&format!("Both agree after {:.1} s.", report.seconds), Tone::Good),
        false => sheet
            .toned_line(&format!("They do not agree. It waits: {}.", story.waits_for()), Tone::Bad),
    }
    for (place, server) in report.servers.iter().zip(servers) {
        sheet.heading(&format!("The {} server", place.name));
        sheet.pair("page", &place.page);
        sheet.pair("repository", &place.repository);
        if telling.keeps_running {
            sheet.line("Try in another terminal:");
            commands(server, project).iter().for_each(|command| sheet.command(command));
        }
    }
    sheet.print()
}

/// Each works as it is printed, from any directory.
fn commands(server: &Server, project: &Project) -> [String; 3] {
    let name = server.name;
    [
        format!("git clone {} hello-from-{name}", server.clone_url(&project.repo)),
        server.command("status"),
        server.command(&format!("repo {}", project.repo.identifier)),
    ]
}

fn report(servers: &[Server; 2], project: &Project, story: &Story, took: Duration) -> Report {
    let place = |server: &Server| Place {
        name: server.name,
        page: format!("http://{}/", server.address),
        relay: server.relay(),
        repository: server.clone_url(&project.repo),
        clone: server.clone_url(&project.repo),
    };
    let peers = servers.iter().zip(servers.iter().rev()).zip(&story.verdicts);
    let said = |((server, peer), verdict): ((&Server, &Server), &Option<(Verdict, String)>)| Said {
        server: server.name,
        peer: peer.address.clone(),
        verdict: verdict.as_ref().map(|(verdict, _)| *verdict),
        because: verdict.as_ref().map(|(_, because)| because.clone()).unwrap_or_default(),
    };
    Report {
        agreed: story.is_over(),
        seconds: took.as_secs_f64(),
        repository: project.repo.to_string(),
        servers: servers.iter().map(place).collect(),
        verdicts: peers.map(said).collect(),
    }
}
