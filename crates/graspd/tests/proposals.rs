//! Pull requests and their commits below `refs/nostr/`, whichever of the two comes first.

mod common;

use common::hosted::{DOMAIN, Hosted, MAIN, PURGATORY, assert_refused, refs};
use common::{THEN, alice, bob, deletion};
use grasp_core::{Kind, Oid, VerifiedEvent};
use grasp_testkit::{Author, Client, Draft, Git, Ran, Reply, Repository, WorkTree, http, until};

const LATER: u64 = THEN + 1_000;

/// A served repository, and a contributor's commit that only she has.
struct Offer {
    hosted: Hosted,
    first: Oid,
    copy: WorkTree,
    tip: Oid,
}

impl Offer {
    async fn made(git: &Git, settings: &[(&str, &str)]) -> Self {
        let (hosted, first) = Hosted::published(git, settings).await;
        let copy = WorkTree::clone(git, &hosted.url(), &[]).await;
        let tip = copy.commit("README", "better").await;
        Self { hosted, first, copy, tip }
    }

    fn proposes(&self, tip: &Oid) -> VerifiedEvent {
        self.hosted.acme.pull_request(&alice(), LATER, tip)
    }

    async fn pushes(&self, tip: &Oid, event: &VerifiedEvent) -> Ran {
        self.copy.push(&self.hosted.url(), &[&format!("+{tip}:{}", place(event))]).await
    }

    /// Can a stranger get the commit, by its id or by the ref?
    async fn is_fetchable(&self, tip: &Oid, event: &VerifiedEvent) -> bool {
        let mut found = Vec::new();
        for protocol in [0, 2] {
            let stranger = WorkTree::init(&Git::any().speaking(protocol)).await;
            found.push(stranger.fetch(&self.hosted.url(), &[&tip.to_hex()]).await.ok);
            let stranger = WorkTree::init(&Git::any().speaking(protocol)).await;
            found.push(stranger.fetch(&self.hosted.url(), &[&place(event)]).await.ok);
        }
        assert!(found.iter().all(|it| *it == found[0]), "neither or both: {found:?}");
        found[0]
    }

    /// Is the commit among the objects of the repository itself?
    async fn is_inside(&self, tip: &Oid) -> bool {
        let directory = self.hosted.directory().display().to_string();
        self.copy.tries(&["--git-dir", &directory, "cat-file", "-e", &tip.to_hex()]).await.ok
    }

    async fn shows(&self, tip: &Oid, event: &VerifiedEvent) -> bool {
        self.hosted.shown().await == refs(&[(MAIN, self.first), (&place(event), *tip)])
    }
}

fn assert_waits(answer: &Reply) {
    assert!(answer.ok && answer.text.starts_with("purgatory:"), "{answer:?}");
}

fn place(event: &VerifiedEvent) -> String {
    format!("refs/nostr/{}", event.id)
}

#[tokio::test]
async fn a_commit_pushed_before_its_event_is_kept_apart_until_that_comes() {
    for git in Git::all() {
        let mut it = Offer::made(&git, &[]).await;
        let event = it.proposes(&it.tip);
        it.pushes(&it.tip, &event).await.expect("before the event");
        assert!(!it.is_fetchable(&it.tip, &event).await);
        assert!(!it.is_inside(&it.tip).await);
        it.pushes(&it.tip, &event).await.expect("again");
        it.hosted.crashes().await;

        let answer = it.hosted.client.publishes(&event).await;
        assert!(answer.accepted(), "everything is here: {answer:?}");
        assert!(it.hosted.serves(&event).await);
        assert!(it.shows(&it.tip, &event).await);
        assert!(it.is_fetchable(&it.tip, &event).await);
        assert!(it.is_inside(&it.tip).await);
        assert_eq!(it.hosted.incoming(), 0, "nothing is left apart");
    }
}

