//! The commands that tell how things stand, and the one that asks for a comparison now. Each is one
//! question and one sheet, or the answer of the API as it is.

use crate::config::Config;
use crate::ops::find::{find_repository, missing};
use crate::ops::place::{self, Named, RepositoryName};
use crate::ops::print::Sheet;
use crate::ops::progress::Progress;
use crate::ops::source::{Place, Source};
use crate::ops::sync_now::{self, SyncWish};
use crate::ops::terminal::{print_line, print_note};
use crate::ops::{on_runtime, show};
use crate::report::{
    LongList, Page, ProblemKind, ProblemReport, Purgatory, Relays, Repo, Repos, Status,
};
use anyhow::{Context, Result, anyhow, bail};
use grasp_core::{EventId, RepoId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::process::ExitCode;

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
    SyncNow {
        what: Option<String>,
        /// Until it is done, not only until it is started.
        waits: bool,
    },
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

pub fn run(config: &Config, look: &Look) -> Result<ExitCode> {
    on_runtime(answer(config, look))
}

async fn answer(config: &Config, look: &Look) -> Result<ExitCode> {
    // What cannot be understood is said before anybody is asked.
    let task = Task::of(&look.question)?;
    if let Task::Sync { what, waits } = task {
        let wish = SyncWish { what, waits, json: look.json };
        return sync_now::run(config, &wish).await;
    }
    let source = Source::open(config).await?;
    match task {
        Task::Show(shown) => shown.tell(&source, look.json).await?,
        Task::Repository(name, is_explained) => {
            let repo = find_repository(&source, config, &name).await?;
            repository(&source, &repo, is_explained, look.json).await?;
        }
        Task::Everything => everything(&source, look.json).await?,
        Task::Sync { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

enum Task {
    Show(Shown),
    /// All about it, or what is in its way.
    Repository(RepositoryName, bool),
    Everything,
    Sync {
        what: Option<Named>,
        waits: bool,
    },
}

/// One place of the API, and how it is laid out.
enum Shown {
    Status,
    Repos(Page),
    Relays(Page),
    Purgatory(Page),
    Event(EventId),
}

impl Task {
    fn of(question: &Question) -> Result<Self> {
        let wrong = |why: String| anyhow!(why);
        Ok(match question {
            Question::Status => Self::Show(Shown::Status),
            Question::Repo(text) => {
                Self::Repository(place::repository_name(text).map_err(wrong)?, false)
            }
            Question::Repos(leaf) => Self::Show(Shown::Repos(leaf.page(LongList::Repos)?)),
            Question::Relays(leaf) => Self::Show(Shown::Relays(leaf.page(LongList::Relays)?)),
            Question::Purgatory(leaf) => {
                Self::Show(Shown::Purgatory(leaf.page(LongList::Purgatory)?))
            }
            Question::Explain(None) => Self::Everything,
            Question::Explain(Some(text)) => match place::subject(text).map_err(wrong)? {
                Named::Event(id) => Self::Show(Shown::Event(id)),
                Named::Repository(name) => Self::Repository(name, true),
                Named::Relay(_) => bail!("`graspd relays` explains relays"),
            },
            Question::SyncNow { what, waits } => {
                let what = what.as_deref().map(place::partner).transpose().map_err(wrong)?;
                Self::Sync { what, waits: *waits }
            }
        })
    }
}

impl Leaf {
    fn page(&self, list: LongList) -> Result<Page> {
        let page = Page { after: self.after.clone(), limit: self.limit };
        list.check(&page).map_err(|why| anyhow!("--{why}"))?;
        Ok(page)
    }
}

impl Shown {
    async fn tell(self, source: &Source, json: bool) -> Result<()> {
        match self {
            Self::Status => tell(source, &Place::Status, json, show::status).await.map(drop),
            Self::Event(id) => tell(source, &Place::Event(id), json, show::event).await.map(drop),
            Self::Repos(page) => {
                let it: Option<Repos> =
                    tell(source, &Place::Repos(page), json, show::repos).await?;
                read_on("repos", it.and_then(|it| it.next))
            }
            Self::Relays(page) => {
                let place = Place::Relays(page.clone());
                let why_none = why_no_relays(source, &page).await?;
                let lay_out = |sheet: &mut Sheet, it: &Relays| show::relays(sheet, it, &why_none);
                let it: Option<Relays> = tell(source, &place, json, lay_out).await?;
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

async fn repository(source: &Source, repo: &RepoId, is_explained: bool, json: bool) -> Result<()> {
    let place = Place::Repo(repo.clone());
    if source.json(&place).await?.is_none() {
        bail!("{}", missing(source, repo).await?);
    }
    let explain = |sheet: &mut Sheet, it: &Repo| show::obstacles(sheet, &it.explain);
    match is_explained {
        true => tell(source, &place, json, explain).await.map(drop),
        false => tell(source, &place, json, show::repo).await.map(drop),
    }
}

/// What an empty list of relays means, which differs from case to case.
async fn why_no_relays(source: &Source, page: &Page) -> Result<String> {
    let Source::Running(_) = source else {
        return Ok(
            "no server runs here, so it is linked to no relay now; `graspd serve` starts it"
                .to_owned(),
        );
    };
    if let Some(after) = &page.after {
        return Ok(format!("no relay comes after {after} in the list"));
    }
    let status = source.ask::<Status>(&Place::Status).await?;
    Ok(match status.is_some_and(|it| it.server.syncs) {
        true => "no relays are followed: no announcement here names another server",
        false => "no relays are followed: this server does not sync (NGIT_SYNC_ENABLED=false)",
    }
    .to_owned())
}

/// What was told, where it was laid out for a person.
async fn tell<T: DeserializeOwned>(
    source: &Source,
    place: &Place,
    json: bool,
    lay_out: impl Fn(&mut Sheet, &T),
) -> Result<Option<T>> {
    let missing = || match place {
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

fn read_on(command: &str, next: Option<String>) -> Result<()> {
    if let Some(next) = next {
        let next = crate::report::text::shown(&next, crate::report::text::WORDS_MAX);
        print_note(&format!("there is more: graspd {command} --after '{next}'"));
    }
    Ok(())
}

async fn everything(source: &Source, json: bool) -> Result<()> {
    let status: Status = source.ask(&Place::Status).await?.context("the server tells nothing")?;
    let about = |it: &ProblemReport| Obstacle { about: "server".into(), explain: it.sentence() };
    // Relays and mirrors come one by one below.
    let details = status.problem_details.iter().filter(|it| !is_told_apart(&it.code));
    let mut found: Vec<Obstacle> = details.map(about).collect();
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
    sheet.print()
}

/// Problems that `explain` tells of at the relay or the repository they are about.
fn is_told_apart(code: &str) -> bool {
    let kinds = [
        ProblemKind::RelayDead,
        ProblemKind::RelayUnreachable,
        ProblemKind::RelayBanned,
        ProblemKind::RelayPaused,
        ProblemKind::RelayRefused,
        ProblemKind::MirrorLacks,
        ProblemKind::WeLack,
        ProblemKind::FetchStuck,
    ];
    kinds.iter().any(|kind| kind.code() == code)
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
