//! The pages in a real browser: they load, they can be read by anybody on anything, they follow what
//! happens, and they need no JavaScript for any of it. Pictures are left in `target/screenshots`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;
mod look;
mod site;

use grasp_testkit::{Browser, Tab};
use look::{is_orderly, is_quiet, is_readable};
use serde_json::{Value, json};
use site::Site;
use std::path::Path;

async fn picture(tab: &Tab, name: &str) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let directory = target.join("screenshots");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(format!("{name}.png")), tab.screenshot().await).unwrap();
}

async fn brightness(tab: &Tab) -> f64 {
    let color = "getComputedStyle(document.body).backgroundColor";
    let color = tab.evaluates(color).await;
    let color = color.as_str().unwrap();
    let inside = color.split(['(', ')']).nth(1).unwrap();
    let parts: Vec<f64> =
        inside.split([',', ' ']).filter_map(|it| it.trim().parse().ok()).collect();
    assert!(parts.len() == 3, "a plain opaque colour, not {color}");
    parts.iter().sum::<f64>() / 3.0 / 255.0
}

#[tokio::test]
async fn every_page_loads_and_is_fit_for_everybody() {
    let (browser, mut site) = (Browser::start().await, Site::opens().await);
    site.is_told("An issue, so that there is something to tell").await;
    for (name, url) in site.pages() {
        let tab = browser.page().await;
        tab.is_dark(false).await;
        assert_eq!(tab.goes_to(&url).await, 200, "{name}");
        assert_eq!(tab.counts("h1").await, 1, "{name}");
        is_orderly(&tab, name).await;
        is_readable(&tab, name).await;
        assert!(brightness(&tab).await > 0.8, "{name} is light");
        picture(&tab, &format!("{name}-light")).await;
        tab.is_dark(true).await;
        assert!(brightness(&tab).await < 0.2, "{name} is dark");
        is_readable(&tab, &format!("{name}, dark")).await;
        picture(&tab, &format!("{name}-dark")).await;
        is_quiet(&tab, &site.origin(), name);
    }
}

#[tokio::test]
async fn every_page_fits_a_phone() {
    let (browser, site) = (Browser::start().await, Site::opens().await);
    for (name, url) in site.pages() {
        let tab = browser.page().await;
        tab.is_phone().await;
        assert_eq!(tab.goes_to(&url).await, 200, "{name}");
        let width = tab.evaluates("document.scrollingElement.scrollWidth").await;
        assert!(width.as_u64().unwrap() <= 390, "{name} is {width} wide");
        picture(&tab, &format!("{name}-phone")).await;
        tab.is_dark(true).await;
        picture(&tab, &format!("{name}-phone-dark")).await;
        is_quiet(&tab, &site.origin(), name);
    }
}

#[tokio::test]
async fn without_a_mouse_the_content_is_one_key_away() {
    let (browser, site) = (Browser::start().await, Site::opens().await);
    for (name, url) in site.pages() {
        let tab = browser.page().await;
        tab.goes_to(&url).await;
        tab.presses_tab().await;
        let focused = "(() => { const it = document.activeElement, box = it.getBoundingClientRect(); \
            return [it.getAttribute('href'), box.top >= 0 && box.left >= 0 && box.height > 10]; })()";
        let focused = tab.evaluates(focused).await;
        assert_eq!(focused[0], "#main", "{name}: {focused}");
        assert_eq!(focused[1], true, "{name}: who sees the focus sees where it is");
        tab.presses_tab().await;
        let outline = "(() => { const style = getComputedStyle(document.activeElement); \
            return style.outlineStyle !== 'none' || style.boxShadow !== 'none'; })()";
        assert_eq!(tab.evaluates(outline).await, true, "{name}: the focus is seen");
    }
}

#[tokio::test]
async fn pages_follow_what_happens_without_being_loaded_again() {
    let (browser, mut site) = (Browser::start().await, Site::opens().await);
    let (home, repository) = (browser.page().await, browser.page().await);
    home.goes_to(&site.origin()).await;
    repository.goes_to(&site.repository()).await;
    for tab in [&home, &repository] {
        tab.until("document.querySelector('#live').textContent === 'live'").await;
        tab.evaluates("window.marker = 'still here'").await;
    }
    let items = home.evaluates("document.querySelector('#activity').innerText").await;
    let events = repository.evaluates("document.querySelector('#facts').innerText").await;
    site.is_told("Something happens").await;
    home.until(&format!("document.querySelector('#activity').innerText !== {items}")).await;
    repository.until(&format!("document.querySelector('#facts').innerText !== {events}")).await;
    let tip = site.pushes("README.md", "# Changed\n\nwhile you read").await;
    repository.until(&format!("document.querySelector('#refs code[title=\"{tip}\"]')")).await;
    repository
        .until("document.querySelector('#readme').innerText.includes('while you read')")
        .await;
    for (tab, name) in [(&home, "home"), (&repository, "repository")] {
        assert_eq!(tab.evaluates("window.marker").await, "still here", "{name}");
        is_quiet(tab, &site.origin(), name);
        is_orderly(tab, name).await;
    }
    picture(&home, "home-live").await;
    picture(&repository, "repository-live").await;
}

