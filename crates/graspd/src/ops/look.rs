//! The commands that tell how things stand, and the one that asks for a comparison now. Each is one
//! question and one sheet, or the answer of the API as it is.

use crate::config::Config;
use crate::control::{SYNC, SyncRequest, SyncStarted};
use crate::ops::place::{self, Named};
use crate::ops::print::Sheet;
use crate::ops::progress::Progress;
use crate::ops::source::{Place, Source};
use crate::ops::{on_runtime, show};
use crate::report::{Page, Purgatory, Relays, Repo, Repos, Status};
use anyhow::{Context, Result, anyhow, bail};
use grasp_core::{EventId, RepoId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write as _;

/// What was asked, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub question: Question,
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    Status,
    Repo(String),
    Repos(Leaf),
    Relays(Leaf),
    Purgatory(Leaf),
    /// Everything, or one repository or event.
    Explain(Option<String>),
    /// Everything, or one repository or relay.
    SyncNow(Option<String>),
}

/// Which part of a long list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub after: Option<String>,
    pub limit: usize,
}

/// What is in the way of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    pub about: String,
    pub explain: String,
}

#[derive(Debug, Serialize)]
struct Explained {
    now: Time,
    obstacles: Vec<Obstacle>,
    /// There are more than these.
    more: bool,
}

/// Of everything that is in the way, this much is told.
const OBSTACLES_MAX: usize = 1_000;
const PAGE: usize = 200;

pub fn run(config: &Config, look: &Look) -> Result<()> {
    on_runtime(answer(config, look))
}

async fn answer(config: &Config, look: &Look) -> Result<()> {
    // What cannot be understood is said before anybody is asked.
    let task = Task::of(&look.question)?;
    if let Task::Sync(what) = &task {
        return sync_now(config, what, look.json).await;
    }
    let source = Source::open(config).await?;
    match task {
        Task::Show(shown) => shown.tell(&source, look.json).await,
        Task::Everything => everything(&source, look.json).await,
        Task::Sync(_) => Ok(()),
    }
}

enum Task {
    Show(Shown),
    Everything,
    Sync(SyncRequest),
}

/// One place of the API, and how it is laid out.
enum Shown {
    Status,
    Repo(RepoId),
    Repos(Page),
    Relays(Page),
    Purgatory(Page),
    RepoExplained(RepoId),
    Event(EventId),
}

impl Task {
    fn of(question: &Question) -> Result<Self> {
        let repository = |text: &str| place::repository(text).map_err(|why| anyhow!(why));
        Ok(match question {
            Question::Status => Self::Show(Shown::Status),
            Question::Repo(text) => Self::Show(Shown::Repo(repository(text)?)),
            Question::Repos(leaf) => Self::Show(Shown::Repos(leaf.page())),
            Question::Relays(leaf) => Self::Show(Shown::Relays(leaf.page())),
            Question::Purgatory(leaf) => Self::Show(Shown::Purgatory(leaf.page())),
            Question::Explain(None) => Self::Everything,
            Question::Explain(Some(text)) => {
                match place::subject(text).map_err(|why| anyhow!(why))? {
                    Named::Event(id) => Self::Show(Shown::Event(id)),
                    Named::Repository(repo) => Self::Show(Shown::RepoExplained(repo)),
                    Named::Relay(_) => bail!("`graspd relays` explains relays"),
                }
            }
            Question::SyncNow(None) => Self::Sync(SyncRequest::default()),
            Question::SyncNow(Some(text)) => {
                Self::Sync(match place::partner(text).map_err(|why| anyhow!(why))? {
                    Named::Relay(relay) => {
                        SyncRequest { relay: Some(relay.to_string()), ..Default::default() }
                    }
                    Named::Repository(repo) => {
                        SyncRequest { repository: Some(repo.to_string()), ..Default::default() }
                    }
                    Named::Event(_) => bail!("an event cannot be synced; name its repository"),
                })
            }
        })
    }
}

impl Leaf {
    fn page(&self) -> Page {
        Page { after: self.after.clone(), limit: self.limit }
    }
}

impl Shown {
    async fn tell(self, source: &Source, json: bool) -> Result<()> {
        match self {
            Self::Status => tell(source, &Place::Status, json, show::status).await.map(drop),
            Self::Repo(repo) => tell(source, &Place::Repo(repo), json, show::repo).await.map(drop),
            Self::RepoExplained(repo) => {
                let explain = |sheet: &mut Sheet, it: &Repo| show::obstacles(sheet, &it.explain);
                tell(source, &Place::Repo(repo), json, explain).await.map(drop)
            }
            Self::Event(id) => tell(source, &Place::Event(id), json, show::event).await.map(drop),
            Self::Repos(page) => {
                let it: Option<Repos> =
                    tell(source, &Place::Repos(page), json, show::repos).await?;
                read_on("repos", it.and_then(|it| it.next))
            }
            Self::Relays(page) => {
                let place = Place::Relays(page);
                let it: Option<Relays> = tell(source, &place, json, show::relays).await?;
                read_on("relays", it.and_then(|it| it.next))
            }
            Self::Purgatory(page) => {
                let place = Place::Purgatory(page);
                let it: Option<Purgatory> = tell(source, &place, json, show::purgatory).await?;
                read_on("purgatory", it.and_then(|it| it.next))
            }
        }
    }
}

