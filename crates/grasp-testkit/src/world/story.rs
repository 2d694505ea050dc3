//! Makes a line of a trace short enough to be read: ids by their first letters, relays by name, and
//! nothing that says nothing.

/// Of what `Debug` writes.
pub(crate) fn short(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if let Some(noise) = NOISE.iter().find(|noise| rest.starts_with(**noise)) {
            rest = &rest[noise.len()..];
            continue;
        }
        let hex = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if hex == 64 {
            out.push_str(&rest[..6]);
            rest = &rest[64..];
            continue;
        }
        let word = hex.max(letter.len_utf8());
        out.push_str(&rest[..word]);
        rest = &rest[word..];
    }
    out
}

const NOISE: [&str; 17] = [
    "ids: None, ",
    "authors: None, ",
    "kinds: None, ",
    "tags: {}, ",
    "since: None, ",
    "until: None, ",
    ", limit: None",
    "RelayUrl",
    "wss://",
    ".example",
    "EventId",
    "PubKey",
    "Timestamp",
    "Identifier",
    "RepoId ",
    "Filter ",
    "Some",
];
