//! Objects for other owners' repositories of a group: packs that are here get further names there. Where
//! that is not possible, one copy is made for all who lack the same, and counts against the disk
//! reserve like a push.

use crate::host::Host;
use crate::landing::open_quarantine;
use grasp_core::{Oid, RepoId};
use grasp_git::{PackLimits, Quarantine, ReceiveError, SharePlan, copy, reachable};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Objects looked at one by one, 20 bytes each; for more a copy is made.
const OBJECTS_MAX: usize = 1_000_000;

/// What one repository lacks.
#[derive(Debug, Clone)]
pub struct ObjectNeed {
    pub wants: BTreeSet<Oid>,
    /// What it has, as far as the source has it too.
    pub has: BTreeSet<Oid>,
    /// How many refs it will have.
    pub refs: usize,
}

/// Brings objects of one repository or quarantine to others.
#[derive(Debug)]
pub struct PackSharing<'a> {
    host: &'a Arc<Host>,
    from: &'a Path,
    /// By what the destinations want and have.
    plans: HashMap<(BTreeSet<Oid>, BTreeSet<Oid>), Arc<SharePlan>>,
}

impl<'a> PackSharing<'a> {
    pub fn new(host: &'a Arc<Host>, from: &'a Path) -> Self {
        Self { host, from, plans: HashMap::new() }
    }

    /// A quarantine for `to` with all that it lacks.
    pub async fn bring(
        &mut self,
        to: &RepoId,
        lacks: ObjectNeed,
        limits: &PackLimits,
    ) -> Result<Quarantine, ReceiveError> {
        let into = open_quarantine(self.host, to, lacks.refs).await?;
        let key = (lacks.wants, lacks.has);
        let mut plan = self.plans.get(&key).cloned();
        if plan.is_none() {
            plan = self
                .plan(&key.0, &key.1, &into)
                .await?
                .filter(|plan| fits(plan, limits))
                .map(Arc::new);
        }
        if let Some(plan) = plan
            && link(&into, &plan).await?
        {
            self.plans.insert(key, plan);
            return Ok(into);
        }
        self.copy(into, key, limits).await
    }

    async fn plan(
        &self,
        wants: &BTreeSet<Oid>,
        has: &BTreeSet<Oid>,
        into: &Quarantine,
    ) -> Result<Option<SharePlan>, ReceiveError> {
        let missing = reachable(&self.host.git, self.from, wants, has, OBJECTS_MAX).await?;
        let Some(missing) = missing else { return Ok(None) };
        let (from, path) = (self.from.to_owned(), into.path().to_owned());
        Ok(blocking(move || SharePlan::new(&from, &missing, &path)).await?)
    }

    /// What was copied for one is shared by all who want and have the same.
    async fn copy(
        &mut self,
        into: Quarantine,
        key: (BTreeSet<Oid>, BTreeSet<Oid>),
        limits: &PackLimits,
    ) -> Result<Quarantine, ReceiveError> {
        copy(&self.host.git, self.from, &into, &key.0, &key.1, limits).await?;
        let path = into.path().to_owned();
        if let Ok(plan) = blocking(move || SharePlan::whole(&path)).await {
            self.plans.insert(key, Arc::new(plan));
        }
        Ok(into)
    }
}

fn fits(plan: &SharePlan, limits: &PackLimits) -> bool {
    plan.bytes() <= limits.bytes_max && plan.objects() <= u64::from(limits.objects_max)
}

async fn link(into: &Quarantine, plan: &Arc<SharePlan>) -> io::Result<bool> {
    let (plan, path) = (Arc::clone(plan), into.path().to_owned());
    blocking(move || plan.link_into(&path)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::crash_tests::machine::Disk;
    use grasp_core::PubKey;
    use grasp_git::land;
    use grasp_testkit::{Git, WorkTree};
    use std::os::unix::fs::MetadataExt;

    fn repo(owner: u8) -> RepoId {
        RepoId { owner: PubKey::from_bytes([owner; 32]), identifier: "acme".parse().unwrap() }
    }

    fn names_of_packs(quarantine: &Quarantine) -> Vec<u64> {
        let files = std::fs::read_dir(quarantine.path().join("objects/pack")).unwrap().flatten();
        let packs = files.filter(|it| it.path().extension().is_some_and(|it| it == "pack"));
        packs.map(|it| it.metadata().unwrap().nlink()).collect()
    }

    async fn shares(host: &Arc<Host>) {
        let tree = WorkTree::init(&Git::any()).await;
        let wanted = tree.commit("README", "hello").await;
        let mut last = wanted;
        for text in ["1", "2", "3"] {
            last = tree.commit("README", text).await;
        }
        let (from, none) = (tree.path().join(".git"), BTreeSet::new());
        let mut source = Quarantine::open(&host.layout, &repo(1)).unwrap();
        copy(&host.git, &from, &source, &[last].into(), &none, &host.pack).await.unwrap();
        source.keep();
        land(&host.layout, &repo(1), source.name()).unwrap();

        let from = host.layout.repository(&repo(1));
        let need = |oid| ObjectNeed { wants: [oid].into(), has: BTreeSet::new(), refs: 1 };
        let mut sharing = PackSharing::new(host, &from);
        let all = sharing.bring(&repo(2), need(last), &host.pack).await.unwrap();
        assert_eq!(names_of_packs(&all), [2], "the source's own pack");
        let first = sharing.bring(&repo(3), need(wanted), &host.pack).await.unwrap();
        assert_eq!(names_of_packs(&first), [1], "a copy: the pack holds mostly other things");
        let second = sharing.bring(&repo(4), need(wanted), &host.pack).await.unwrap();
        assert_eq!(names_of_packs(&second), [2], "one copy for both");
    }

    #[test]
    fn who_lacks_little_of_a_pack_gets_a_copy_and_shares_it_with_who_lacks_the_same() {
        let (disk, runtime) = (Disk::new(), tokio::runtime::Runtime::new().unwrap());
        let machine = disk.boots();
        runtime.block_on(shares(&machine.host));
    }
}
