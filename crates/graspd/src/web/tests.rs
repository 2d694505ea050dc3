//! Every page, drawn from what strangers would like it to be drawn from.

mod samples;

use super::*;
use crate::report::{Ledger, Purgatory, Relays, Repos};
use samples::{NOW, npub, pages, reference, relay, repo, site, status};

const NASTY: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<ScRiPt/src=//evil.example>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "\" onfocus=\"alert(1)\" autofocus=\"",
    "javascript:alert(1)",
    "jAvAsCrIpT:alert(1)//https://x.example",
    "data:text/html,<script>alert(1)</script>",
    "https://x.example/\" onclick=\"alert(1)",
    "</title><svg onload=alert(1)>",
    "</style><style>*{display:none}",
    "<!--",
    "-->",
    "]]>",
    "&lt;script&gt;",
    "{{7*7}}",
    "${7*7}",
    "\u{202e}gpj.exe",
    "\u{1b}[2J\u{7}",
    "a\u{0}b",
    "\u{2066}x",
    "\u{200b}\u{feff}",
    "'\"`=<>&/\\",
    "%3Cscript%3E",
    "npub1x/../../etc",
    "//evil.example",
    "\\\\evil.example",
];

/// What stands between `<` and `>`, as a browser would cut it, quotes respected.
fn tags(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let (mut tag, mut quote): (Option<String>, Option<char>) = (None, None);
    for c in page.chars() {
        match (&mut tag, quote) {
            (None, _) if c == '<' => tag = Some(String::new()),
            (None, _) => {}
            (Some(_), None) if c == '>' => tags.extend(tag.take()),
            (Some(text), _) => {
                text.push(c);
                match quote {
                    Some(open) if c == open => quote = None,
                    None if c == '"' || c == '\'' => quote = Some(c),
                    _ => {}
                }
            }
        }
    }
    assert!(tag.is_none(), "a tag is open at the end: {tag:?}");
    tags
}

/// The names of a tag's attributes, and their values.
fn attributes(tag: &str) -> Vec<(String, String)> {
    let mut rest = tag.split_once(char::is_whitespace).map_or("", |(_, rest)| rest).trim();
    let mut found = Vec::new();
    while !rest.is_empty() && rest != "/" {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        match after.strip_prefix("=\"") {
            Some(value) => {
                let (value, after) = value.split_once('"').unwrap();
                found.push((name.to_owned(), value.to_owned()));
                rest = after.trim_start();
            }
            None => {
                assert!(!after.starts_with('='), "an attribute without quotes in <{tag}>");
                found.push((name.to_owned(), String::new()));
                rest = after.trim_start();
            }
        }
    }
    found
}

