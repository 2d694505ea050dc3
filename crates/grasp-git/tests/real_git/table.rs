//! Ref tables beside what git says of the same repository.

use super::Bare;
use grasp_core::{EventId, Oid};
use grasp_git::{Entry, RefTable};

pub(crate) fn sample(bare: &Bare) -> RefTable {
    let (one, two) = (bare.commit("one"), bare.commit("two"));
    let tag = Entry { oid: oid(&bare.tag("v1", &one, "commit")), peeled: Some(oid(&one)) };
    let mut refs = branches(&[
        ("refs/heads/main", entry(&two)),
        ("refs/heads/-dash", entry(&one)),
        ("refs/heads/a/b", entry(&one)),
        ("refs/heads/a-b", entry(&one)),
        ("refs/heads/naïve/ünï🦀", entry(&two)),
        ("refs/tags/light", entry(&one)),
        ("refs/tags/v1", tag),
    ]);
    refs.proposals.insert(EventId::from_bytes([7; 32]), entry(&two));
    refs.kept.extend([oid(&one), oid(&two)]);
    refs.head = Some("refs/heads/main".parse().unwrap());
    refs
}

pub(crate) fn branches(list: &[(&str, Entry)]) -> RefTable {
    let governed = list.iter().map(|(name, entry)| (name.parse().unwrap(), *entry));
    RefTable { governed: governed.collect(), ..RefTable::default() }
}

pub(crate) fn entry(hex: &str) -> Entry {
    Entry { oid: oid(hex), peeled: None }
}

pub(crate) fn oid(hex: &str) -> Oid {
    hex.parse().unwrap()
}

/// Name, object, and what a tag points to.
pub(crate) type Line = (String, String, String);

pub(crate) fn seen_by_git(bare: &Bare) -> Vec<Line> {
    let format = "--format=%(refname)\t%(objectname)\t%(*objectname)";
    let listing = bare.git(&["for-each-ref", format]);
    let line = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        (next(), next(), next())
    };
    listing.lines().map(line).collect()
}

pub(crate) fn told(refs: &RefTable) -> Vec<Line> {
    let listed = refs.listed().map(|(name, entry)| {
        let peeled = entry.peeled.map(Oid::to_hex).unwrap_or_default();
        (name.into_owned(), entry.oid.to_hex(), peeled)
    });
    let kept =
        refs.kept.iter().map(|oid| (format!("refs/internal/{oid}"), oid.to_hex(), String::new()));
    let mut lines: Vec<_> = listed.chain(kept).collect();
    lines.sort();
    lines
}

pub(crate) fn without_hidden(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.contains("refs/internal/")).map(str::to_owned).collect()
}
