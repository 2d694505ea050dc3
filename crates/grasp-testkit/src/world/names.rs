//! Short names for the things engines talk about: `relay("one")` is `wss://one.example`.

use grasp_core::{EventId, Identifier, PubKey, RelayUrl, RepoId};

pub fn relay(name: &str) -> RelayUrl {
    format!("wss://{name}.example").parse().expect("a short name makes an address")
}

/// A repository of this name; the same name is always the same owner too.
pub fn repo(name: &str) -> RepoId {
    let mut owner = [7; 32];
    for (byte, letter) in owner.iter_mut().zip(name.bytes()) {
        *byte = letter;
    }
    let identifier: Identifier = name.parse().expect("a short name is an identifier");
    RepoId { owner: PubKey::from_bytes(owner), identifier }
}

pub fn event_id(n: u64) -> EventId {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&n.to_be_bytes());
    EventId::from_bytes(id)
}
