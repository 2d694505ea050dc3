//! Events between servers, on real sockets: what one of them takes, all of them serve.

mod common;

use common::mirrors::{Mirrors, metric};
use common::{THEN, alice, bob};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Repository, now, until};

const SENT: &str = "ngit_websocket_messages_sent_total{type=\"EVENT\"}";
const RECEIVED: &str = "ngit_websocket_messages_received_total{type=\"EVENT\"}";

fn issues(of: &Repository, by: &Author, count: u64, at: u64) -> Vec<VerifiedEvent> {
    (0..count).map(|n| of.issue(by, at, &format!("number {n} at {at}"))).collect()
}

/// Names nothing but the event it answers.
fn reply(to: &VerifiedEvent, by: &Author) -> VerifiedEvent {
    let (id, key) = (to.id.to_hex(), to.pubkey.to_hex());
    let draft = Draft::new(Kind(1111), now()).tag(&["E", &id]).tag(&["P", &key]);
    by.signs(draft.tag(&["e", &id]).content("I have seen this, too"))
}

#[tokio::test]
async fn s8_an_issue_on_one_server_appears_on_all_others() {
    let mirrors = Mirrors::start(3).await;
    let first = issues(&mirrors.acme, &alice(), 1, now());
    mirrors.publish(0, &first).await;
    mirrors.all_hold(&first).await;
    // All links are up now: the next ones come by themselves, wherever they are published.
    for at in 0..3 {
        let author = Author::number(2000 + u64::try_from(at).unwrap());
        let next = issues(&mirrors.acme, &author, 5, now());
        mirrors.publish(at, &next).await;
        mirrors.all_hold(&next).await;
    }
    for server in &mirrors.servers {
        until("live events are counted", || async {
            metric(server, "ngit_sync_events_total{source=\"live\"}").await >= 1
        })
        .await;
    }
}

#[tokio::test]
async fn s13_history_from_before_a_server_knew_the_repository_arrives() {
    let mirrors = Mirrors::vacant(2, |_| Vec::new()).await;
    mirrors.joins(0).await;
    let old: Vec<VerifiedEvent> =
        (0..300).flat_map(|n| issues(&mirrors.acme, &alice(), 1, THEN + n)).collect();
    let replies: Vec<VerifiedEvent> = old.iter().map(|issue| reply(issue, &bob())).collect();
    mirrors.publish(0, &old).await;
    mirrors.publish(0, &replies).await;
    mirrors.joins(1).await;
    mirrors.one_holds(1, &old).await;
    mirrors.one_holds(1, &replies).await;
    assert_eq!(metric(&mirrors.servers[1], RECEIVED).await, 2, "nobody handed them in");
}

#[tokio::test]
async fn s8_a_reply_to_a_root_arrives_though_it_names_no_repository() {
    let mirrors = Mirrors::start(2).await;
    let root = issues(&mirrors.acme, &alice(), 1, now());
    mirrors.publish(0, &root).await;
    mirrors.all_hold(&root).await;
    let answer = [reply(&root[0], &bob())];
    mirrors.publish(1, &answer).await;
    mirrors.all_hold(&answer).await;
    // And once replies are listened for, they need no history.
    let answer = [reply(&root[0], &alice())];
    mirrors.publish(0, &answer).await;
    mirrors.all_hold(&answer).await;
}

/// Two servers, two halves of a check, three events each, and once more after a minute.
const SAMPLED: u64 = 24;

#[tokio::test]
async fn two_servers_that_list_each_other_do_not_echo() {
    let mirrors = Mirrors::start(2).await;
    let first = issues(&mirrors.acme, &alice(), 1, now());
    mirrors.publish(0, &first).await;
    mirrors.all_hold(&first).await;
    let traffic = async || {
        let mut sum = 0;
        for server in &mirrors.servers {
            sum += metric(server, SENT).await;
        }
        sum
    };
    let (before, handed_in) = (traffic().await, metric(&mirrors.servers[1], RECEIVED).await);
    let many = issues(&mirrors.acme, &bob(), 50, now());
    mirrors.publish(0, &many).await;
    mirrors.all_hold(&many).await;
    let last = issues(&mirrors.acme, &alice(), 1, now() + 1);
    mirrors.publish(0, &last).await;
    mirrors.all_hold(&last).await;
    // Once there; and once back, because the other side listens too and cannot be told apart from
    // any client. A third time would be an echo. Beside them are the few that each asks the other for
    // by name, to see whether it has what it says.
    let sent = traffic().await - before;
    assert!(sent <= 2 * 51 + SAMPLED, "{sent} EVENT messages for 51 events");
    let pushed = metric(&mirrors.servers[1], RECEIVED).await - handed_in;
    assert_eq!(pushed, 0, "servers ask; they hand nothing in");
}

#[tokio::test]
async fn s5_after_a_power_cut_a_server_is_complete_again() {
    let mut mirrors = Mirrors::start(3).await;
    let before = issues(&mirrors.acme, &alice(), 20, now());
    mirrors.publish(1, &before).await;
    mirrors.all_hold(&before).await;
    mirrors.servers[1].kill().await;
    let meanwhile = issues(&mirrors.acme, &bob(), 20, now());
    mirrors.publish(0, &meanwhile[..10]).await;
    mirrors.publish(2, &meanwhile[10..]).await;
    let answers: Vec<VerifiedEvent> = before.iter().map(|issue| reply(issue, &bob())).collect();
    mirrors.publish(0, &answers).await;
    mirrors.servers[1].restart_in_place().await;
    for events in [&before, &meanwhile, &answers] {
        mirrors.all_hold(events).await;
    }
    // The others find it again, too.
    let after = issues(&mirrors.acme, &alice(), 5, now() + 1);
    mirrors.publish(1, &after).await;
    mirrors.all_hold(&after).await;
}
