//! What came of it, and where to look.

use super::project::Project;
use super::servers::Server;
use super::story::Story;
use crate::ops::look::print_line;
use crate::ops::print::{Sheet, Tone};
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

pub(super) fn print(
    servers: &[Server; 2],
    project: &Project,
    story: &Story,
    took: Duration,
    json: bool,
) -> Result<()> {
    let report = report(servers, project, story, took);
    if json {
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
    for place in &report.servers {
        sheet.heading(&format!("The {} server", place.name));
        sheet.pair("page", &place.page);
        sheet.pair("repository", &place.repository);
        sheet.pair("clone it", format!("git clone {}", place.clone));
    }
    Ok(sheet.print()?)
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
