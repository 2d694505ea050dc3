//! A sorted set of keys that answers "which of them is this?" quickly enough to be asked a hundred
//! thousand times per verdict.

use crate::id::PubKey;

/// Searched by the first eight bytes of each key. Nobody can make many signing keys that agree in
/// those, so the exact comparison happens about once.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    sorted: Vec<PubKey>,
    heads: Vec<u64>,
}

impl Keys {
    /// `sorted` is in order and without duplicates.
    pub(super) fn new(sorted: Vec<PubKey>) -> Self {
        let heads = sorted.iter().map(head).collect();
        Self { sorted, heads }
    }

    pub(super) fn as_slice(&self) -> &[PubKey] {
        &self.sorted
    }

    pub(super) fn get(&self, index: usize) -> Option<&PubKey> {
        self.sorted.get(index)
    }

    pub(super) fn position(&self, key: &PubKey) -> Option<usize> {
        let from = self.heads.partition_point(|other| *other < head(key));
        let rest = self.sorted.iter().enumerate().skip(from);
        let mut alike = rest.take_while(|(_, other)| head(other) == head(key));
        alike.find(|(_, other)| *other == key).map(|(index, _)| index)
    }
}

fn head(key: &PubKey) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *key.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
