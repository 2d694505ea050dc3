//! The browser sees what people would see, and notices what a hostile page would do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

use grasp_testkit::{Browser, Tab};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Serves this page to everybody who asks for anything; says where.
async fn site(policy: &'static str, page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 203 Fine\r\nContent-Type: text/html\r\nConnection: close\r\n\
                 Content-Security-Policy: {policy}\r\nContent-Length: {}\r\n\r\n{page}",
                page.len()
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}/")
}

const OPEN: &str = "default-src * data: 'unsafe-inline'";
const CALM: &str = "<!doctype html><link rel=icon href=data:,><title>t</title>\
    <style>@media (prefers-color-scheme: dark) { body { background: #000 } }</style>\
    <a href=#x>skip</a><h1>calm</h1><p id=late>early</p>\
    <script>setTimeout(() => late.textContent = 'late', 50)</script>";
const HOSTILE: &str = "<!doctype html><link rel=icon href=data:,>\
    <script>alert('fired'); console.error('broken'); throw new Error('thrown')</script>\
    <img src=http://elsewhere.invalid/pixel.png>";
const FORBIDDEN: &str = "<!doctype html><link rel=icon href=data:,>\
    <script>window.ran = 1</script><p>quiet</p>";

async fn on(browser: &Browser, policy: &'static str, page: &'static str) -> Tab {
    let tab = browser.page().await;
    assert_eq!(tab.goes_to(&site(policy, page).await).await, 203);
    tab
}

#[tokio::test]
async fn a_page_is_read_watched_and_pictured() {
    let browser = Browser::start().await;
    let tab = on(&browser, OPEN, CALM).await;
    assert_eq!(tab.text("h1").await, "calm");
    assert_eq!(tab.counts("p").await, 1);
    tab.until("late.textContent === 'late'").await;
    tab.presses_tab().await;
    assert_eq!(tab.evaluates("document.activeElement.textContent").await, "skip");
    let background = "getComputedStyle(document.body).backgroundColor";
    assert_ne!(tab.evaluates(background).await, "rgb(0, 0, 0)");
    tab.is_dark(true).await;
    assert_eq!(tab.evaluates(background).await, "rgb(0, 0, 0)");
    tab.is_phone().await;
    assert!(tab.evaluates("innerWidth").await.as_u64().is_some_and(|width| width >= 390));
    assert!(tab.screenshot().await.starts_with(b"\x89PNG"));
    assert_eq!(tab.console(), [""; 0]);
    assert_eq!(tab.dialogs(), [""; 0]);
}

#[tokio::test]
async fn what_a_hostile_page_does_is_noticed() {
    let browser = Browser::start().await;
    let tab = on(&browser, OPEN, HOSTILE).await;
    assert_eq!(tab.dialogs(), ["fired"]);
    let console = tab.console().join("\n");
    assert!(console.contains("broken") && console.contains("thrown"), "{console}");
    let foreign = tab.seen().asked;
    assert!(foreign.iter().any(|asked| asked.url.contains("elsewhere.invalid")), "{foreign:?}");
}

#[tokio::test]
async fn what_a_policy_forbids_is_noticed_and_scripts_can_be_off() {
    let browser = Browser::start().await;
    let tab = on(&browser, "default-src 'none'; img-src data:", FORBIDDEN).await;
    let console = tab.console().join("\n");
    assert!(console.contains("policy: "), "{console}");
    let tab = browser.page().await;
    tab.without_javascript().await;
    tab.goes_to(&site(OPEN, CALM).await).await;
    assert_eq!(tab.text("h1").await, "calm");
    let tab = browser.page().await;
    tab.without_javascript().await;
    tab.goes_to(&site(OPEN, FORBIDDEN).await).await;
    assert_eq!(tab.evaluates("window.ran").await, serde_json::Value::Null);
}
