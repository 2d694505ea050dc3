//! One repository: its refs and the state they follow, who signed it, what waits, how its mirrors
//! stand, and one sentence for each thing in the way.

use super::held::{Draft, Hunts, Shaper};
use super::shapes::{Mirror, Ref, Repo, Verdict};
use super::sight::Sight;
use super::text::{self, DESCRIPTION_MAX, WORDS_MAX, shown};
use super::threads::threads;
use crate::ingest::{About, Hosted, Waiting, about};
use crate::ledger::LedgerView;
use crate::repos::Shown;
use crate::sync::served;
use grasp_core::nip34::State;
use grasp_core::service::percent_encoded;
use grasp_core::{RefName, RepoId};
use grasp_store::{Result, Snapshot};

const REFS_SHOWN_MAX: usize = 1_000;
/// Git's own bound for names is longer than anybody reads.
const NAME_MAX: usize = 1_000;
const WEB_SHOWN_MAX: usize = 10;
const PEOPLE_SHOWN_MAX: usize = 100;

/// All but what the hunt says of what waits.
#[derive(Debug)]
pub(super) struct Read {
    repo: Repo,
    waiting: Vec<Waiting>,
}

impl Draft for Read {
    type Told = Repo;

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    fn told(mut self, shaper: &Shaper<'_>) -> Repo {
        self.repo.held = shaper.all_held(&self.waiting);
        let sentences = self.repo.held.iter().map(|it| it.explain.clone());
        self.repo.explain = sentences.chain(self.repo.explain).collect();
        self.repo
    }
}

impl Sight<'_> {
    /// `None` if it is not hosted here, nor about to be.
    pub(super) fn repo(&self, repo: &RepoId) -> Result<Option<Read>> {
        let snapshot = self.store.read()?;
        let Some(it) = about(&*snapshot, self.rules, self.repos, repo)? else { return Ok(None) };
        let mut waiting = self.hall(&*snapshot).about(repo, &it.people)?;
        waiting.iter_mut().for_each(|it| it.shift_to_wall(self.offset));
        let repo = self.shaped(&*snapshot, repo, &it)?;
        Ok(Some(Read { repo, waiting }))
    }

    fn shaped(&self, store: &dyn Snapshot, repo: &RepoId, it: &About) -> Result<Repo> {
        let (service, now) = (&self.rules.service, self.now);
        let server = self.server((0, 0));
        let (npub, identifier) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
        let hint = if service.is_bare_address() { "ws://" } else { "" };
        let hint = percent_encoded(&format!("{hint}{}", service.address()));
        let shown_refs = it.shown.as_ref().ok();
        let (refs, refs_total) = refs(shown_refs.map(AsRef::as_ref), it.state.as_ref());
        let (events, fingerprint) = served(self.store, self.rules, repo, now)?;
        let hunts = Hunts::default();
        let shaper = self.shaper(&hunts);
        let age_max = self.identity.verdict_age_max;
        let view = LedgerView { store, service, now, age_max };
        let mirrors = view.mirrors(&it.announcement, repo)?;
        let web = it.announced.event.tags_named("web").flat_map(|tag| tag.values());
        let mut explain = self.own_obstacles(it);
        let lacks = |it: &&Mirror| matches!(it.verdict, Verdict::WeLack | Verdict::TheyLack);
        let lacking = mirrors.iter().filter(lacks);
        explain.extend(lacking.map(|it| format!("{}: {}", it.place, it.because)));
        Ok(Repo {
            now,
            npub: npub.clone(),
            identifier: repo.identifier.to_string(),
            standing: standing(it.rest).into(),
            name: name(it, repo),
            description: shown(
                it.announcement.description.as_deref().unwrap_or(""),
                DESCRIPTION_MAX,
            ),
            web: web.take(WEB_SHOWN_MAX).map(|url| shown(url, WORDS_MAX)).collect(),
            maintainers: it.people.iter().take(PEOPLE_SHOWN_MAX).map(|it| it.to_npub()).collect(),
            clone: format!("{}/{npub}/{identifier}.git", server.clone),
            nostr: format!("nostr://{npub}/{hint}/{identifier}"),
            announcement: shaper.origin(&it.announced),
            state: it.state.as_ref().map(|(found, _)| shaper.origin(found)),
            head: shown_refs
                .and_then(|it| it.refs.head.as_ref())
                .map(|name| shown(name.as_str(), NAME_MAX)),
            refs,
            refs_total,
            events,
            fingerprint: fingerprint.to_string(),
            objects_missing: it.missing,
            threads: threads(store, repo, &it.people, now.timestamp())?,
            held: Vec::new(),
            mirrors,
            explain,
        })
    }

    /// What is in the way here, whatever others have.
    fn own_obstacles(&self, it: &About) -> Vec<String> {
        let mut found = Vec::new();
        match (&it.shown, &it.state) {
            (Err(error), _) => {
                tracing::warn!(%error, "a repository cannot be read");
                found.push("this repository cannot be read from the disk; see the log".to_owned());
            }
            (Ok(shown), Some((signed, state))) if it.rest == Hosted::Served => {
                let differs = shown.governed() != state.refs;
                let id = signed.event.id.to_string();
                let id = id.get(..12).unwrap_or(&id);
                found.extend(differs.then(|| {
                    format!("refs are not yet where state {id}… says; they are brought in line")
                }));
            }
            _ => {}
        }
        found
    }
}

const fn standing(rest: Hosted) -> &'static str {
    match rest {
        Hosted::Served => "served",
        Hosted::Held => "held",
        Hosted::Asleep => "asleep",
    }
}

fn name(it: &About, repo: &RepoId) -> String {
    let name = it.announcement.name.as_deref().map(|name| shown(name, WORDS_MAX));
    let name = name.filter(|name| !name.is_empty());
    name.unwrap_or_else(|| shown(repo.identifier.as_str(), WORDS_MAX))
}

fn refs<T>(shown: Option<&Shown>, state: Option<&(T, State)>) -> (Vec<Ref>, usize) {
    let Some(shown) = shown else { return (Vec::new(), 0) };
    let signed = |name: &RefName| state.and_then(|(_, state)| state.refs.get(name));
    let all = shown.refs.governed.iter();
    let refs = all.take(REFS_SHOWN_MAX).map(|(name, entry)| Ref {
        name: text::shown(name.as_str(), NAME_MAX),
        oid: entry.oid,
        signed: signed(name) == Some(&entry.oid),
    });
    (refs.collect(), shown.refs.governed.len())
}
