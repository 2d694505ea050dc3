//! The text of `packed-refs`. Knows the format and no directory. What is rendered here is read back
//! to the same refs, by us and by git.

use super::{Entry, KEPT, RefTable};
use grasp_core::Oid;
use std::collections::BTreeMap;

const HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";
const HEADER_START: &[u8] = b"# pack-refs with:";
const OID_HEX_LEN: usize = 40;

/// A ref as found, before anyone looked at its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) oid: Oid,
    pub(super) peeled: Peeled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peeled {
    Known(Option<Oid>),
    /// The file does not say; only the object can tell.
    Unknown,
}

pub(super) type Names = BTreeMap<String, Found>;

/// The number of a line that is not packed-refs, counted from one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) usize);

pub(super) fn parse(text: &[u8]) -> Result<Names, BadLine> {
    let mut reader = Reader { names: Names::new(), unpeeled: Peeled::Unknown, last: Last::None };
    let Some(body) = text.strip_suffix(b"\n") else {
        return if text.is_empty() { Ok(reader.names) } else { Err(BadLine(lines(text).count())) };
    };
    for (at, line) in lines(body).enumerate() {
        match line.strip_prefix(HEADER_START).filter(|_| at == 0) {
            Some(traits) => reader.header(traits),
            None => reader.line(line).ok_or(BadLine(at + 1))?,
        }
    }
    Ok(reader.names)
}

struct Reader {
    names: Names,
    /// What it means that a ref has no line of its own about its tag.
    unpeeled: Peeled,
    last: Last,
}

/// The line before, to which a `^` line belongs.
enum Last {
    None,
    /// A name that is not UTF-8 is not ours, and is no damage either.
    Foreign,
    Name(String),
}

impl Reader {
    fn header(&mut self, traits: &[u8]) {
        if traits.split(|byte| *byte == b' ').any(|word| word == b"fully-peeled") {
            self.unpeeled = Peeled::Known(None);
        }
    }

    fn line(&mut self, line: &[u8]) -> Option<()> {
        if let Some(peeled) = line.strip_prefix(b"^") {
            let peeled = Peeled::Known(Some(oid(peeled)?));
            return match std::mem::replace(&mut self.last, Last::None) {
                Last::None => None,
                Last::Foreign => Some(()),
                Last::Name(name) => self.names.get_mut(&name).map(|found| found.peeled = peeled),
            };
        }
        let (hex, name) = line.split_at_checked(OID_HEX_LEN)?;
        let (oid, name) = (oid(hex)?, name.strip_prefix(b" ").filter(|name| !name.is_empty())?);
        self.last = match std::str::from_utf8(name) {
            Ok(name) => {
                self.names.insert(name.to_owned(), Found { oid, peeled: self.unpeeled });
                Last::Name(name.to_owned())
            }
            Err(_) => Last::Foreign,
        };
        Some(())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

pub(super) fn oid(hex: &[u8]) -> Option<Oid> {
    std::str::from_utf8(hex).ok()?.parse().ok()
}

/// Sorted, as the header promises: branches, hidden refs, proposals, tags.
pub(super) fn render(refs: &RefTable) -> String {
    let mut text = String::from(HEADER);
    let mut hidden = Some(&refs.kept);
    for (name, entry) in refs.listed() {
        if *name > *KEPT {
            hidden.take().into_iter().flatten().for_each(|oid| put_kept(&mut text, *oid));
        }
        put(&mut text, &name, *entry);
    }
    hidden.into_iter().flatten().for_each(|oid| put_kept(&mut text, *oid));
    text
}

/// What a hidden tag peels to is not written: nobody is ever shown these refs.
fn put_kept(text: &mut String, oid: Oid) {
    put(text, &format!("{KEPT}{oid}"), Entry { oid, peeled: None });
}

fn put(text: &mut String, name: &str, entry: Entry) {
    text.push_str(&format!("{} {name}\n", entry.oid));
    if let Some(peeled) = entry.peeled {
        text.push_str(&format!("^{peeled}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::EventId;
    use proptest::prelude::*;

    fn tables() -> impl Strategy<Value = RefTable> {
        let oid = || any::<[u8; 20]>().prop_map(Oid::from_bytes);
        let entry = move || {
            (oid(), prop::option::of(oid())).prop_map(|(oid, peeled)| Entry { oid, peeled })
        };
        let name = "refs/(heads|tags)/[a-zA-Zé!./+@-]{1,12}";
        let name = name.prop_filter_map("not a name", |name| name.parse().ok());
        let id = any::<[u8; 32]>().prop_map(EventId::from_bytes);
        let governed = prop::collection::btree_map(name, entry(), 0..20);
        let proposals = prop::collection::btree_map(id, entry(), 0..4);
        let kept = prop::collection::btree_set(oid(), 0..4);
        (governed, proposals, kept).prop_map(|(governed, proposals, kept)| RefTable {
            governed,
            proposals,
            kept,
            head: None,
        })
    }

    proptest! {
        #[test]
        fn what_is_rendered_is_read_back_and_sorted(refs in tables()) {
            let text = render(&refs);
            let names = text.lines().filter_map(|line| Some(line.split_once(" refs/")?.1));
            prop_assert!(names.is_sorted());
            let mut read = RefTable::default();
            for (name, found) in parse(text.as_bytes()).unwrap() {
                let Peeled::Known(peeled) = found.peeled else { panic!("we say all there is") };
                read.put(&name, Entry { oid: found.oid, peeled });
            }
            prop_assert_eq!(read, refs);
        }

        #[test]
        fn no_bytes_make_it_panic(text in any::<Vec<u8>>(), lines in "([0-9a-f]{40} refs/x|\\^|\n|#){0,9}") {
            drop(parse(&text));
            drop(parse(lines.as_bytes()));
        }
    }
}
