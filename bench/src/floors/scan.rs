//! Index entries per second that LMDB hands out in order, read without any code of ours between.

use crate::stats::rate;
use anyhow::{Context, Result};
use heed::EnvOpenOptions;
use heed::types::Bytes;
use std::path::Path;
use std::time::Instant;

pub(crate) fn per_second(directory: &Path) -> Result<f64> {
    let env = open(directory)?;
    let txn = env.read_txn()?;
    let index = env.open_database::<Bytes, Bytes>(&txn, Some("served-index"))?;
    let index = index.context("the store has no index")?;
    let started = Instant::now();
    let mut entries = 0;
    for row in index.iter(&txn)? {
        let (key, value) = row?;
        std::hint::black_box((key, value));
        entries += 1;
    }
    Ok(rate(entries, started.elapsed()))
}

#[expect(unsafe_code, reason = "the store belongs to a server of ours that is stopped")]
fn open(directory: &Path) -> Result<heed::Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(8 << 30).max_dbs(16);
    Ok(unsafe { options.open(directory) }?)
}
