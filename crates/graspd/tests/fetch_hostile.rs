//! Git data from servers that somebody named and that mean no good: whatever they do is over soon,
//! costs little, leaves nothing behind and has a reason that a person can read. Beside each of them
//! stands an honest one that still gets its data through.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod snare;
mod sources;

use futures_util::future::join_all;
use grasp_core::Oid;
use grasp_engine::hunt::Outcome;
use grasp_testkit::forge::{Forge, Manner};
use grasp_testkit::{Git, WorkTree};
use graspd::fetch::{Part, Task};
use snare::Traps;
use sources::{MIB, Place, acme, nowhere, part, repo, task, text_without_port, without_port};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const PATH: &str = "mallory/acme.git";

/// A history of some size, so that every trick has something to work with.
async fn work() -> (WorkTree, Oid) {
    let tree = WorkTree::init(&Git::any()).await;
    let noise: String =
        (0..30_000_u64).map(|n| format!("{:x}\n", n.wrapping_mul(n ^ 0x5bd1_e995))).collect();
    tree.commit("noise", &noise).await;
    let tip = tree.commit("README", "hello").await;
    (tree, tip)
}

fn failed(why: &str) -> Outcome {
    Outcome::Failed(format!("127.0.0.1: {why}"))
}

fn lacks(why: &str) -> Outcome {
    Outcome::Lacks(format!("127.0.0.1: {why}"))
}

fn unacceptable(why: &str) -> Outcome {
    Outcome::Unacceptable(format!("127.0.0.1: {why}"))
}

/// How it ends, and with how many requests.
async fn ends(place: &Place, forge: &Forge, wants: &[Oid], bytes_max: u64) -> (Outcome, usize) {
    let before = forge.log().len();
    let evil = Task { bytes_max, ..task(&forge.url(PATH), vec![part(wants)]) };
    let mut desk = place.desk();
    let began = Instant::now();
    let end = place.fetcher.fetch(&evil, &mut desk).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(end.found.is_empty() && desk.brought.is_empty(), "{end:?}");
    let most = bytes_max + MIB;
    assert!(desk.received + end.bytes <= most, "{} of {bytes_max}", desk.received + end.bytes);
    place.leaves_nothing_behind().await;
    assert!(!place.layout.repository(&acme()).exists());
    (without_port(end.outcome), forge.log().len() - before)
}

#[tokio::test]
async fn every_trick_ends_with_a_reason_and_an_honest_server_is_heard_beside_it() {
    let place = Place::new().await;
    let (tree, tip) = work().await;
    let (evil, good) = (Forge::start().await, Forge::start().await);
    evil.mirrors(PATH, &tree).await;
    good.mirrors(PATH, &tree).await;
    let traps = Traps::set().await;
    let elsewhere = format!("http://127.0.0.1:{}", traps.port);
    let secs = |secs| Some(Duration::from_secs(secs));
    let html = "this is not the answer of a git server";
    for (manner, outcome, requests) in [
        (Manner::Lacks, lacks("it has no such repository (status 404)"), 1),
        (Manner::Status(410, None), lacks("it has no such repository (status 410)"), 1),
        (Manner::Status(403, None), lacks("it asks for a login (status 403)"), 1),
        (Manner::Auth401, lacks("it asks for a login (status 401)"), 1),
        (Manner::Status(500, None), failed("it is in trouble (status 500)"), 2),
        (Manner::Status(418, None), failed("it answers with status 418"), 2),
        (Manner::Status(206, None), failed("it answers with status 206"), 2),
        (Manner::Status(429, Some(7)), Outcome::SlowDown { retry_after: secs(7) }, 1),
        (Manner::Status(503, None), Outcome::SlowDown { retry_after: None }, 1),
        (Manner::Status(403, Some(9)), Outcome::SlowDown { retry_after: secs(9) }, 1),
        (Manner::Says("Rate limit exceeded".into()), Outcome::SlowDown { retry_after: None }, 1),
        (Manner::Says("go away".into()), failed("the server says: go away"), 3),
        (Manner::Html, failed(html), 2),
        (Manner::WrongContentType, failed(html), 2),
        (Manner::GzipBomb, failed("its answer is compressed, which nobody asked for"), 1),
        (Manner::HangUp, failed("it hung up"), 1),
        (Manner::Redirect(elsewhere), failed("it redirects elsewhere, which is not followed"), 1),
        (Manner::HangUpMidPack(30_000), failed("it hung up in the middle of its answer"), 1),
        (Manner::Truncate(30_000), failed("the answer ended too early"), 1),
        (Manner::Truncate(3), failed("the answer ended too early"), 4),
        (Manner::EndlessProgress, failed("the server talks without end"), 1),
        (Manner::EndlessPack, Outcome::TooLarge, 1),
        (Manner::Unrelated, failed("it sent other objects than those asked for"), 1),
        (Manner::ShallowAnswer, failed("the repository is shallow"), 1),
        (
            Manner::PackfileUris,
            failed("the server wants its pack to be fetched from somewhere else"),
            1,
        ),
        (Manner::CorruptPack, unacceptable("its pack is damaged"), 1),
        (Manner::Honest, unacceptable("its pack is damaged"), 0),
    ] {
        evil.behave(manner.clone());
        let ended = ends(&place, &evil, &[tip], 4 * MIB).await;
        assert_eq!(ended, (outcome, requests), "{manner:?}");
    }
    assert_eq!(traps.caught().await, 0, "nobody went there");
    let honest = task(&good.url(PATH), vec![Part { to: repo(2), ..part(&[tip]) }]);
    let end = place.fetch(&honest).await;
    assert_eq!((end.outcome, end.found.len()), (Outcome::Answered, 1));
    assert!(place.is_sound(&repo(2)));
}

