//! A space is a complete, separate set of events with its own indexes. Clients see one of them;
//! the others keep events that are not to be served.

use crate::Result;
use heed::types::Bytes;
use heed::{Database, Env, RwTxn, WithoutTls};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// What clients and peers see.
    Served,
    /// Accepted, but waiting for something: durable, unseen.
    Held,
    /// Not accepted for want of a dependency; judged again when it appears.
    Aside,
    /// Versions that were served once. Several of one address live here side by side.
    History,
    /// Gave up waiting, but what they lack is still looked for: durable, unseen, without authority.
    Wanted,
}

impl Space {
    pub const ALL: [Space; 5] =
        [Space::Served, Space::Held, Space::Aside, Space::History, Space::Wanted];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Space::Served => "served",
            Space::Held => "held",
            Space::Aside => "aside",
            Space::History => "history",
            Space::Wanted => "wanted",
        }
    }
}

pub(crate) type Table = Database<Bytes, Bytes>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SpaceTables {
    /// serial -> record
    pub(crate) events: Table,
    /// id -> serial
    pub(crate) ids: Table,
    /// list + position -> entry
    pub(crate) index: Table,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    spaces: [SpaceTables; 5],
    /// Small records that live and commit with the events; see [`crate::Shelf`].
    pub(crate) notes: Table,
    pub(crate) tombstones: Table,
    /// Small numbers: format, last serial, counts and bytes per space.
    pub(crate) meta: Table,
}

impl Tables {
    pub(crate) const COUNT: u32 = 18;

    pub(crate) fn create(env: &Env<WithoutTls>, txn: &mut RwTxn<'_>) -> Result<Self> {
        let mut table = |name: &str| env.create_database::<Bytes, Bytes>(txn, Some(name));
        let mut space = |space: Space| -> heed::Result<SpaceTables> {
            let name = space.name();
            Ok(SpaceTables {
                events: table(&format!("{name}-events"))?,
                ids: table(&format!("{name}-ids"))?,
                index: table(&format!("{name}-index"))?,
            })
        };
        let [served, held, aside, history, wanted] = Space::ALL;
        let spaces = [space(served)?, space(held)?, space(aside)?, space(history)?, space(wanted)?];
        let (notes, tombstones) = (table("notes")?, table("tombstones")?);
        Ok(Self { spaces, notes, tombstones, meta: table("meta")? })
    }

    pub(crate) fn of(&self, space: Space) -> &SpaceTables {
        match space {
            Space::Served => &self.spaces[0],
            Space::Held => &self.spaces[1],
            Space::Aside => &self.spaces[2],
            Space::History => &self.spaces[3],
            Space::Wanted => &self.spaces[4],
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Table> {
        let spaces = self.spaces.iter().flat_map(|s| [&s.events, &s.ids, &s.index]);
        spaces.chain([&self.notes, &self.tombstones, &self.meta])
    }
}
