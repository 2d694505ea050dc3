//! Reads `/metrics` as strictly as text format 0.0.4 is written down: whoever scrapes may be as strict.
#![allow(dead_code, reason = "each file of tests needs its own part of this")]

use grasp_testkit::{Server, http};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub(crate) struct Scrape {
    /// By the name of the family.
    types: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

impl Scrape {
    pub(crate) async fn of(server: &Server) -> Self {
        let page = http("GET", &format!("{}/metrics", server.address), &[]).await;
        assert_eq!(page.status, 200);
        let kind = page.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        Self::parse(&page.body)
    }

    pub(crate) fn parse(page: &str) -> Self {
        assert!(page.ends_with('\n'), "the last line ends, too");
        let strange = |c: char| c.is_control() && c != '\n';
        assert!(!page.contains(strange), "control characters in {page:?}");
        let (mut scrape, mut helped) = (Self::default(), BTreeSet::new());
        for line in page.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("# ").and_then(|rest| rest.split_once(' ')) {
                Some(("HELP", rest)) => {
                    let (name, text) = rest.split_once(' ').expect("a text");
                    assert!(helped.insert(name.to_owned()), "{name} is explained twice");
                    unescaped(text, &['\\', 'n']);
                }
                Some(("TYPE", rest)) => scrape.learns(rest),
                _ => {
                    assert!(!line.starts_with('#'), "a stray remark: {line:?}");
                    scrape.takes(Sample::parse(line));
                }
            }
        }
        scrape.has_no_series_twice();
        scrape
    }

    fn learns(&mut self, rest: &str) {
        let (name, kind) = rest.split_once(' ').expect("a type");
        assert!(is_name(name), "{name:?}");
        assert!(["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind), "{rest}");
        let before = self.types.insert(name.to_owned(), kind.to_owned());
        assert!(before.is_none(), "{name} has two types");
    }

    fn takes(&mut self, sample: Sample) {
        let family = self.family(&sample.name);
        let kind = self.types.get(&family).unwrap_or_else(|| panic!("{family} has no type"));
        assert!(kind != "counter" || sample.value >= 0.0, "{sample:?}");
        let last = self.samples.last().map(|last| self.family(&last.name));
        let known = self.samples.iter().any(|it| self.family(&it.name) == family);
        assert!(!known || last == Some(family), "all lines of {} stand together", sample.name);
        self.samples.push(sample);
    }

    /// Histograms have several names.
    fn family(&self, name: &str) -> String {
        let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let is_histogram = |stem: &&str| self.types.get(*stem).is_some_and(|it| it == "histogram");
        stem.filter(is_histogram).unwrap_or(name).to_owned()
    }

    fn has_no_series_twice(&self) {
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            assert!(seen.insert((&sample.name, &sample.labels)), "twice: {sample:?}");
        }
    }

    pub(crate) fn of_name(&self, name: &str) -> Vec<&Sample> {
        self.samples.iter().filter(|sample| sample.name == name).collect()
    }

    /// All with this name added up.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.of_name(name).iter().map(|sample| sample.value).sum()
    }

    pub(crate) fn labels_of(&self, name: &str) -> BTreeSet<&str> {
        let samples = self.of_name(name);
        samples.iter().flat_map(|sample| sample.labels.keys().map(String::as_str)).collect()
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line:?}"));
        let (name, mut rest) = line.split_at(end);
        assert!(is_name(name), "{line:?}");
        let mut labels = Labels::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                rest = label(rest, &mut labels);
            }
            rest = &rest[1..];
        }
        let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line:?}"));
        Self { name: name.to_owned(), labels, value }
    }
}

/// Takes one `name="value"` and its comma off.
fn label<'a>(rest: &'a str, labels: &mut Labels) -> &'a str {
    let (name, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {rest:?}"));
    assert!(is_name(name) && !name.contains(':'), "{name:?}");
    let mut end = None;
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let end = end.unwrap_or_else(|| panic!("an open quote: {rest:?}"));
    let value = unescaped(&quoted[..end], &['\\', '"', 'n']);
    assert!(labels.insert(name.to_owned(), value).is_none(), "{name} twice");
    let rest = &quoted[end + 1..];
    match rest.strip_prefix(',') {
        Some(more) => more,
        None => {
            assert!(rest.starts_with('}'), "{rest:?}");
            rest
        }
    }
}

fn unescaped(text: &str, allowed: &[char]) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = letters.next().unwrap_or_else(|| panic!("ends in a backslash: {text:?}"));
        assert!(allowed.contains(&escaped), "\\{escaped} in {text:?}");
        out.push(if escaped == 'n' { '\n' } else { escaped });
    }
    out
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}
