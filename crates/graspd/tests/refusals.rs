//! What a person reads when a push is refused, in full: no sentence of it may be false.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN, refs};
use common::{THEN, alice};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::{Git, Ran, WorkTree, http};

const SIGN: &str = "publish a state event (kind 30618) by a maintainer that lists exactly the \
                    branches and tags as they will be after the push, then push again";
const NO_STATE: &str = "no state event is waiting for this push";

/// What the server said to a person, in one line, and what git shows beside the first ref.
fn said(push: &Ran) -> (String, String) {
    assert!(!push.ok, "{push:?}");
    let remote = |line: &str| Some(line.strip_prefix("remote: ")?.trim().to_owned());
    let advice: Vec<String> = push.stderr.lines().filter_map(remote).collect();
    let rejected = push.stderr.lines().find(|line| line.contains("[remote rejected]"));
    let reason = rejected.and_then(|line| Some(line.rsplit_once(" (")?.1.trim_end_matches(')')));
    (advice.join(" "), reason.unwrap_or_default().to_owned())
}

/// Nothing is said but this, and nothing moves.
async fn is_refused(hosted: &Hosted, refspecs: &[&str], reason: &str, advice: &str) {
    let before = hosted.shown().await;
    let push = hosted.pushes(refspecs).await;
    assert_eq!(said(&push), (advice.to_owned(), reason.to_owned()), "{refspecs:?}");
    assert_eq!(hosted.shown().await, before, "{refspecs:?}");
}

fn place(event: &VerifiedEvent) -> String {
    format!("refs/nostr/{}", event.id)
}

#[tokio::test]
async fn every_refusal_of_a_branch_is_true_in_full() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let first = hosted.tree.commit("README", "hello").await;
    let advice = format!("nobody has signed where this push leads: {SIGN}");
    is_refused(&hosted, &["main"], NO_STATE, &advice).await;
    hosted.signs(&[(MAIN, first)]).await;
    hosted.pushes(&["main"]).await.expect("the first push");
    let second = hosted.tree.commit("README", "second").await;
    let third = hosted.tree.commit("README", "third").await;

    let differs = format!("{MAIN} would be at {second}, but the state says it is at {first}");
    let advice = format!(
        "the state in force says something else ({differs}), and no newer one waits: {SIGN}"
    );
    is_refused(&hosted, &[&format!("{second}:{MAIN}")], NO_STATE, &advice).await;

    let state = hosted.signs(&[(MAIN, third)]).await.id;
    let differs = format!("{MAIN} would be at {second}, but the state says it is at {third}");
    let (short, object) = (&state.to_hex()[..12], &third.to_hex()[..12]);
    let advice = format!(
        "state {short}… waits for git object {object}…; the state {state} says something else: \
         {differs}. To change that, {SIGN}"
    );
    let reason = "the push does not match the signed state";
    is_refused(&hosted, &[&format!("{second}:{MAIN}")], reason, &advice).await;

    let advice = "refs/foo/x is not a place this server accepts pushes to: use refs/heads/, \
                  refs/tags/ or refs/nostr/<64 lower-case hex characters>";
    let reason = "only refs/heads, refs/tags and refs/nostr/<event id> can be pushed";
    is_refused(&hosted, &[&format!("{first}:refs/foo/x")], reason, advice).await;
}

#[tokio::test]
async fn every_refusal_of_a_pull_request_is_true_in_full() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let third = hosted.tree.commit("README", "third").await;

    let never = format!("refs/nostr/{}", "ab".repeat(32));
    let advice = format!("{never} is not here, so there is nothing to delete");
    is_refused(&hosted, &[&format!(":{never}")], "there is no such ref to delete", &advice).await;

    hosted.signs(&[(MAIN, second)]).await;
    let mixed = [&format!("{second}:{MAIN}") as &str, &format!("{second}:{never}")];
    let advice = "push refs/nostr/<event id> in a push of its own, or publish its event first";
    let reason = "unpublished pull requests are pushed on their own";
    is_refused(&hosted, &mixed, reason, advice).await;

    let request = hosted.acme.pull_request(&alice(), THEN + 1_000, &third);
    let answer = hosted.client.publishes(&request).await;
    assert!(answer.ok, "{answer:?}");
    let at = place(&request);
    let id = request.id;
    let advice =
        format!("the pull request {id} proposes {third}: push that commit, or publish an update");
    let reason = "the pull request names another commit";
    is_refused(&hosted, &[&format!("{second}:{at}")], reason, &advice).await;

    hosted.pushes(&[&format!("{third}:{at}")]).await.expect("its commit");
    let advice = "a pull request's commits go when its event is deleted: publish a deletion \
                  (kind 5) of the event";
    let reason = "refs/nostr cannot be deleted by a push";
    is_refused(&hosted, &[&format!(":{at}")], reason, advice).await;

    let issue = hosted.acme.owner.signs(hosted.acme.issue_draft(THEN + 1_000, "an issue"));
    assert!(hosted.client.publishes(&issue).await.accepted());
    let (at, id) = (place(&issue), issue.id);
    let advice =
        format!("the event {id} is neither a pull request (kind 1618) nor an update (kind 1619)");
    let reason = "the event of that id is no pull request";
    is_refused(&hosted, &[&format!("{first}:{at}")], reason, &advice).await;
}