#[tokio::test]
async fn relays_and_purgatory_follow_what_happens_too() {
    let (browser, mut site) = (Browser::start().await, Site::opens().await);
    let (relays, purgatory) = (browser.page().await, browser.page().await);
    relays.goes_to(&format!("{}/relays", site.origin())).await;
    purgatory.goes_to(&format!("{}/purgatory", site.origin())).await;
    relays.until("document.querySelector('#relays').innerText.includes('connected')").await;
    for tab in [&relays, &purgatory] {
        tab.until("document.querySelector('#live').textContent === 'live'").await;
        tab.evaluates("window.marker = 'still here'").await;
    }
    let before = relays.evaluates("document.querySelector('#relays').innerText").await;
    site.relay.drops_everyone();
    relays.until(&format!("document.querySelector('#relays').innerText !== {before}")).await;
    assert!(!purgatory.text("#held").await.contains("gamma"));
    site.holds("gamma").await;
    purgatory.until("document.querySelector('#held').innerText.includes('gamma')").await;
    for (tab, name) in [(&relays, "relays"), (&purgatory, "purgatory")] {
        assert_eq!(tab.evaluates("window.marker").await, "still here", "{name}");
        is_quiet(tab, &site.origin(), name);
    }
}

#[tokio::test]
async fn without_javascript_everything_is_there() {
    let (browser, mut site) = (Browser::start().await, Site::opens().await);
    site.is_told("An issue").await;
    let (clone, relay) = (site.repository(), site.relay.address().to_owned());
    let expected: Vec<(&str, Vec<&str>)> = vec![
        (
            "home",
            vec!["Acme's git", "For friends of Acme.", "ws://", "repositories", "relays connected"],
        ),
        ("repositories", vec!["acme"]),
        ("relays", vec![&relay, "127.0.0.1:9"]),
        (
            "repository",
            vec!["acme", &clone, "main", "topic", "v1", "Tools for everybody", "Mirrors"],
        ),
        ("purgatory", vec!["beta", "12121212"]),
    ];
    for ((name, url), (_, texts)) in site.pages().iter().zip(&expected) {
        let tab = browser.page().await;
        tab.without_javascript().await;
        assert_eq!(tab.goes_to(url).await, 200, "{name}");
        let shown = tab.text("body").await;
        for text in texts {
            assert!(shown.contains(text), "{name} does not say `{text}`: {shown}");
        }
        let scripted = tab.evaluates("document.querySelector('#live').hidden").await;
        assert_eq!(scripted, Value::Bool(true), "{name}: no script has run");
        is_orderly(&tab, name).await;
        is_quiet(&tab, &site.origin(), name);
    }
}

#[tokio::test]
async fn below_a_base_path_every_link_stays_below_it() {
    let (browser, mut site) = (Browser::start().await, Site::opens_below("/grasp").await);
    assert!(site.origin().ends_with("/grasp"));
    for (name, url) in site.pages() {
        let tab = browser.page().await;
        assert_eq!(tab.goes_to(&url).await, 200, "{name}");
        let strays = "[...document.querySelectorAll('[href], [src]')].map((it) => it.href || it.src)\
            .filter((it) => it.startsWith(location.origin) && !it.startsWith(location.origin + '/grasp/'))";
        assert_eq!(tab.evaluates(strays).await, json!([]), "{name}");
        is_quiet(&tab, &site.origin(), name);
    }
    let home = browser.page().await;
    home.goes_to(&format!("{}/", site.origin())).await;
    home.until("document.querySelector('#live').textContent === 'live'").await;
    site.is_told("Something happens").await;
    home.until("document.querySelector('#activity').innerText.includes('issue')").await;
    let link =
        "document.querySelector('#activity a').getAttribute('href').startsWith('/grasp/npub1')";
    assert_eq!(home.evaluates(link).await, true);
}

#[tokio::test]
async fn an_unfit_page_would_be_noticed() {
    let browser = Browser::start().await;
    let tab = browser.page().await;
    let page = "<body style='background:#fff;color:#999'><h1>a</h1><h3>grey words</h3><img src=x>\
        <svg></svg><input><a href='#nowhere'>go</a><a href=x></a><i id=a></i><i id=a></i><h1>b</h1>";
    tab.evaluates(&format!("document.documentElement.innerHTML = {}", json!(page))).await;
    let pale = tab.evaluates(look::READABLE).await;
    assert!(pale.as_array().unwrap().len() >= 2, "{pale}");
    let disorderly = tab.evaluates(look::ORDERLY).await.to_string();
    for what in [
        "no language",
        "no title",
        "one main",
        "2 h1",
        "h3 after h1",
        "no alt",
        "nameless: <svg",
        "no label",
        "leads nowhere",
        "nameless: <a",
        "id twice",
        "no viewport",
    ] {
        assert!(disorderly.contains(what), "`{what}` is not noticed: {disorderly}");
    }
}
