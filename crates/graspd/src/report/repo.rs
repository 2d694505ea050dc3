//! One repository: its refs and the state they follow, who signed it, what waits, how its mirrors
//! stand, and one sentence for each thing in the way.

use super::held::origin;
use super::shapes::{Ref, Repo, Verdict};
use super::sight::Sight;
use super::text::{DESCRIPTION_MAX, WORDS_MAX, shown};
use super::threads::threads;
use crate::ingest::{About, Hosted, about};
use crate::ledger::{self, Fingerprint};
use crate::repos::Shown;
use grasp_core::nip34::State;
use grasp_core::service::percent_encoded;
use grasp_core::{Filter, RefName, RepoId, Time};
use grasp_store::{Budget, Cursor, Hit, Result, Snapshot, Space, Want};

const REFS_SHOWN_MAX: usize = 1_000;
const WEB_SHOWN_MAX: usize = 10;
const PEOPLE_SHOWN_MAX: usize = 100;
/// Events counted; a repository with more shows a lower bound.
const COUNTED: Budget = Budget { steps: 100_000, bytes: usize::MAX };

impl Sight<'_> {
    /// `None` if it is not hosted here, nor about to be.
    pub fn repo(&self, repo: &RepoId) -> Result<Option<Repo>> {
        let snapshot = self.store.read()?;
        let Some(it) = about(&*snapshot, self.rules, self.repos, repo)? else { return Ok(None) };
        self.shaped(&*snapshot, repo, &it).map(Some)
    }

    fn shaped(&self, store: &dyn Snapshot, repo: &RepoId, it: &About) -> Result<Repo> {
        let (service, now) = (&self.rules.service, self.now);
        let server = self.server((0, 0));
        let (npub, identifier) = (repo.owner.to_npub(), repo.identifier.percent_encoded());
        let hint = if service.is_bare_address() { "ws://" } else { "" };
        let hint = percent_encoded(&format!("{hint}{}", service.address()));
        let shown_refs = it.shown.as_ref().ok();
        let (refs, refs_total) = refs(shown_refs.map(AsRef::as_ref), it.state.as_ref());
        let (events, fingerprint) = summed_up(store, repo, now)?;
        let waiting = self.hall(store).about(repo, &it.people)?;
        let held: Vec<_> = waiting.iter().map(|it| self.held(it)).collect();
        let age_max = self.identity.verdict_age_max;
        let mirrors = ledger::mirrors(store, service, &it.announcement, repo, now, age_max)?;
        let web = it.announced.event.tags_named("web").flat_map(|tag| tag.values());
        let mut explain: Vec<String> = held.iter().map(|it| it.explain.clone()).collect();
        explain.extend(self.own_obstacles(it));
        let lacked = mirrors.iter().filter(|it| it.verdict == Verdict::WeLack);
        explain.extend(lacked.map(|it| format!("{}: {}", it.place, it.because)));
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
            announcement: origin(&it.announced),
            state: it.state.as_ref().map(|(found, _)| origin(found)),
            head: shown_refs.and_then(|it| it.refs.head.as_ref()).map(RefName::to_string),
            refs,
            refs_total,
            events,
            fingerprint,
            objects_missing: it.missing,
            threads: threads(store, repo, &it.people, now.timestamp())?,
            held,
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

/// Events that name it and are served here: how many, and their ids summed up.
fn summed_up(store: &dyn Snapshot, repo: &RepoId, now: Time) -> Result<(u64, String)> {
    let mut filter = Filter::default();
    filter.tags.insert(b'a', vec![repo.coordinate().to_string()]);
    let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, now.timestamp());
    let (mut count, mut sum) = (0, Fingerprint::default());
    let mut sink = |hit: Hit<'_>| {
        count += 1;
        sum.add(&hit.position.id());
    };
    store.advance(Space::Served, &mut cursor, &mut { COUNTED }, &mut sink)?;
    Ok((count, sum.to_string()))
}

fn refs<T>(shown: Option<&Shown>, state: Option<&(T, State)>) -> (Vec<Ref>, usize) {
    let Some(shown) = shown else { return (Vec::new(), 0) };
    let signed = |name: &RefName| state.and_then(|(_, state)| state.refs.get(name));
    let all = shown.refs.governed.iter();
    let refs = all.take(REFS_SHOWN_MAX).map(|(name, entry)| Ref {
        name: name.to_string(),
        oid: entry.oid,
        signed: signed(name) == Some(&entry.oid),
    });
    (refs.collect(), shown.refs.governed.len())
}
