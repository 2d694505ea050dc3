//! `graspd sync now`: has the running server compare itself with others, and waits until it is done.

use crate::cli::FAILED;
use crate::config::Config;
use crate::control::{SYNC, SYNC_PROGRESS, SyncProgress, SyncRequest, SyncStarted};
use crate::ops::client::Client;
use crate::ops::find::find_repository;
use crate::ops::place::{Named, RepositoryName};
use crate::ops::print::Sheet;
use crate::ops::progress::Progress;
use crate::ops::source::Source;
use crate::ops::terminal::print_line;
use anyhow::{Context, Result, anyhow, bail};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What the operator wants to have compared.
#[derive(Debug, Clone)]
pub(super) struct SyncWish {
    /// Everything, if nothing is named.
    pub(super) what: Option<Named>,
    /// Until it is done, not only until it is started.
    pub(super) waits: bool,
    pub(super) json: bool,
}

/// A large server with slow peers may take longer; it goes on by itself then.
const WAIT_MAX: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Relays named in a sentence.
const NAMED_MAX: usize = 5;

pub(super) async fn run(config: &Config, wish: &SyncWish) -> Result<ExitCode> {
    let client = Client::find(&config.relay_data_path).await?;
    let client = client.with_context(|| {
        format!(
            "no server runs on {}; it compares itself with others as soon as it is started",
            config.relay_data_path.display()
        )
    })?;
    let request = serde_json::to_string(&request(config, &client, wish).await?)?;
    let answer = client.post(SYNC, request.clone()).await?;
    let started: SyncStarted = serde_json::from_slice(&answer)?;
    if !wish.waits {
        return print_started(&answer, &started, wish.json);
    }
    let (progress, is_over) = wait(&client, &request, &started).await?;
    print_progress(&progress, is_over, wish.json)?;
    let is_well = is_over && progress.failed.is_empty();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn request(config: &Config, client: &Client, wish: &SyncWish) -> Result<SyncRequest> {
    Ok(match &wish.what {
        None => SyncRequest::default(),
        Some(Named::Relay(relay)) => {
            SyncRequest { relay: Some(relay.to_string()), ..SyncRequest::default() }
        }
        Some(Named::Repository(name)) => {
            let source = Source::Running(client.clone());
            let found = find_repository(&source, config, name).await;
            let repo = found.map_err(|error| match name {
                RepositoryName::Identifier(_) => {
                    anyhow!("{error:#}, a relay by its URL (wss://...)")
                }
                _ => error,
            })?;
            SyncRequest { repository: Some(repo.to_string()), ..SyncRequest::default() }
        }
        Some(Named::Event(_)) => bail!("an event cannot be synced; name its repository"),
    })
}

/// How far it came, and whether that is the end of it.
async fn wait(
    client: &Client,
    request: &str,
    started: &SyncStarted,
) -> Result<(SyncProgress, bool)> {
    let until = Instant::now() + WAIT_MAX;
    let bar = Progress::of(started.relays as u64, "relays compared");
    loop {
        let answer = client.post(SYNC_PROGRESS, request.to_owned()).await?;
        let progress: SyncProgress = serde_json::from_slice(&answer)?;
        bar.at((progress.done + progress.failed.len()) as u64);
        if let Some(next) = progress.under_way.first() {
            bar.say(&next.relay);
        }
        let is_over = progress.under_way.is_empty();
        if is_over || Instant::now() >= until {
            bar.finish();
            return Ok((progress, is_over));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn print_started(answer: &[u8], started: &SyncStarted, json: bool) -> Result<ExitCode> {
    print_line(&match (json, started.relays) {
        (true, _) => String::from_utf8_lossy(answer).into_owned(),
        (_, 0) => NOBODY.to_owned(),
        (_, 1) => "one relay is asked; `graspd relays` tells how it goes".to_owned(),
        (_, more) => format!("{more} relays are asked; `graspd relays` tells how it goes"),
    })?;
    Ok(ExitCode::SUCCESS)
}

const NOBODY: &str = "no relay is to be asked about that";

fn print_progress(progress: &SyncProgress, is_over: bool, json: bool) -> Result<()> {
    if json {
        return print_line(&serde_json::to_string(progress)?);
    }
    let mut sheet = Sheet::for_stdout();
    lay_out(&mut sheet, progress, is_over);
    sheet.print()
}

fn lay_out(sheet: &mut Sheet, progress: &SyncProgress, is_over: bool) {
    let SyncProgress { relays, done, failed, under_way } = progress;
    sheet.line(&match (relays, done) {
        (0, _) => NOBODY.to_owned(),
        (1, 1) => "one relay was asked and compared".to_owned(),
        (relays, done) if relays == done => format!("{relays} relays were asked and compared"),
        (relays, done) => format!("{done} of {relays} relays were asked and compared"),
    });
    for it in failed {
        sheet.item(&format!("{} {}", it.relay, it.why));
    }
    if is_over {
        return;
    }
    let minutes = WAIT_MAX.as_secs() / 60;
    sheet.line(&format!(
        "not done after {minutes} minutes: the server goes on with {} relays by itself, and `graspd \
         relays` tells how it goes",
        under_way.len()
    ));
    for it in under_way.iter().take(NAMED_MAX) {
        sheet.item(&format!("{}: {}", it.relay, it.why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::RelayNote;

    fn told(progress: &SyncProgress, is_over: bool) -> String {
        let mut sheet = Sheet::plain();
        lay_out(&mut sheet, progress, is_over);
        sheet.into_text()
    }

    fn note(relay: &str, why: &str) -> Vec<RelayNote> {
        vec![RelayNote { relay: relay.into(), why: why.into() }]
    }

    #[test]
    fn the_end_of_a_sync_says_what_was_done_and_what_was_not() {
        let done = SyncProgress { relays: 3, done: 3, ..SyncProgress::default() };
        assert_eq!(told(&done, true), "3 relays were asked and compared\n");
        assert_eq!(told(&SyncProgress::default(), true), format!("{NOBODY}\n"));
        let failed = note("wss://a.example", "cannot be reached; tried again at 14:05 UTC");
        let partly = SyncProgress { relays: 3, done: 2, failed, ..SyncProgress::default() };
        assert_eq!(
            told(&partly, true),
            "2 of 3 relays were asked and compared\n\
             - wss://a.example cannot be reached; tried again at 14:05 UTC\n"
        );
    }

    #[test]
    fn a_sync_that_takes_too_long_says_that_it_goes_on() {
        let under_way = note("wss://b.example", "7 questions are left, or a comparison");
        let late = SyncProgress { relays: 1, under_way, ..SyncProgress::default() };
        let text = told(&late, false);
        assert!(text.contains("not done after 5 minutes: the server goes on with 1 relays"));
        assert!(text.contains("- wss://b.example: 7 questions are left"), "{text}");
    }
}
