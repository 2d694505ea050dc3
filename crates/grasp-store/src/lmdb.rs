//! The LMDB environment: opening, growing, and the two kinds of transaction. LMDB syncs on every
//! commit and keeps the previous state intact until then, so a kill leaves the old or the new.

use crate::counters::Unsaved;
use crate::space::Tables;
use crate::view::{View, Viewed};
use crate::write::Writing;
use crate::{EventStore, Result, Snapshot, StoreError, Transaction, Usage};
use heed::{Env, EnvOpenOptions, MdbError, RoTxn, WithoutTls};
use parking_lot::{RwLock, RwLockReadGuard};
use std::path::Path;

const FORMAT: u32 = 1;
const FORMAT_KEY: &[u8] = b"format";

#[derive(Debug, Clone)]
pub struct Options {
    /// Events may use this much disk; writes stop at [`Usage::FULL_PERCENT`] of it.
    pub budget_bytes: u64,
    /// The address space to begin with; it doubles as needed.
    pub map_bytes: usize,
    pub readers_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { budget_bytes: 10 << 30, map_bytes: 64 << 20, readers_max: 1024 }
    }
}

#[derive(Debug)]
pub struct LmdbStore {
    env: Env<WithoutTls>,
    tables: Tables,
    budget_bytes: u64,
    /// Held shared by every transaction: the map may only be resized while there is none.
    gate: RwLock<()>,
    /// Keeps a temporary store's directory until the store is dropped.
    _directory: Option<tempfile::TempDir>,
}

/// The same store in a directory that goes away with it.
pub fn in_memory(options: &Options) -> Result<LmdbStore> {
    let directory = tempfile::Builder::new().prefix("graspd-").tempdir().map_err(|why| {
        StoreError::Open { path: "a temporary directory".into(), why: why.to_string() }
    })?;
    let mut store = LmdbStore::open(directory.path(), options)?;
    store._directory = Some(directory);
    Ok(store)
}

impl LmdbStore {
    /// Opens or creates the store in an existing directory.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let failed = |why: heed::Error| StoreError::Open {
            path: path.display().to_string(),
            why: why.to_string(),
        };
        let on_disk = std::fs::metadata(path.join("data.mdb")).map_or(0, |meta| meta.len());
        let on_disk = usize::try_from(on_disk).unwrap_or(usize::MAX);
        let env = open_env(path, options, on_disk.max(options.map_bytes)).map_err(failed)?;
        env.clear_stale_readers()?;
        let mut txn = env.write_txn()?;
        let tables = Tables::create(&env, &mut txn)?;
        // Something unreadable is a format we do not know, not a missing one.
        let number = |bytes: &[u8]| bytes.try_into().map_or(u32::MAX, u32::from_be_bytes);
        match tables.meta.get(&txn, FORMAT_KEY)?.map(number) {
            None => tables.meta.put(&mut txn, FORMAT_KEY, &FORMAT.to_be_bytes())?,
            Some(FORMAT) => {}
            Some(found) => return Err(StoreError::Format { found, known: FORMAT }),
        }
        txn.commit()?;
        let budget_bytes = options.budget_bytes;
        Ok(Self { env, tables, budget_bytes, gate: RwLock::new(()), _directory: None })
    }

    fn usage_in(&self, txn: &RoTxn) -> Result<Usage> {
        let mut pages = 0;
        for table in self.tables.all() {
            let stat = table.stat(txn)?;
            pages += stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        }
        let page = self.env.stat().page_size;
        Ok(Usage {
            used_bytes: u64::try_from(pages).unwrap_or(u64::MAX).saturating_mul(u64::from(page)),
            budget_bytes: self.budget_bytes,
            map_bytes: u64::try_from(self.env.info().map_size).unwrap_or(u64::MAX),
        })
    }

    fn attempt(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let _open = self.gate.read();
        let mut txn = self.env.write_txn()?;
        let usage = self.usage_in(&txn)?;
        let unsaved = Unsaved::none();
        let tables = &self.tables;
        let mut writing = Writing { txn: &mut txn, tables, usage, vacated: 0, unsaved };
        work(&mut writing)?;
        writing.finish()?;
        Ok(txn.commit()?)
    }

    fn grow(&self) -> Result<()> {
        let _alone = self.gate.write();
        let doubled = self.env.info().map_size.saturating_mul(2);
        resize(&self.env, doubled)?;
        Ok(())
    }
}

#[expect(
    unsafe_code,
    reason = "LMDB maps a file that nobody else may truncate: the data lock sees to it"
)]
fn open_env(path: &Path, options: &Options, map_bytes: usize) -> heed::Result<Env<WithoutTls>> {
    let mut env = EnvOpenOptions::new().read_txn_without_tls();
    env.map_size(round_to_page(map_bytes)).max_readers(options.readers_max).max_dbs(Tables::COUNT);
    unsafe { env.open(path) }
}

#[expect(unsafe_code, reason = "no transaction is active: the caller holds the gate exclusively")]
fn resize(env: &Env<WithoutTls>, bytes: usize) -> heed::Result<()> {
    unsafe { env.resize(bytes) }
}

const fn round_to_page(bytes: usize) -> usize {
    const PAGE: usize = 64 << 10;
    bytes.div_ceil(PAGE) * PAGE
}

impl EventStore for LmdbStore {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        let gate = self.gate.read();
        let txn = self.env.read_txn()?;
        Ok(Box::new(Reading { txn, tables: &self.tables, _gate: gate }))
    }

    fn write(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        loop {
            match self.attempt(work) {
                Err(StoreError::Engine(heed::Error::Mdb(MdbError::MapFull))) => self.grow()?,
                done => return done,
            }
        }
    }

    fn usage(&self) -> Result<Usage> {
        let _open = self.gate.read();
        let txn = self.env.read_txn()?;
        self.usage_in(&txn)
    }
}

static NOTHING: Unsaved = Unsaved::none();

struct Reading<'s> {
    // Dropped before the gate is.
    txn: RoTxn<'s, WithoutTls>,
    tables: &'s Tables,
    _gate: RwLockReadGuard<'s, ()>,
}

impl Viewed for Reading<'_> {
    fn view(&self) -> View<'_> {
        View { txn: &self.txn, tables: self.tables, unsaved: &NOTHING }
    }
}
