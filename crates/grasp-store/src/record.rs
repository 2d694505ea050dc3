//! One stored event: a fixed header that answers questions without parsing, the provenance, and
//! the canonical JSON that goes to clients as it is.

use crate::{Result, StoreError};
use bytes::Bytes;
use grasp_core::{Event, Kind, PubKey, Time, Timestamp, VerifiedEvent};

/// The road by which an event first came (S-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    Direct,
    Live,
    Backfill,
    Daily,
}

impl SourceKind {
    const fn code(self) -> u8 {
        match self {
            Self::Direct => 0,
            Self::Live => 1,
            Self::Backfill => 2,
            Self::Daily => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Direct,
            1 => Self::Live,
            2 => Self::Backfill,
            3 => Self::Daily,
            _ => return None,
        })
    }
}

/// Where an event first came from, and when (S-27). `released` is set for one that was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    pub source: SourceKind,
    /// The relay it came from; `None` for a client of ours.
    pub relay: Option<String>,
    pub received: Time,
    pub released: Option<Time>,
}

impl Provenance {
    pub fn direct(received: Time) -> Self {
        Self { source: SourceKind::Direct, relay: None, received, released: None }
    }
}

/// An event as it lies in the store.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    pub serial: u64,
    pub provenance: Provenance,
    pub event: VerifiedEvent,
}

const HEADER_LEN: usize = 101;
const NEVER: u64 = u64::MAX;

/// A view into a record's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'t> {
    bytes: &'t [u8],
    relay_len: usize,
}

impl<'t> Record<'t> {
    pub(crate) fn parse(bytes: &'t [u8]) -> Result<Self> {
        let damaged = StoreError::Damaged("record is shorter than its header");
        let Some(len) = bytes.get(99..HEADER_LEN).and_then(|len| len.try_into().ok()) else {
            return Err(damaged);
        };
        let relay_len = usize::from(u16::from_be_bytes(len));
        if bytes.len() < HEADER_LEN + relay_len {
            Err(damaged)
        } else {
            Ok(Self { bytes, relay_len })
        }
    }

    fn u64_at(&self, at: usize) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_be_bytes(number)
    }

    pub(crate) fn pubkey(&self) -> PubKey {
        let mut key = [0; 32];
        key.copy_from_slice(&self.bytes[32..64]);
        PubKey::from_bytes(key)
    }

    pub(crate) fn created_at(&self) -> Timestamp {
        Timestamp(self.u64_at(64))
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind(u16::from_be_bytes([self.bytes[72], self.bytes[73]]))
    }

    pub(crate) fn expires(&self) -> Option<Timestamp> {
        Some(self.u64_at(74)).filter(|at| *at != NEVER).map(Timestamp)
    }

    pub(crate) fn json(&self) -> &'t [u8] {
        &self.bytes[HEADER_LEN + self.relay_len..]
    }

    fn provenance(&self) -> Result<Provenance> {
        let source = SourceKind::from_code(self.bytes[98]);
        let relay = std::str::from_utf8(&self.bytes[HEADER_LEN..HEADER_LEN + self.relay_len]);
        let (Some(source), Ok(relay)) = (source, relay) else {
            return Err(StoreError::Damaged("unreadable provenance"));
        };
        Ok(Provenance {
            source,
            relay: (!relay.is_empty()).then(|| relay.to_owned()),
            received: Time(self.u64_at(82)),
            released: Some(self.u64_at(90)).filter(|at| *at != NEVER).map(Time),
        })
    }

    pub(crate) fn to_event(self, serial: u64) -> Result<StoredEvent> {
        let event = VerifiedEvent::from_stored(Bytes::copy_from_slice(self.json()))
            .map_err(|_| StoreError::Damaged("stored JSON does not parse"))?;
        Ok(StoredEvent { serial, provenance: self.provenance()?, event })
    }

    pub(crate) fn parse_json(&self) -> Result<Event> {
        Event::from_json(self.json()).map_err(|_| StoreError::Damaged("stored JSON does not parse"))
    }
}

pub(crate) fn encode(event: &VerifiedEvent, from: &Provenance) -> Vec<u8> {
    // A relay URL is bounded long before it gets here; a longer one would lose its tail, not its event.
    let relay = from.relay.as_deref().unwrap_or_default();
    let relay = relay.get(..relay.len().min(2048)).unwrap_or_default();
    let mut out = Vec::with_capacity(HEADER_LEN + relay.len() + event.json().len());
    out.extend_from_slice(event.id.as_bytes());
    out.extend_from_slice(event.pubkey.as_bytes());
    out.extend_from_slice(&event.created_at.0.to_be_bytes());
    out.extend_from_slice(&event.kind.0.to_be_bytes());
    out.extend_from_slice(&event.expiration().map_or(NEVER, |at| at.0).to_be_bytes());
    out.extend_from_slice(&from.received.0.to_be_bytes());
    out.extend_from_slice(&from.released.map_or(NEVER, |at| at.0).to_be_bytes());
    out.push(from.source.code());
    out.extend_from_slice(&u16::try_from(relay.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(relay.as_bytes());
    out.extend_from_slice(event.json());
    out
}
