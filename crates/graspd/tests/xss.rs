//! Whatever strangers write, in names, descriptions, addresses, branches, READMEs, words of relays
//! and of git servers: on our pages, in our log and in our figures it is text.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;
mod hostile;
mod look;
mod scrape;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::holds;
use common::{THEN, alice, home};
use grasp_core::{Identifier, Kind, RefName, VerifiedEvent};
use grasp_testkit::behaviour::{Behaviour, Refuses};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::forge::Manner;
use grasp_testkit::{
    Author, Browser, Client, Draft, Forge, Git, Repository, Server, WorkTree, http, now, until,
};
use hostile::{HOSTILE, swallows};
use look::{is_inert, is_quiet};
use scrape::Scrape;
use serde_json::json;

/// What one repository carries.
const EACH: usize = 20;

/// Strangers' words, all over one server.
struct Fair {
    server: Server,
    client: Client,
    tree: WorkTree,
    relay: ChaosRelay,
    forge: Forge,
    stalls: Vec<Repository>,
}

impl Fair {
    async fn opens() -> Self {
        let home = home(&[
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_DOMAIN_ALIASES", DOMAIN),
            ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
            ("NGIT_METRICS_TOP_N_REPOS", "50"),
            ("NGIT_LOG_LEVEL", "debug"),
        ]);
        let server = home.serve().await;
        let client = Client::connect(&server.url()).await;
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let refuses = Refuses::All("restricted: \u{1b}[2J<script>window.__xss=1</script>\"'>\r\nX");
        let relay = ChaosRelay::start(Behaviour { refuses, ..Behaviour::common() }).await;
        let forge = Forge::start_with(Manner::Says(HOSTILE.concat())).await;
        Self { server, client, tree, relay, forge, stalls: Vec::new() }
    }

    /// Repositories whose every part was written by somebody hostile, pushed with a real git.
    async fn is_stocked(&mut self) {
        for (at, strings) in HOSTILE.chunks(EACH).enumerate() {
            let identifier = strings.iter().find(|it| it.parse::<Identifier>().is_ok());
            let identifier = identifier.map_or("plain", |it| *it);
            let owner = Author::number(100 + u64::try_from(at).unwrap());
            let stall = Repository::new(owner, identifier);
            let announced = stall.owner.signs(self.announcement(&stall, strings));
            self.publishes(&announced).await;
            self.is_pushed(&stall, strings).await;
            let id = [announced.id];
            until("it is served", || holds(&self.server, &id)).await;
            self.stalls.push(stall);
        }
    }

    fn announcement(&self, stall: &Repository, strings: &[&str]) -> Draft {
        let addresses = |own: String, scheme: &str| -> Vec<String> {
            let foreign = strings.iter().flat_map(|it| {
                [
                    (*it).to_owned(),
                    format!("{scheme}://evil.invalid/{it}"),
                    format!("{scheme}://{it}"),
                ]
            });
            std::iter::once(own).chain(foreign).collect()
        };
        let tag = |draft: Draft, name: &str, values: &[String]| {
            let values = values.iter().map(String::as_str);
            draft.tag(&std::iter::once(name).chain(values).collect::<Vec<_>>())
        };
        let mut draft = Draft::new(Kind::ANNOUNCEMENT, now()).tag(&["d", &stall.identifier]);
        draft = draft.tag(&["name", strings[0]]).tag(&["description", &strings.concat()]);
        draft = tag(draft, "web", &addresses("https://example.com/x?a=1&b=2".into(), "https"));
        draft = tag(draft, "clone", &addresses(stall.clone_url(DOMAIN), "https"));
        let relays = addresses(format!("ws://{DOMAIN}"), "wss");
        tag(tag(draft, "relays", &relays), "relays", &[self.relay.url().to_owned()])
    }