#[tokio::test]
async fn an_event_with_another_commit_sends_the_upload_away_and_waits() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let other = it.copy.commit("README", "other").await;
    let event = it.proposes(&other);
    it.pushes(&it.tip, &event).await.expect("before the event");
    let answer = it.hosted.client.publishes(&event).await;
    assert!(answer.text.starts_with(PURGATORY));
    assert!(!it.hosted.serves(&event).await);
    until("the upload is gone", || async { it.hosted.incoming() == 0 }).await;
    assert_refused(&it.pushes(&it.tip, &event).await, "the pull request names another commit");
    it.pushes(&other, &event).await.expect("the right commit");
    assert!(it.hosted.serves(&event).await);
    assert!(it.shows(&other, &event).await);
}

#[tokio::test]
async fn an_event_first_waits_for_exactly_its_commit() {
    for kind in [Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE] {
        let mut it = Offer::made(&Git::any(), &[]).await;
        let draft = Draft::new(kind, LATER).tag(&["a", &it.hosted.acme.coordinate()]);
        let event = alice().signs(draft.tag(&["c", &it.tip.to_hex()]));
        assert!(it.hosted.client.publishes(&event).await.text.starts_with(PURGATORY));
        let push = it.pushes(&it.first, &event).await;
        assert_refused(&push, &format!("proposes {}", it.tip));
        it.hosted.crashes().await;
        it.pushes(&it.tip, &event).await.expect("the right commit");
        assert!(it.hosted.serves(&event).await);
        assert!(it.is_fetchable(&it.tip, &event).await);
        assert_refused(&it.pushes(&it.first, &event).await, "names another commit");
        it.pushes(&it.tip, &event).await.expect("again");
        assert!(it.shows(&it.tip, &event).await);
    }
}

#[tokio::test]
async fn a_commit_that_is_here_already_needs_no_push() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let second = it.hosted.tree.commit("README", "second").await;
    it.hosted.signs(&[(MAIN, second)]).await;
    it.hosted.pushes(&["main"]).await.expect("the second push");
    let event = it.proposes(&it.first);
    let answer = it.hosted.client.publishes(&event).await;
    assert!(answer.accepted(), "{answer:?}");
    let shown = refs(&[(MAIN, second), (&place(&event), it.first)]);
    assert_eq!(it.hosted.shown().await, shown);
}

#[tokio::test]
async fn a_commit_that_is_the_tip_of_a_branch_needs_no_ref() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let event = it.proposes(&it.first);
    assert!(it.hosted.client.publishes(&event).await.accepted());
    assert!(it.hosted.serves(&event).await);
    assert_eq!(it.hosted.shown().await, refs(&[(MAIN, it.first)]));
    it.pushes(&it.first, &event).await.expect("nothing is missing");
    assert_eq!(it.hosted.shown().await, refs(&[(MAIN, it.first)]));
}

/// From which address a client seems to come, behind a trusted proxy.
const BEHIND_PROXY: [(&str, &str); 1] = [("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8")];

async fn from(hosted: &Hosted, address: &str) -> Client {
    Client::connect_with(&hosted.server.url(), &[("X-Forwarded-For", address)]).await
}

#[tokio::test]
async fn strangers_cannot_close_a_repository_to_pull_requests() {
    let mut it = Offer::made(&Git::any(), &BEHIND_PROXY).await;
    let spam = it.copy.commit("README", "spam").await;
    let first = it.hosted.acme.pull_request(&bob(), LATER, &spam);
    it.pushes(&spam, &first).await.expect("the commit all of them name");
    let mut clients = Vec::new();
    for number in 1..=9 {
        clients.push(from(&it.hosted, &format!("203.0.113.{number}")).await);
    }
    let (mut taken, mut refused) = (0, String::new());
    for number in 0..90_u64 {
        let author = Author::number(5_000 + number);
        let event = match number {
            0 => first.clone(),
            _ => it.hosted.acme.pull_request(&author, LATER + number, &spam),
        };
        let client = &mut clients[usize::try_from(number % 9).expect("a few")];
        let answer = client.publishes(&event).await;
        match answer.ok {
            true => taken += 1,
            false => refused = answer.text,
        }
    }
    assert_eq!(taken, 20, "{refused}");
    assert!(refused.contains("at most 20 pull requests"), "{refused}");
    assert!(refused.contains("the same commit"), "{refused}");
    let event = it.proposes(&it.tip);
    it.pushes(&it.tip, &event).await.expect("an honest push");
    let answer = from(&it.hosted, "198.51.100.7").await.publishes(&event).await;
    assert!(answer.accepted(), "{answer:?}");
    it.hosted.crashes().await;
    assert!(it.hosted.serves(&event).await);
    assert_eq!(
        it.hosted.shown().await.len(),
        22,
        "the branch, 20 of the same commit, and this one"
    );
    let again = it.hosted.acme.pull_request(&alice(), LATER + 200, &spam);
    let answer = from(&it.hosted, "198.51.100.7").await.publishes(&again).await;
    assert!(!answer.ok, "it is counted after a power cut: {answer:?}");
    // The owner closes one of them, and its place is free.
    let close = Draft::new(Kind(1632), LATER + 300).tag(&["e", &first.id.to_hex()]);
    let close = close.tag(&["a", &it.hosted.acme.coordinate()]);
    let stranger = bob().signs(close.clone());
    assert!(it.hosted.client.publishes(&stranger).await.ok);
    assert!(it.hosted.shown().await.contains_key(&place(&first)), "a stranger frees nothing");
    let close = it.hosted.acme.owner.signs(close);
    assert!(it.hosted.client.publishes(&close).await.ok);
    assert!(!it.hosted.shown().await.contains_key(&place(&first)));
    assert!(it.hosted.serves(&first).await, "the event stays");
    let answer = from(&it.hosted, "198.51.100.7").await.publishes(&again).await;
    assert!(answer.accepted(), "{answer:?}");
}

