//! Somebody with a key, who writes and signs events.

use grasp_core::id::{EventId, PubKey, Signature};
use grasp_core::{Event, Kind, Tag, Timestamp, VerifiedEvent};
use secp256k1::{Keypair, SecretKey};

#[derive(Debug, Clone)]
pub struct Author {
    keypair: Keypair,
    pub key: PubKey,
}

/// An event before it is signed.
#[derive(Debug, Clone)]
pub struct Draft {
    pub kind: Kind,
    pub created_at: Timestamp,
    pub tags: Vec<Tag>,
    pub content: String,
}

impl Draft {
    pub fn new(kind: Kind, created_at: u64) -> Self {
        Self { kind, created_at: Timestamp(created_at), tags: vec![], content: String::new() }
    }

    pub fn tag(mut self, values: &[&str]) -> Self {
        self.tags.push(Tag(values.iter().map(|v| (*v).to_owned()).collect()));
        self
    }

    pub fn content(mut self, text: &str) -> Self {
        text.clone_into(&mut self.content);
        self
    }
}

impl Author {
    /// The same number is always the same person.
    pub fn number(n: u64) -> Self {
        let mut secret = [1; 32];
        secret[..8].copy_from_slice(&n.to_be_bytes());
        let secret = SecretKey::from_secret_bytes(secret).expect("a small number is a valid key");
        let keypair = Keypair::from_secret_key(&secret);
        let key = PubKey::from_bytes(keypair.x_only_public_key().0.to_byte_array());
        Self { keypair, key }
    }

    pub fn signs(&self, draft: Draft) -> VerifiedEvent {
        self.signs_unchecked(draft).verify().expect("we just signed it")
    }

    /// Signed, as a stranger would receive it.
    pub fn signs_unchecked(&self, draft: Draft) -> Event {
        let Draft { kind, created_at, tags, content } = draft;
        let unsigned = Signature::from_bytes([0; 64]);
        let no_id = EventId::from_bytes([0; 32]);
        let mut event =
            Event { id: no_id, pubkey: self.key, created_at, kind, tags, content, sig: unsigned };
        event.id = event.hash();
        let sig = secp256k1::schnorr::sign_no_aux_rand(event.id.as_bytes(), &self.keypair);
        event.sig = Signature::from_bytes(sig.to_byte_array());
        event
    }
}
