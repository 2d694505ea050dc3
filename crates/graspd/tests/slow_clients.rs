//! One place for pushes, and clients that take their time with it.

mod common;

use common::hosted::{Hosted, MAIN, refs};
use common::wire::{FRAMED, SlowPush, commands, posts, report};
use grasp_testkit::{Git, until};

const ONE_PLACE: [(&str, &str); 2] = [("NGIT_GIT_MAX_PUSHES", "1"), ("NGIT_GIT_QUEUE_SECS", "1")];

#[tokio::test]
async fn who_was_refused_and_still_talks_is_in_nobodys_way() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &ONE_PLACE).await;
    let second = hosted.tree.commit("README", "more").await;
    hosted.signs(&[(MAIN, second)]).await;
    let list = commands(&[(&first.to_hex(), &second.to_hex(), MAIN)], FRAMED);
    let not_a_pack = [list, vec![b'x'; 1 << 20]].concat();
    let talker = SlowPush::begins(&hosted.place(""), not_a_pack).await;
    hosted.pushes(&["main"]).await.expect("the place is free");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
    let told = report(&talker.ends().await);
    assert!(told.contains("refused"), "{told}");
}

#[tokio::test]
async fn who_finds_the_place_taken_is_told_to_come_back() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &ONE_PLACE).await;
    let second = hosted.tree.commit("README", "more").await;
    hosted.signs(&[(MAIN, second)]).await;
    let push = hosted.push_of(&first, &second).await;
    let slow = SlowPush::begins(&hosted.place(""), push.clone()).await;
    until("the first has the place", || async { hosted.incoming() == 1 }).await;

    let page = posts(&hosted.place(""), "git-receive-pack", &[], &push).await;
    assert_eq!(page.status, 503, "{page:?}");
    assert!(page.header("retry-after").is_some(), "{page:?}");
    assert_eq!(page.header("access-control-allow-origin"), Some("*"));

    let told = report(&slow.ends().await);
    assert!(told.contains(&format!("ok {MAIN}")), "{told}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}