#[tokio::test]
async fn the_ref_goes_with_the_event_and_not_by_a_push() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let event = it.proposes(&it.tip);
    it.pushes(&it.tip, &event).await.expect("before the event");
    assert!(it.hosted.client.publishes(&event).await.accepted());
    let push = it.copy.push(&it.hosted.url(), &[&format!(":{}", place(&event))]).await;
    assert_refused(&push, "publish a deletion (kind 5) of the event");
    assert!(it.shows(&it.tip, &event).await);
    let request = deletion(&alice(), LATER + 1, &[&event]);
    assert!(it.hosted.client.publishes(&request).await.accepted());
    assert_eq!(it.hosted.shown().await, refs(&[(MAIN, it.first)]));
    let stranger = WorkTree::init(&Git::any()).await;
    assert!(!stranger.fetch(&it.hosted.url(), &[&place(&event)]).await.ok);
    let push = it.copy.push(&it.hosted.url(), &[&format!(":{}", place(&event))]).await;
    assert_refused(&push, "is not here, so there is nothing to delete");
}

#[tokio::test]
async fn two_uploads_for_one_event_lie_side_by_side_until_it_picks_one() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let other = it.copy.commit("README", "other").await;
    let event = it.proposes(&it.tip);
    it.pushes(&it.tip, &event).await.expect("the one");
    it.pushes(&other, &event).await.expect("somebody else's");
    assert!(it.hosted.client.publishes(&event).await.accepted());
    assert!(it.shows(&it.tip, &event).await);
    assert!(!it.is_inside(&other).await);
}

#[tokio::test]
async fn what_nobody_signed_for_is_pushed_on_its_own() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let event = it.proposes(&it.tip);
    it.hosted.signs(&[(MAIN, it.tip)]).await;
    let both = [format!("{}:{MAIN}", it.tip), format!("{}:{}", it.tip, place(&event))];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let push = it.copy.push(&it.hosted.url(), &both).await;
    assert_refused(&push, "push refs/nostr/<event id> in a push of its own");
    assert_eq!(it.hosted.shown().await, refs(&[(MAIN, it.first)]));
    assert!(it.hosted.client.publishes(&event).await.text.starts_with(PURGATORY));
    it.copy.push(&it.hosted.url(), &both).await.expect("both are signed for now");
    assert_eq!(
        it.hosted.shown().await,
        refs(&[(MAIN, it.tip)]),
        "the tip of a branch needs no ref"
    );
    assert!(it.hosted.serves(&event).await);
}

