//! The stylesheet, the script and the icon, kept in the binary. Their names carry a hash of what is
//! in them, so whoever has one may keep it for ever.

use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Below `/assets/`; to be sent with `Cache-Control: public, max-age=31536000, immutable`.
#[derive(Debug, Clone)]
pub struct Asset {
    /// `site-<hash>.css`
    pub name: String,
    pub content_type: &'static str,
    pub bytes: &'static [u8],
    /// With its quotes.
    pub etag: String,
}

/// Hex digits of the hash in a name.
const HASH_CHARS: usize = 16;

pub(super) struct Assets {
    pub(super) style: Asset,
    pub(super) script: Asset,
    pub(super) icon: Asset,
}

pub(super) static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: made("css", "text/css; charset=utf-8", include_bytes!("../../templates/site.css")),
    script: made("js", "text/javascript; charset=utf-8", include_bytes!("../../templates/site.js")),
    icon: made("svg", "image/svg+xml", include_bytes!("../../templates/icon.svg")),
});

/// By the name after `/assets/`.
pub fn asset(name: &str) -> Option<&'static Asset> {
    [&ASSETS.style, &ASSETS.script, &ASSETS.icon].into_iter().find(|asset| asset.name == name)
}

fn made(ending: &str, content_type: &'static str, bytes: &'static [u8]) -> Asset {
    let hash = Sha256::digest(bytes);
    let mut hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(HASH_CHARS);
    Asset { name: format!("site-{hex}.{ending}"), content_type, bytes, etag: format!("\"{hex}\"") }
}