/// Two states of one second about `main`, the one with the lower id first.
fn of_one_second(hosted: &mut Hosted, one: &Oid, other: &Oid) -> [(VerifiedEvent, Oid); 2] {
    let at = hosted.later();
    let mut states = [one, other].map(|tip| {
        let owner = &hosted.acme.owner;
        (hosted.acme.state(owner, at, &[(MAIN, &tip.to_hex())], Some("main")), *tip)
    });
    states.sort_by_key(|(state, _)| state.id);
    states
}

#[tokio::test]
async fn of_two_states_of_one_second_the_later_push_is_told_the_cause_and_the_remedy() {
    let (mut hosted, _) = Hosted::published(&Git::any(), &[]).await;
    for served in [true, false] {
        let one = hosted.tree.commit("README", &format!("one {served}")).await;
        let other = hosted.tree.commit("README", &format!("other {served}")).await;
        let [(winner, tip), (loser, lost)] = of_one_second(&mut hosted, &one, &other);
        assert!(hosted.client.publishes(&winner).await.ok);
        if served {
            hosted.pushes(&[&format!("+{tip}:{MAIN}")]).await.expect("the state in force");
        }
        let answer = hosted.client.publishes(&loser).await;
        assert!(answer.ok, "{answer:?}");
        assert_eq!(
            answer.text,
            "duplicate: superseded: an event of the same second with a lower id is in force; sign \
             again a second later, then push again"
        );
        let advice = format!(
            "the state {} is of the same second as {}, and of those the lower id is in force: sign \
             the state again a second later, publish it, then push again",
            loser.id, winner.id
        );
        let reason = "another state of the same second is in force";
        is_refused(&hosted, &[&format!("+{lost}:{MAIN}")], reason, &advice).await;
        hosted.signs(&[(MAIN, lost)]).await;
        hosted.pushes(&[&format!("+{lost}:{MAIN}")]).await.expect("signed again, later");
    }
}

#[tokio::test]
async fn a_branch_must_point_to_a_commit_and_the_refusal_says_so() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let tree = hosted.tree.rev_parse("main^{tree}").await;
    let tag = hosted.tree.annotated_tag("v1", &first).await;
    let side = "refs/heads/side";
    for (object, kind) in [(tag, "tag"), (tree, "tree")] {
        // The tag object is new here, the tree is not.
        let (state, answer) = hosted.says(&[(MAIN, first), (side, object)], Some("main")).await;
        let why = format!(
            "{side} cannot point to {object}: a branch must point to a commit, and that object is \
             a {kind}; sign a state that names another object there"
        );
        assert!(answer.ok && !hosted.serves(&state).await, "{answer:?}");
        if kind == "tree" {
            let text = format!("purgatory: won't be served yet; it waits in vain: {why}");
            assert_eq!(answer.text, text);
        }
        let reason = "a ref of the signed state cannot be served";
        let advice = format!("{why}, then push that");
        is_refused(&hosted, &[&format!("{object}:{side}")], reason, &advice).await;
    }
    hosted.signs(&[(MAIN, first), (side, first)]).await;
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first), (side, first)]));
}

#[tokio::test]
async fn whoever_asks_a_waiting_repository_for_objects_hears_that_it_waits() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let first = hosted.tree.commit("README", "hello").await;
    hosted.signs(&[(MAIN, first)]).await;
    for protocol in [0, 2] {
        let git = Git::any().speaking(protocol);
        // Git has no place for words where nothing is listed: the clone is of an empty repository.
        WorkTree::clone(&git, &hosted.url(), &[]).await;
    }
    let stranger = WorkTree::init(&Git::any()).await;
    let fetch = stranger.fetch(&hosted.url(), &[&first.to_hex()]).await;
    assert!(!fetch.ok && fetch.says("this repository waits for its git data"), "{fetch:?}");
    let page = http("GET", &hosted.place(""), &[("accept", "text/html")]).await;
    assert!(page.body.contains("Until that is here, a clone of it is empty."), "{}", page.body);
}