#[tokio::test]
async fn an_event_that_is_no_pull_request_here_has_no_ref() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let issue = it.hosted.acme.issue(&alice(), LATER, "no commit");
    assert!(it.hosted.client.publishes(&issue).await.accepted());
    assert_refused(&it.pushes(&it.tip, &issue).await, "the event of that id is no pull request");
    let elsewhere = Repository::new(bob(), "elsewhere");
    let announcement = elsewhere.announcement_listing(DOMAIN, THEN);
    assert!(it.hosted.client.publishes(&announcement).await.text.starts_with(PURGATORY));
    let event = elsewhere.pull_request(&alice(), LATER, &it.tip);
    assert_waits(&it.hosted.client.publishes(&event).await);
    assert_refused(&it.pushes(&it.tip, &event).await, "the pull request is for another repository");
}

#[tokio::test]
async fn a_pull_request_for_a_held_repository_comes_out_with_it() {
    for event_first in [true, false] {
        let mut hosted = Hosted::announced(&Git::any(), &[]).await;
        let first = hosted.tree.commit("README", "hello").await;
        let tip = hosted.tree.commit("README", "better").await;
        let event = hosted.acme.pull_request(&alice(), LATER, &tip);
        let proposal = format!("{tip}:{}", place(&event));
        if event_first {
            assert_waits(&hosted.client.publishes(&event).await);
            hosted.pushes(&[&proposal]).await.expect("to a held repository");
        } else {
            hosted.pushes(&[&proposal]).await.expect("to a held repository");
            assert_waits(&hosted.client.publishes(&event).await);
        }
        assert!(!hosted.serves(&event).await);
        assert!(!hosted.serves(&hosted.announcement.clone()).await, "it takes a state for that");
        hosted.signs(&[(MAIN, first)]).await;
        hosted.pushes(&[&format!("{first}:{MAIN}")]).await.expect("the signed state");
        assert!(hosted.serves(&event).await, "event first: {event_first}");
        assert_eq!(hosted.shown().await, refs(&[(MAIN, first), (&place(&event), tip)]));
    }
}

#[tokio::test]
async fn uploads_without_an_event_are_few() {
    let it = Offer::made(&Git::any(), &[("NGIT_GIT_MAX_UNCLAIMED_PER_REPOSITORY", "1")]).await;
    it.pushes(&it.tip, &it.proposes(&it.tip)).await.expect("the first");
    let second = it.hosted.acme.pull_request(&bob(), LATER, &it.tip);
    let push = it.pushes(&it.tip, &second).await;
    assert_refused(&push, "too many unpublished pull requests");
}

#[tokio::test]
async fn uploads_without_an_event_do_not_stay() {
    let mut it = Offer::made(&Git::any(), &[("NGIT_GIT_UNCLAIMED_SECS", "1")]).await;
    let event = it.proposes(&it.tip);
    it.pushes(&it.tip, &event).await.expect("before the event");
    until("uploads go", || async { it.hosted.incoming() == 0 }).await;
    assert!(it.hosted.client.publishes(&event).await.text.starts_with(PURGATORY));
    it.pushes(&it.tip, &event).await.expect("once more, for its event");
    assert!(it.hosted.serves(&event).await);
}

#[tokio::test]
async fn issues_and_pull_requests_are_counted_on_the_page_in_the_api_and_in_the_cli() {
    let mut it = Offer::made(&Git::any(), &[]).await;
    let event = it.proposes(&it.tip);
    it.pushes(&it.tip, &event).await.expect("before the event");
    assert!(it.hosted.client.publishes(&event).await.accepted());
    for number in 0..3 {
        let issue = it.hosted.acme.issue(&bob(), LATER + number, &format!("issue {number}"));
        assert!(it.hosted.client.publishes(&issue).await.accepted());
    }
    let (server, owner) = (&it.hosted.server, it.hosted.acme.owner.key.to_npub());
    let api = http("GET", &format!("{}/api/v1/repos/{owner}/acme", server.address), &[]).await;
    let api: serde_json::Value = serde_json::from_str(&api.body).expect("JSON");
    assert_eq!((&api["threads"]["open"], &api["threads"]["all"]), (&4.into(), &4.into()), "{api}");
    let page = http("GET", &it.hosted.place(""), &[]).await;
    assert!(page.body.contains("4 open, 4 in all"), "{}", page.body);
    let told =
        server.command(&["repo", &format!("{owner}/acme")]).output().await.expect("graspd repo");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("4 open of 4"), "{told}");
}