/// A page that does only what its template says.
fn check(page: &str) {
    for tag in tags(page) {
        let name = tag.trim_start_matches('/').split(char::is_whitespace).next().unwrap();
        assert!(!matches!(name, "style" | "iframe" | "object" | "base" | "form"), "<{tag}>");
        for (attribute, value) in attributes(&tag) {
            assert!(!attribute.starts_with("on"), "a handler in <{tag}>");
            assert!(attribute != "style" && attribute != "srcdoc", "<{tag}>");
            if attribute == "href" || attribute == "src" {
                let ours =
                    ["/grasp/", "#", "https://"].iter().any(|start| value.starts_with(start));
                assert!(ours, "{value} in <{tag}>");
            }
        }
    }
    let script = "<script src=\"/grasp/assets/site-";
    let lower = page.to_lowercase();
    assert_eq!((lower.matches("<script").count(), page.matches(script).count()), (1, 1));
    assert_eq!(page.matches("<h1>").count(), 1, "one title");
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"), "{}", &page[..80]);
    for landmark in ["<main id=\"main\"", "<nav aria-label", "<header", "<footer", "class=\"skip\""]
    {
        assert!(page.contains(landmark), "{landmark}");
    }
    let hidden = |c: char| matches!(c, '\u{202e}' | '\u{2066}' | '\u{1b}' | '\u{0}' | '\u{200b}');
    // The topic is compared, not shown.
    let topic =
        page.split_once("data-topic=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    assert!(!page.replace(topic, "").contains(hidden), "what cannot be seen is not there");
}

#[test]
fn what_strangers_write_is_text_on_every_page() {
    for text in NASTY {
        for page in pages(&site(), text) {
            check(&page);
        }
    }
}

#[test]
fn what_the_operator_writes_is_text_as_well() {
    for text in NASTY {
        let site = Site { name: (*text).to_owned(), ..site() };
        for page in pages(&site, text) {
            check(&page);
        }
    }
}

#[test]
fn headings_go_down_one_step_at_a_time_and_ids_are_used_once() {
    for page in pages(&site(), "plain") {
        let (mut before, mut ids) = (0, std::collections::BTreeSet::new());
        for tag in tags(&page) {
            let level = tag.strip_prefix('h').and_then(|rest| rest.get(..1)?.parse::<u8>().ok());
            if let Some(level) = level {
                assert!(level <= before + 1, "<{tag}> follows h{before}");
                before = level;
            }
            for (attribute, value) in attributes(&tag) {
                if attribute == "id" {
                    assert!(ids.insert(value.clone()), "{value} twice");
                }
            }
        }
        for tag in tags(&page) {
            for (attribute, value) in attributes(&tag) {
                if attribute == "aria-labelledby" {
                    assert!(value.split(' ').all(|id| ids.contains(id)), "<{tag}> names nothing");
                }
            }
        }
    }
}

#[test]
fn every_link_of_ours_starts_with_the_base_path() {
    for page in pages(&site(), &format!("{}/acme", npub())) {
        assert!(page.contains("data-base=\"/grasp\""));
        assert!(!page.contains("href=\"/\"") && !page.contains("href=\"/repos"), "{page}");
    }
    let root = Site { base_path: String::new(), ..site() };
    let page = not_found(&root);
    assert!(page.contains("href=\"/repos\"") && page.contains("src=\"/assets/site-"), "{page}");
}

#[test]
fn assets_are_found_by_the_names_pages_use_and_by_no_other() {
    let page = not_found(&site());
    for ending in ["css", "js", "svg"] {
        let names = page.split("/grasp/assets/").skip(1).filter_map(|rest| rest.split('"').next());
        let name = names.into_iter().find(|name| name.ends_with(ending)).unwrap();
        let asset = asset(name).unwrap();
        assert!(!asset.bytes.is_empty() && asset.etag.starts_with('"'));
    }
    for name in ["", "site.css", "../site.css", "site-0000000000000000.css"] {
        assert!(asset(name).is_none(), "{name}");
    }
    let script = asset(&assets::ASSETS.script.name).unwrap();
    assert!(script.bytes.len() < 8 << 10, "the script is small: {}", script.bytes.len());
    let text = std::str::from_utf8(script.bytes).unwrap();
    assert!(!text.contains("innerHTML") && !text.contains("eval("));
}

#[test]
fn an_empty_server_says_so_kindly() {
    let mut status = status("Orchard");
    (status.activity, status.problems, status.ledger) = (vec![], vec![], Ledger::default());
    let home = home(&site(), &status);
    for words in ["All is well", "Nothing has been compared yet", "Nothing has happened"] {
        assert!(home.contains(words), "{words}");
    }
    let none = relays(&site(), &Relays { now: NOW, relays: vec![], next: None });
    assert!(none.contains("No relay is followed yet"));
    let none = repos(&site(), &Repos { now: NOW, repositories: vec![], next: None });
    assert!(none.contains("No repository is here yet"));
    let next = Some("17-ab".to_owned());
    let none = repos(&site(), &Repos { now: NOW, repositories: vec![], next });
    assert!(!none.contains("No repository is here yet") && none.contains("the list goes on"));
    assert!(none.contains("href=\"/grasp/repos?after=17-ab\" rel=\"next\""), "{none}");
    let none = purgatory(&site(), &Purgatory { now: NOW, total: 0, held: vec![], next: None });
    assert!(none.contains("Nothing waits here"));
    let mut repo = repo("acme");
    (repo.refs, repo.refs_total, repo.explain) = (vec![], 0, vec![]);
    let page = repository(&site(), &repo, None);
    assert!(page.contains("Nothing has been pushed") && page.contains("Nothing is in the way"));
}

#[test]
fn a_repository_page_tells_how_to_clone_and_where_to_look() {
    let npub = npub();
    let mut repo = repo("acme tools");
    repo.name = String::new();
    repo.clone = format!("https://git.example:8443/grasp/{npub}/acme%20tools.git");
    repo.nostr = format!("nostr://{npub}/git.example%3A8443%2Fgrasp/acme%20tools");
    let page = repository(&site(), &repo, None);
    for part in [
        format!("git clone https://git.example:8443/grasp/{npub}/acme%20tools.git"),
        format!("git clone nostr://{npub}/git.example%3A8443%2Fgrasp/acme%20tools"),
        format!("\"https://gitworkshop.dev/{npub}/git.example%3A8443%2Fgrasp/acme%20tools\""),
        format!("\"https://viewsource.win/{npub}/acme%20tools\""),
        format!("data-topic=\"repo:{npub}/acme tools\""),
        "<h1>acme tools</h1>".to_owned(),
        "in 12 min".to_owned(),
        "16 Nov 2025, 10:15 UTC".to_owned(),
        "<time datetime=\"2025-11-16T10:15:05Z\"".to_owned(),
        "more than 2 open".to_owned(),
        "not signed".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} is missing in\n{page}");
    }
}

#[test]
fn many_relays_and_many_refs_are_still_a_page() {
    let all = (0..200).map(|n| relay(&format!("wss://relay-{n}.example"))).collect();
    let page = relays(&site(), &Relays { now: NOW, relays: all, next: None });
    assert_eq!(page.matches("<article").count(), 200);
    check(&page);
    let mut repo = repo("acme");
    repo.refs = (0..1_000).map(|n| reference(&format!("refs/heads/b{n}"))).collect();
    repo.head = Some("refs/heads/b700".to_owned());
    repo.refs_total = 5_000;
    let page = repository(&site(), &repo, None);
    check(&page);
    assert!(
        page.contains("<summary>990 more</summary>") && page.contains("4,000 more are not shown")
    );
    let first = page.split("class=\"refs\"").nth(1).unwrap();
    assert!(first.find(">b700<").unwrap() < first.find(">b0<").unwrap(), "HEAD is first");
    assert!(page.len() < 500_000, "{}", page.len());
}

#[test]
fn a_repository_whose_state_waits_does_not_say_that_none_is_signed() {
    let mut it = repo("acme");
    it.state = None;
    it.held = vec![crate::report::Held { kind: 30_618, ..samples::held("waits for a commit") }];
    let page = repository(&site(), &it, None);
    assert!(page.contains("signed, and waits for its git data"), "{page}");
    assert!(!page.contains("none is signed yet"), "{page}");
    it.held.clear();
    assert!(repository(&site(), &it, None).contains("none is signed yet"));
}