    async fn is_pushed(&mut self, stall: &Repository, strings: &[&str]) {
        let tip = self.tree.commit("README.md", &readme(strings)).await.to_hex();
        let odd = |c: char| c.is_control() || c.is_whitespace();
        let branches = strings.iter().filter(|it| !it.contains(odd)).filter_map(|it| {
            let name = format!("refs/heads/{it}");
            name.parse::<RefName>().ok().map(|_| name)
        });
        let branches: Vec<String> = branches.chain([MAIN.to_owned()]).collect();
        let refs: Vec<(&str, &str)> =
            branches.iter().map(|it| (it.as_str(), tip.as_str())).collect();
        let state = stall.state(&stall.owner, now(), &refs, Some("main"));
        self.publishes(&state).await;
        let refspecs: Vec<String> = branches.iter().map(|it| format!("+HEAD:{it}")).collect();
        let refspecs: Vec<&str> = refspecs.iter().map(String::as_str).collect();
        let url = stall.clone_url(&self.server.address);
        self.tree.push(&url, &refspecs).await.expect("the push of the state");
    }

    /// What waits is named by strangers too, and looked for where a hostile git server answers.
    async fn is_waited_for(&mut self) {
        let named = HOSTILE.iter().filter(|it| it.parse::<Identifier>().is_ok());
        for identifier in named.step_by(5).take(15) {
            let stall = Repository::new(Author::number(200), identifier);
            let draft = Draft::new(Kind::ANNOUNCEMENT, THEN).tag(&["d", identifier]);
            let clones = ["clone", &stall.clone_url(DOMAIN), &self.forge.url("x.git")];
            let draft = draft.tag(&clones).tag(&["relays", &format!("ws://{DOMAIN}")]);
            self.publishes(&stall.owner.signs(draft)).await;
            let missing = "34".repeat(20);
            let state = stall.state(&stall.owner, THEN, &[(MAIN, &missing)], Some("main"));
            self.publishes(&state).await;
        }
        self.forge.until_asked(1).await;
    }

    /// Words that come while somebody looks.
    async fn is_shouted_at(&mut self) {
        for (at, text) in HOSTILE.iter().enumerate() {
            self.relay.says(&json!(["NOTICE", text]).to_string());
            self.relay.says(&json!(["CLOSED", text, format!("error: {text}")]).to_string());
            self.relay.says(text);
            let stall = &self.stalls[at % self.stalls.len()];
            let draft = stall.issue_draft(now(), text).tag(&["subject", text]).tag(&["t", text]);
            let issue = alice().signs(draft);
            self.client.offers(&issue).await;
        }
        self.client.fence().await;
    }

    async fn publishes(&mut self, event: &VerifiedEvent) {
        let answer = self.client.publishes(event).await;
        assert!(answer.ok, "{answer:?}");
    }

    fn origin(&self) -> String {
        format!("http://{}", self.server.address)
    }
}

/// Each on its own in a list, where it cannot reach its neighbours; then one below the other, those
/// that swallow the rest at the end.
fn readme(strings: &[&str]) -> String {
    let mut text = String::from("# Words\n\n");
    for string in strings {
        text.push_str(&format!("- {}\n\n", string.replace('\n', "\n  ")));
    }
    for is_last in [false, true] {
        for string in strings.iter().filter(|it| swallows(it) == is_last) {
            text.push_str(&format!("\n\n{string}\n"));
        }
    }
    text
}

#[tokio::test]
async fn nothing_strangers_write_does_anything_on_any_page() {
    assert!(HOSTILE.len() >= 100);
    let (browser, mut fair) = (Browser::start().await, Fair::opens().await);
    let origin = fair.origin();
    let live = browser.page().await;
    live.goes_to(&origin).await;
    live.until("document.querySelector('#live').textContent === 'live'").await;
    fair.is_stocked().await;
    fair.is_waited_for().await;
    fair.is_shouted_at().await;
    live.until("document.querySelectorAll('#activity li').length > 20").await;
    is_inert(&live, &origin, "home, live").await;
    let lists = ["/", "/repos", "/relays", "/purgatory"].map(|path| format!("{origin}{path}"));
    let stalls = fair.stalls.iter().map(|it| it.clone_url(&fair.server.address));
    let mut said = String::new();
    for url in lists.into_iter().chain(stalls) {
        let tab = browser.page().await;
        assert_eq!(tab.goes_to(&url).await, 200, "{url}");
        is_inert(&tab, &origin, &url).await;
        said.push_str(&tab.text("body").await);
    }
    for text in ["<script>window.__xss=1</script>", "<svg onload=", "[click](", "javascript:"] {
        assert!(said.contains(text), "`{text}` is nowhere to be read");
    }
    nothing_is_echoed(&browser, &origin).await;
    nothing_steers_the_log_or_the_figures(&fair).await;
}

