//! What must be true of a server after a crash, whatever it was doing. Asked of the server by REQ and
//! `ls-remote`, and of the directories by git; nothing is taken from the server's own tables.

use super::disk::{OnDisk, locks, names};
use super::project::{MAIN, Project, Refs, Signed};
use grasp_core::{EventId, Oid};
use grasp_testkit::{Client, Server, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a server's data lies, and how to ask it.
#[derive(Debug)]
pub(crate) struct Inspector<'s> {
    pub(crate) server: &'s Server,
    pub(crate) git_root: PathBuf,
    /// Says which round it was, in case something is wrong.
    pub(crate) when: String,
    /// Look at every object, too.
    pub(crate) thorough: bool,
}

impl Inspector<'_> {
    pub(crate) async fn inspects(&self, projects: &[Project]) {
        let mut client = Client::connect(&self.server.url()).await;
        for project in projects {
            self.nothing_acknowledged_is_lost(&mut client, project).await;
            let served = self.served(&mut client, project).await;
            self.every_view_follows(project, &served).await;
            let mut all = Vec::new();
            for owner in 0..project.joined {
                all.push(self.repository(project, owner, &served).await);
            }
            self.states(project, &served, &all).await;
            self.requests(project, &served, &all);
        }
        self.nothing_is_left(projects).await;
    }

    /// I1. An event that is here is a duplicate; one that was lost would be taken as new.
    async fn nothing_acknowledged_is_lost(&self, client: &mut Client, project: &Project) {
        let states = project.states.iter().filter(|it| it.acknowledged);
        let states = states.filter(|it| !project.is_gone_with_its_successor(it));
        let requests = project.requests.iter().filter(|it| it.acknowledged);
        let deletions = project.deletions.iter();
        let deletions = deletions.filter(|it| project.deletions_acknowledged.contains(it.0));
        let events = states.map(|it| &it.event).chain(requests.map(|it| &it.event));
        let events = events.chain(&project.announcements).chain(deletions.map(|it| it.1));
        for event in events {
            let reply = client.publishes(event).await;
            let deleted = project.deletions.contains_key(&event.id);
            let gone = deleted && reply.text == "invalid: this event is deleted by its author";
            let here = reply.text.starts_with("duplicate: ");
            assert!(here || gone, "{}: kind {} lost: {reply:?}", self.when, event.kind.0);
        }
    }

    async fn served(&self, client: &mut Client, project: &Project) -> BTreeSet<EventId> {
        let authors: Vec<String> = project.owners.iter().map(|it| it.owner.key.to_hex()).collect();
        let name = &project.owners[0].identifier;
        let own = json!({"kinds": [30617, 30618], "authors": authors, "#d": [name]});
        let addresses: Vec<String> = project.owners.iter().map(|it| it.coordinate()).collect();
        let proposed = json!({"kinds": [1618, 1619], "#a": addresses});
        client.asks(&[own, proposed]).await.into_iter().collect()
    }

    /// I3, in the end: once objects were copied between owners, all of them follow the newest state.
    async fn every_view_follows(&self, project: &Project, served: &BTreeSet<EventId>) {
        let Some(newest) = project.newest(served) else { return };
        for owner in 0..project.joined {
            let url = project.owners[owner].clone_url(&self.server.address);
            let what = format!("{}: {url} shows {}", self.when, newest.event.id);
            until(&what, || async { self.shown(project, owner).await == newest.refs }).await;
        }
    }

    async fn shown(&self, project: &Project, owner: usize) -> Refs {
        let url = project.owners[owner].clone_url(&self.server.address);
        let listed = project.tree.ls_remote(&url).await.into_iter();
        let listed = listed.filter(|(name, _)| name != "HEAD" && !name.ends_with("^{}"));
        let listed = listed.filter(|(name, _)| !name.starts_with("refs/nostr/"));
        listed.map(|(name, oid)| (name, oid.parse().expect("an object id"))).collect()
    }

    /// I3 to I5 and I7 for one owner's repository.
    async fn repository(
        &self,
        project: &Project,
        owner: usize,
        served: &BTreeSet<EventId>,
    ) -> (OnDisk, BTreeSet<Oid>) {
        let owner = &project.owners[owner];
        let directory = self.git_root.join(owner.owner.key.to_npub());
        let directory = directory.join(format!("{}.git", owner.identifier));
        let it = OnDisk::read(&directory, &project.tree).await;
        let when = format!("{}: {}", self.when, directory.display());
        it.is_sound(&project.tree, self.thorough).await;
        assert_eq!(it.strange, Vec::<String>::new(), "{when}");
        let objects = it.holds(&project.tree, &project.objects()).await;
        let whole = |state: &&Signed| state.refs.values().all(|oid| objects.contains(oid));
        let mut states = project.states.iter().filter(|it| served.contains(&it.event.id));
        let governing = states.rfind(whole);
        let signed = governing.map(|it| it.refs.clone()).unwrap_or_default();
        assert_eq!(it.governed, signed, "{when}: refs are not what was signed");
        assert!(!it.exists || it.head.as_deref() == Some(MAIN), "{when}: {:?}", it.head);
        let known: BTreeSet<Oid> =
            project.states.iter().flat_map(|it| it.refs.values().copied()).collect();
        assert!(it.internal.is_subset(&known), "{when}: hidden refs to what nobody signed");
        (it, objects)
    }

    /// I2 and I4 for states; those that wait lack something everywhere.
    async fn states(
        &self,
        project: &Project,
        served: &BTreeSet<EventId>,
        all: &[(OnDisk, BTreeSet<Oid>)],
    ) {
        let when = &self.when;
        let newest = project.newest(served).map(|it| it.event.rank());
        let is_whole = |state: &Signed| {
            all.iter().any(|(_, here)| state.refs.values().all(|oid| here.contains(oid)))
        };
        for state in &project.states {
            let (id, deleted) = (&state.event.id, project.deletions.contains_key(&state.event.id));
            if served.contains(id) {
                assert!(is_whole(state), "{when}: {id} is served without its objects");
            }
            let overtaken = newest.is_some_and(|newest| newest.beats(&state.event.rank()));
            let kept = deleted || overtaken || served.contains(id);
            assert!(kept || !state.pushed, "{when}: what was pushed for {id} is lost");
            let waits = !kept && state.acknowledged;
            assert!(!(waits && is_whole(state)), "{when}: {id} waits for nothing");
        }
    }

    /// I2, I4 and I7 for pull requests.
    fn requests(
        &self,
        project: &Project,
        served: &BTreeSet<EventId>,
        all: &[(OnDisk, BTreeSet<Oid>)],
    ) {
        let when = &self.when;
        for it in &project.requests {
            let id = &it.event.id;
            let (disk, here) = &all[it.to];
            let shown = disk.proposals.get(&id.to_hex());
            if it.pushed && it.acknowledged {
                assert!(served.contains(id), "{when}: {id} was complete and is not served");
            }
            let expected = served.contains(id).then_some(&it.tip);
            assert_eq!(shown, expected, "{when}: {id} and its ref tell two stories");
            assert!(expected.is_none() || here.contains(&it.tip), "{when}: {id} lacks its commit");
        }
        let known: BTreeSet<String> =
            project.requests.iter().map(|it| it.event.id.to_hex()).collect();
        for (disk, _) in all {
            let strange = disk.proposals.keys().find(|id| !known.contains(*id));
            assert_eq!(strange, None, "{when}: a ref for a pull request nobody made");
        }
    }

    /// I6. What runs beside, such as a copy between owners, may take a moment to end.
    async fn nothing_is_left(&self, projects: &[Project]) {
        let own = self.git_root.join(".graspd");
        let found = locks(&self.git_root);
        let unlocked = || async { locks(&self.git_root).is_empty() };
        until(&format!("{}: no locks, such as {found:?}", self.when), unlocked).await;
        let swept = || async { self.strays(&own.join("incoming"), projects).await.is_empty() };
        until(&format!("{}: nothing unknown in quarantine", self.when), swept).await;
        assert_eq!(names(&own.join("tmp")), Vec::<String>::new(), "{}", self.when);
    }

    /// Quarantines that hold no commit somebody may still claim.
    async fn strays(&self, incoming: &Path, projects: &[Project]) -> Vec<String> {
        let unclaimed = |project: &Project| {
            let waits = project.requests.iter().filter(|it| it.tried && !it.acknowledged);
            waits.map(|it| it.tip).collect::<BTreeSet<Oid>>()
        };
        let mut strays = Vec::new();
        for name in names(incoming) {
            let mut known = false;
            for project in projects {
                let quarantine = OnDisk::read(&incoming.join(&name), &project.tree).await;
                let here = quarantine.holds(&project.tree, &unclaimed(project)).await;
                known |= !here.is_empty();
            }
            if !known {
                strays.push(name);
            }
        }
        strays
    }
}

impl Project {
    /// The preferred one among those that are served. States are signed in order of time.
    fn newest(&self, served: &BTreeSet<EventId>) -> Option<&Signed> {
        self.states.iter().rev().find(|it| served.contains(&it.event.id))
    }

    /// Replaced by one that was deleted itself: then nothing here remembers it.
    fn is_gone_with_its_successor(&self, state: &Signed) -> bool {
        let later = self.states.iter().filter(|it| it.event.pubkey == state.event.pubkey);
        let mut later = later.filter(|it| it.event.rank().beats(&state.event.rank()));
        later.any(|it| self.deletions.contains_key(&it.event.id))
    }

    /// Everything somebody's events name.
    fn objects(&self) -> BTreeSet<Oid> {
        let signed = self.states.iter().flat_map(|it| it.refs.values().copied());
        signed.chain(self.requests.iter().map(|it| it.tip)).collect()
    }
}
