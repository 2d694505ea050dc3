//! What a git server says its branches and tags are: one request where it speaks version 2, and never
//! more than three. Whether it gives them out is asked in `probe.rs`.

use super::talk::{Stop, Talk, heard, post};
use super::words::{Heard, Speaks};
use super::{Desk, Fetcher};
use crate::outbound::{Ask, Rule};
use grasp_core::{CloneUrl, Oid, RefName};
use grasp_engine::hunt::Outcome;
use grasp_git::fetch::{ADVERT_TYPE, Advert, AdvertReader, INFO_REFS, RefsReader, ls_refs_v2};
use std::collections::BTreeMap;
use std::fmt;

type Names = BTreeMap<RefName, Oid>;

/// A list longer than this is not read.
const LIST_BYTES_MAX: u64 = 8 << 20;
const PREFIXES: [&str; 2] = ["refs/heads/", "refs/tags/"];

/// A look at one repository of one git server: what it lists, and whether it gives that out. All of it
/// on one connection, while that lasts.
pub struct Visit<'a, D: Desk> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) url: &'a CloneUrl,
    pub(super) talk: Talk<'a, D>,
    pub(super) speaks: Speaks,
}

impl Fetcher {
    /// The first request is permitted already.
    pub fn visit<'a, D: Desk>(
        &'a self,
        url: &'a CloneUrl,
        rule: Rule,
        desk: &'a mut D,
    ) -> Visit<'a, D> {
        let talk = Talk::new(&self.caller, (url, rule), LIST_BYTES_MAX, desk);
        Visit { fetcher: self, url, talk, speaks: Speaks::V2 }
    }
}

impl<D: Desk> fmt::Debug for Visit<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("url", &self.url).finish_non_exhaustive()
    }
}

impl<D: Desk> Drop for Visit<'_, D> {
    fn drop(&mut self) {
        self.talk.desk.received(self.talk.untold_bytes(), 0);
    }
}

impl<D: Desk> Visit<'_, D> {
    pub async fn list(&mut self) -> Result<Names, Outcome> {
        self.names().await.map_err(|stop| stop.outcome(self.url))
    }

    async fn names(&mut self) -> Result<Names, Stop> {
        let (memory, domain) = (&self.fetcher.memory, self.url.domain());
        let old = memory.lock().is_old(&domain);
        if !old && let Ok(names) = self.talk.listed().await? {
            return Ok(names);
        }
        let (advert, names) = self.talk.advertised().await?;
        let Advert::V0 { caps, .. } = advert else {
            memory.lock().speaks(&domain, true);
            return self.talk.listed().await?.map_err(Stop::Failed);
        };
        memory.lock().speaks(&domain, false);
        self.speaks = Speaks::V0(caps);
        Ok(names)
    }
}

impl<D: Desk> Talk<'_, D> {
    /// Words instead of a list: perhaps it does not know version 2.
    async fn listed(&mut self) -> Result<Result<Names, String>, Stop> {
        let mut response = match self.ask(&post(true, ls_refs_v2(&PREFIXES))).await? {
            Ok(response) => response,
            Err(why) => return Ok(Err(why)),
        };
        let mut reader = RefsReader::naming();
        while let Some(piece) = self.piece(&mut response).await? {
            if let Err(refusal) = reader.push(&piece) {
                return heard(refusal).map(|heard| Err(words(heard)));
            }
        }
        let names = reader.take_names();
        match reader.finish() {
            Ok(_) => Ok(Ok(names)),
            Err(refusal) => heard(refusal).map(|heard| Err(words(heard))),
        }
    }

    async fn advertised(&mut self) -> Result<(Advert, Names), Stop> {
        let ask = Ask { path: INFO_REFS, accept: ADVERT_TYPE, v2: true, body: None };
        let mut response = self.ask(&ask).await?.map_err(Stop::Failed)?;
        let mut reader = AdvertReader::naming();
        while let Some(piece) = self.piece(&mut response).await? {
            if let Err(refusal) = reader.push(&piece) {
                return Err(heard(refusal).map_or_else(|stop| stop, |it| Stop::Failed(words(it))));
            }
        }
        let names = reader.take_names();
        let advert = reader.finish();
        let stop = |refusal| heard(refusal).map_or_else(|stop| stop, |it| Stop::Failed(words(it)));
        Ok((advert.map_err(stop)?, names))
    }
}

fn words(heard: Heard) -> String {
    match heard {
        Heard::Refuses(why) | Heard::Unclear(why) | Heard::Unfit(why) => why,
        _ => "it does not list its refs".to_owned(),
    }
}
