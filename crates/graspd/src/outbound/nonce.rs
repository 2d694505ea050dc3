//! Which process this is. A server that is reached under another name, through a proxy or by its
//! bare address shows the same nonce; keys and stored ids can be shared or copied, this cannot.

use grasp_core::id::hex_encode;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use rustix::rand::{GetRandomFlags, getrandom};
use std::sync::Arc;

/// Random, new at every start. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance(Arc<str>);

impl Instance {
    /// In every request we make to another relay, and in our refusal of one that is our own.
    pub const HEADER: HeaderName = HeaderName::from_static("grasp-instance");

    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0_u8; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(hex_encode(&bytes).into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Does this request, or this answer, name this very process?
    pub fn is_named_in(&self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(Self::HEADER).iter();
        named.any(|name| name.as_bytes() == self.0.as_bytes())
    }

    pub fn header_value(&self) -> HeaderValue {
        // Hex digits are always fit for a header.
        HeaderValue::from_str(&self.0).unwrap_or(HeaderValue::from_static(""))
    }
}