/// Addresses that lead nowhere, with hostile words in them.
async fn nothing_is_echoed(browser: &Browser, origin: &str) {
    let npub = Author::number(100).key.to_npub();
    let encoded = |text: &str| -> String { text.bytes().map(|it| format!("%{it:02X}")).collect() };
    let tab = browser.page().await;
    for text in HOSTILE.iter().step_by(6) {
        let text = encoded(text);
        for path in
            [format!("/{text}"), format!("/{npub}/{text}.git"), format!("/repos?after={text}")]
        {
            tab.goes_to(&format!("{origin}{path}")).await;
            assert_eq!(tab.evaluates("typeof window.__xss").await, "undefined", "{path}");
            assert_eq!(tab.counts("img[onerror], script:not([src]), iframe").await, 0, "{path}");
        }
    }
    assert_eq!(tab.dialogs(), [""; 0]);
    for asked in tab.seen().asked {
        assert!(asked.url.starts_with(origin) || asked.url == "about:blank", "{}", asked.url);
    }
    let api = browser.page().await;
    for path in ["/api/v1/repos", "/api/v1/purgatory", "/api/v1/relays", "/api/v1/status"] {
        let page =
            http("GET", &format!("{}{path}", origin.trim_start_matches("http://")), &[]).await;
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(page.header("content-type"), Some("application/json"), "{path}");
        serde_json::from_str::<serde_json::Value>(&page.body).unwrap();
        api.goes_to(&format!("{origin}{path}")).await;
        assert_eq!(api.evaluates("typeof window.__xss").await, "undefined", "{path}");
    }
    assert_eq!(api.dialogs(), [""; 0]);
}

async fn nothing_steers_the_log_or_the_figures(fair: &Fair) {
    let log = fair.server.log();
    assert!(log.len() > 100, "it is talkative: {} lines", log.len());
    for line in &log {
        let steers = |c: char| {
            c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!line.contains(steers), "{line:?}");
        assert!(!line.starts_with("2030-01-01"), "{line:?}");
    }
    let scrape = Scrape::of(&fair.server).await;
    assert_eq!(scrape.of_name("ngit_uptime_seconds").len(), 1);
    for sample in &scrape.samples {
        let hidden = sample.labels.values().any(|it| it.contains(char::is_control));
        assert!(!hidden && !sample.labels.contains_key("evil"), "{sample:?}");
    }
    assert!(scrape.of_name("ngit_git_top_repos_bytes").len() >= fair.stalls.len());
}

#[tokio::test]
async fn a_browser_that_is_fooled_would_be_noticed() {
    let browser = Browser::start().await;
    let tab = browser.page().await;
    let mut caught = 0;
    // Each as the whole of a page that does not escape anything.
    for text in HOSTILE.iter().filter(|it| it.starts_with('<')) {
        let page = format!("<!doctype html><meta charset=utf-8><body>{text}");
        let set = format!("document.open(); document.write({}); document.close()", json!(page));
        tab.evaluates("window.__xss = undefined").await;
        tab.evaluates(&set).await;
        let found = tab.evaluates(look::INERT).await;
        let is_set = tab.evaluates("window.__xss === 1").await == true;
        caught += usize::from(found != json!([]) || is_set || !tab.dialogs().is_empty());
    }
    assert!(caught >= 60, "only {caught} of them are more than text anywhere");
    let quiet = std::panic::catch_unwind(|| is_quiet(&tab, "http://127.0.0.1", "a hostile page"));
    assert!(quiet.is_err(), "it asked evil.invalid for something");
}
