//! What a git server says its branches and tags are, and nothing more: one request where it speaks
//! version 2, and never more than three.

use super::talk::{Stop, Talk, heard, post};
use super::words::Heard;
use super::{Desk, Fetcher};
use crate::outbound::{Ask, Rule};
use grasp_core::{CloneUrl, Oid, RefName};
use grasp_engine::hunt::Outcome;
use grasp_git::fetch::{ADVERT_TYPE, Advert, AdvertReader, INFO_REFS, RefsReader, ls_refs_v2};
use std::collections::BTreeMap;

type Names = BTreeMap<RefName, Oid>;

/// A list longer than this is not read.
const LIST_BYTES_MAX: u64 = 8 << 20;
const PREFIXES: [&str; 2] = ["refs/heads/", "refs/tags/"];

impl Fetcher {
    /// The first request is permitted already.
    pub async fn list<D: Desk>(
        &self,
        url: &CloneUrl,
        rule: Rule,
        desk: &mut D,
    ) -> Result<Names, Outcome> {
        let mut talk = Talk::new(&self.caller, (url, rule), LIST_BYTES_MAX, desk);
        self.names(url, &mut talk).await.map_err(|stop| stop.outcome(url))
    }

    async fn names<D: Desk>(&self, url: &CloneUrl, talk: &mut Talk<'_, D>) -> Result<Names, Stop> {
        let old = self.memory.lock().is_old(&url.domain());
        if !old && let Ok(names) = talk.listed().await? {
            return Ok(names);
        }
        let (advert, names) = talk.advertised().await?;
        let is_new = advert == Advert::V2;
        self.memory.lock().speaks(&url.domain(), is_new);
        match is_new {
            true => talk.listed().await?.map_err(Stop::Failed),
            false => Ok(names),
        }
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