#[tokio::test]
async fn s37_silence_in_every_form_ends_a_fetch() {
    let (tree, tip) = work().await;
    let in_the_middle = failed("it went silent in the middle of its answer");
    let forms = [
        (Manner::Stall, failed("it does not answer")),
        (Manner::SlowHeaders, failed("it does not answer")),
        (Manner::StallMidPack(0), in_the_middle.clone()),
        (Manner::StallMidPack(30_000), in_the_middle.clone()),
        (Manner::Drip(200), in_the_middle),
    ];
    let tree = &tree;
    join_all(forms.into_iter().map(|(manner, outcome)| async move {
        let place = Place::hasty().await;
        let evil = Forge::start_with(manner.clone()).await;
        evil.mirrors(PATH, tree).await;
        assert_eq!(ends(&place, &evil, &[tip], 4 * MIB).await, (outcome, 1), "{manner:?}");
    }))
    .await;
}

#[tokio::test]
async fn s37_a_slow_line_is_no_silence() {
    let place = Place::new().await;
    let (tree, tip) = work().await;
    let slow = Forge::start_with(Manner::Drip(100_000)).await;
    slow.mirrors(PATH, &tree).await;
    let end = place.fetch(&task(&slow.url(PATH), vec![part(&[tip])])).await;
    assert_eq!((end.outcome, end.found.len()), (Outcome::Answered, 1));
}

#[tokio::test]
async fn who_lists_objects_that_nobody_has_is_found_out_after_a_few_requests() {
    let place = Place::new().await;
    let (tree, _) = work().await;
    let lies: Vec<Oid> = (1..=50).map(nowhere).collect();
    let evil = Forge::start_with(Manner::LiesAboutRefs(lies.clone())).await;
    evil.mirrors(PATH, &tree).await;
    let (outcome, requests) = ends(&place, &evil, &lies, 4 * MIB).await;
    assert_eq!(outcome, failed("it lists refs whose objects it does not have"));
    assert!(requests <= 8, "{requests}");
}

#[tokio::test]
async fn words_of_strangers_are_short_and_plain() {
    let place = Place::new().await;
    let (tree, tip) = work().await;
    let long = format!("\u{1b}[31m{}\u{202e}evil\u{7}", "x".repeat(3_000));
    let evil = Forge::start_with(Manner::Says(long)).await;
    evil.mirrors(PATH, &tree).await;
    let (outcome, _) = ends(&place, &evil, &[tip], 4 * MIB).await;
    let Outcome::Failed(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.chars().count() <= 250 && !why.contains(char::is_control), "{why}");
    assert!(text_without_port(&why).starts_with("127.0.0.1: the server says: "), "{why}");
}

#[tokio::test]
async fn nobody_there_and_nobody_home() {
    let place = Place::new().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a.git", closed.local_addr().unwrap());
    drop(closed);
    let end = place.fetch(&task(&url, vec![part(&[nowhere(1)])])).await;
    assert_eq!(end.outcome, failed("connection refused"));
    let strangers = Task {
        rule: graspd::outbound::Rule::Strangers,
        ..task("https://no.such.host.invalid/a.git", vec![part(&[nowhere(1)])])
    };
    let end = place.fetch(&strangers).await;
    assert!(matches!(end.outcome, Outcome::Forbidden(_)), "{end:?}");
}