/// What was told, where it was laid out for a person.
async fn tell<T: DeserializeOwned>(
    source: &Source,
    place: &Place,
    json: bool,
    lay_out: impl Fn(&mut Sheet, &T),
) -> Result<Option<T>> {
    let missing = || match place {
        Place::Repo(repo) => format!("there is no repository {} here", shown_id(repo)),
        Place::Event(id) => format!("nothing is known of event {id} here"),
        _ => "the running server does not tell that; is it an older one?".to_owned(),
    };
    if json {
        print_line(&source.json(place).await?.with_context(missing)?)?;
        return Ok(None);
    }
    let shape: T = source.ask(place).await?.with_context(missing)?;
    let mut sheet = Sheet::for_stdout();
    lay_out(&mut sheet, &shape);
    sheet.print()?;
    Ok(Some(shape))
}

fn shown_id(repo: &RepoId) -> String {
    crate::report::text::shown(&repo.to_string(), crate::report::text::WORDS_MAX)
}

fn read_on(command: &str, next: Option<String>) -> Result<()> {
    if let Some(next) = next {
        let next = crate::report::text::shown(&next, crate::report::text::WORDS_MAX);
        eprintln!("there is more: graspd {command} --after '{next}'");
    }
    Ok(())
}

async fn everything(source: &Source, json: bool) -> Result<()> {
    let status: Status = source.ask(&Place::Status).await?.context("the server tells nothing")?;
    let about = |explain: &String| Obstacle { about: "server".into(), explain: explain.clone() };
    let mut found: Vec<Obstacle> = status.problems.iter().map(about).collect();
    relays_in_trouble(source, &mut found).await?;
    let bar = Progress::of(status.totals.announcements, "repositories");
    let more = held(source, &mut found).await? | repositories(source, &bar, &mut found).await?;
    bar.finish();
    let more = more || found.len() > OBSTACLES_MAX;
    found.truncate(OBSTACLES_MAX);
    if json {
        let it = Explained { now: status.now, obstacles: found, more };
        return print_line(&serde_json::to_string(&it)?);
    }
    let mut sheet = Sheet::for_stdout();
    let sentences: Vec<String> =
        found.iter().map(|it| format!("{}: {}", it.about, it.explain)).collect();
    show::obstacles(&mut sheet, &sentences);
    if more {
        sheet.line("and more");
    }
    Ok(sheet.print()?)
}

async fn relays_in_trouble(source: &Source, found: &mut Vec<Obstacle>) -> Result<()> {
    let mut after = None;
    loop {
        let place = Place::Relays(Page { after, limit: PAGE });
        // A server that does not sync has none.
        let Ok(Some(it)) = source.ask::<Relays>(&place).await else { return Ok(()) };
        let in_trouble = it.relays.into_iter().filter(|it| !it.connected || it.health != "healthy");
        found.extend(in_trouble.map(|it| Obstacle { about: it.relay, explain: it.explain }));
        after = it.next;
        if after.is_none() || found.len() > OBSTACLES_MAX {
            return Ok(());
        }
    }
}

/// True if there is more.
async fn held(source: &Source, found: &mut Vec<Obstacle>) -> Result<bool> {
    let mut after = None;
    loop {
        let place = Place::Purgatory(Page { after, limit: PAGE });
        let Some(it) = source.ask::<Purgatory>(&place).await? else { return Ok(false) };
        found.extend(it.held.into_iter().map(|it| Obstacle {
            about: it.repositories.into_iter().next().unwrap_or_else(|| it.id.to_hex()),
            explain: it.explain,
        }));
        after = it.next;
        if after.is_none() || found.len() > OBSTACLES_MAX {
            return Ok(after.is_some());
        }
    }
}

/// Only those are looked into of which somebody lacks something: of others a report says nothing that
/// was not told with what waits.
async fn repositories(source: &Source, bar: &Progress, found: &mut Vec<Obstacle>) -> Result<bool> {
    let mut after = None;
    loop {
        let place = Place::Repos(Page { after, limit: PAGE });
        let Some(it) = source.ask::<Repos>(&place).await? else { return Ok(false) };
        for line in it.repositories {
            bar.advance(1);
            let lacking = line.ledger.we_lack + line.ledger.they_lack;
            let name = format!("{}/{}", line.npub, line.identifier);
            if lacking == 0 || found.len() > OBSTACLES_MAX {
                continue;
            }
            let Ok(repo) = place::repository(&name) else { continue };
            let Some(repo) = source.ask::<Repo>(&Place::Repo(repo)).await? else { continue };
            let about = |explain| Obstacle { about: name.clone(), explain };
            let told = |one: &Obstacle, found: &[Obstacle]| found.contains(one);
            for one in repo.explain.into_iter().map(about) {
                if !told(&one, found) {
                    found.push(one);
                }
            }
        }
        after = it.next;
        if after.is_none() || found.len() > OBSTACLES_MAX {
            return Ok(after.is_some());
        }
    }
}

async fn sync_now(config: &Config, what: &SyncRequest, json: bool) -> Result<()> {
    let client = crate::ops::client::Client::find(&config.relay_data_path).await?;
    let client = client.with_context(|| {
        format!(
            "no server runs on {}; it compares itself with others as soon as it is started",
            config.relay_data_path.display()
        )
    })?;
    let answer = client.post(SYNC, serde_json::to_string(what)?).await?;
    if json {
        return print_line(&String::from_utf8_lossy(&answer));
    }
    let started: SyncStarted = serde_json::from_slice(&answer)?;
    match started.relays {
        0 => print_line("nobody is to be asked about that"),
        1 => print_line("one relay is asked; `graspd relays` tells how it goes"),
        more => print_line(&format!("{more} relays are asked; `graspd relays` tells how it goes")),
    }
}

pub(crate) fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}
