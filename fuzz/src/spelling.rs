//! The many ways to write one thing in JSON, and ways to get it wrong. What `*_json` writes means
//! exactly the value it was given; what passed through `broken` may mean anything.

use crate::Tape;
use grasp_core::id::hex_encode;
use grasp_core::{Event, Filter};

pub fn event_json(tape: &mut Tape<'_>, event: &Event) -> String {
    let tags = event
        .tags
        .iter()
        .map(|tag| array(tape, &tag.0, |tape, word| json_string(tape, word)))
        .collect::<Vec<_>>();
    let tags = array(tape, &tags, |_, tag| tag.to_owned());
    let content = json_string(tape, &event.content);
    let fields = [
        ("id", format!("\"{}\"", event.id)),
        ("pubkey", format!("\"{}\"", event.pubkey)),
        ("created_at", event.created_at.to_string()),
        ("kind", event.kind.to_string()),
        ("tags", tags),
        ("content", content),
        ("sig", format!("\"{}\"", event.sig)),
    ];
    let mut fields = fields.map(|(name, value)| (name.to_owned(), value)).to_vec();
    if tape.one_in(8) {
        let deep = format!("{}{}", "[".repeat(tape.below(90)), "{\"x\":null}");
        let deep = format!("{deep}{}", "]".repeat(deep.matches('[').count()));
        fields.push(("extra".to_owned(), deep));
    }
    object(tape, fields)
}

pub fn filter_json(tape: &mut Tape<'_>, filter: &Filter) -> String {
    let quoted = |bytes: &[u8; 32]| format!("\"{}\"", hex_encode(bytes));
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    if let Some(ids) = &filter.ids {
        add("ids", array(tape, ids, |_, id| quoted(id.as_bytes())));
    }
    if let Some(authors) = &filter.authors {
        add("authors", array(tape, authors, |_, author| quoted(author.as_bytes())));
    }
    if let Some(kinds) = &filter.kinds {
        add("kinds", array(tape, kinds, |_, kind| kind.to_string()));
    }
    for (letter, values) in &filter.tags {
        let values = array(tape, values, |tape, value| json_string(tape, value));
        add(&format!("#{}", char::from(*letter)), values);
    }
    let times = [("since", filter.since), ("until", filter.until)];
    times.iter().for_each(|(name, at)| at.iter().for_each(|at| add(name, at.to_string())));
    filter.limit.iter().for_each(|limit| add("limit", limit.to_string()));
    object(tape, fields)
}

/// The same text, each character in one of its spellings.
pub fn json_string(tape: &mut Tape<'_>, text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let must_escape = c < ' ' || c == '"' || c == '\\';
        match (c, tape.below(8)) {
            ('\n', 0) => out.push_str("\\n"),
            ('"' | '\\', 0..6) => out.extend(['\\', c]),
            ('/', 1) => out.push_str("\\/"),
            (_, 0..6) if !must_escape => out.push(c),
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
    out
}

fn array<T>(
    tape: &mut Tape<'_>,
    items: &[T],
    mut each: impl FnMut(&mut Tape<'_>, &T) -> String,
) -> String {
    let items: Vec<String> = items.iter().map(|item| each(tape, item)).collect();
    format!("[{}{}]", space(tape), items.join(&format!("{},", space(tape))))
}

/// In any order: the first fields are moved behind the others.
fn object(tape: &mut Tape<'_>, mut fields: Vec<(String, String)>) -> String {
    let turn = tape.below(fields.len());
    fields.rotate_left(turn);
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| format!("{}\"{name}\":{}{value}", space(tape), space(tape)))
        .collect();
    format!("{{{}{}}}", fields.join(","), space(tape))
}

fn space(tape: &mut Tape<'_>) -> &'static str {
    ["", "", "", " ", "\n", "\t\r "][tape.below(6)]
}

/// A few random accidents: bytes changed, repeated, cut out, or replaced by something sharp.
pub fn broken(tape: &mut Tape<'_>, text: &str) -> String {
    const SHARP: &[&str] = &[
        "\"",
        "\\",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "null",
        "1.5",
        "-0",
        "1e9",
        "\\ud800",
        "\\u0000",
        "\u{feff}",
        "99999999999999999999",
        "\"id\":\"x\",",
        "\"kinds\":[1],",
        "[[[[[[[[",
    ];
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..tape.below(4) {
        let at = tape.below(bytes.len() + 1);
        let end = bytes.len().min(at + tape.below(20));
        match tape.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => drop(bytes.splice(at..at, tape.pick(SHARP).bytes())),
            4 => bytes.insert(at, tape.byte()),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << tape.below(8)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
