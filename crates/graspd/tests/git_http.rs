//! Git's smart HTTP, byte by byte: what browsers, monitors and worse people send.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN, refs};
use common::wire::{
    EMPTY_PACK, FLUSH, FRAMED, SlowPush, ZERO, answer, commands, pkt, posts, report,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use grasp_core::Oid;
use grasp_testkit::{Git, Repository, http, until};
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const UPLOAD: &str = "/info/refs?service=git-upload-pack";

#[tokio::test]
async fn the_first_answer_says_what_clients_look_for() {
    let hosted = Hosted::announced(&Git::any(), &[]).await;
    for service in ["git-upload-pack", "git-receive-pack"] {
        for query in ["service={}", "a=b&service={}", "service={}&x"] {
            let query = query.replace("{}", service);
            let page = http("GET", &hosted.place(&format!("/info/refs?{query}")), &[]).await;
            assert_eq!(page.status, 200, "{query}");
            let kind = format!("application/x-{service}-advertisement");
            assert_eq!(page.header("content-type"), Some(kind.as_str()));
            assert!(page.header("cache-control").unwrap().contains("no-cache"));
            assert_eq!(page.header("access-control-allow-origin"), Some("*"));
            assert!(page.body.contains(&format!("# service={service}\n")));
            assert!(page.body.contains(&format!("{ZERO} capabilities^{{}}\0")), "{}", page.body);
        }
    }
    let page = http("GET", &hosted.place(UPLOAD), &[]).await;
    for word in ["allow-tip-sha1-in-want", "allow-reachable-sha1-in-want", "filter", "shallow"] {
        assert!(page.body.contains(word), "{word}");
    }
    assert!(!page.body.contains("symref=HEAD"), "HEAD names no branch that is not there");
    let second = http("GET", &hosted.place(UPLOAD), &[("Git-Protocol", "version=2")]).await;
    assert!(second.body.contains("version 2\n") && second.body.contains("filter"));
    assert!(!second.body.contains("unborn"), "{}", second.body);
    let head = http("HEAD", &hosted.place(UPLOAD), &[]).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-type"), page.header("content-type"));
    let (hosted, _) = Hosted::published(&Git::any(), &[]).await;
    let page = http("GET", &hosted.place(UPLOAD), &[]).await;
    assert!(page.body.contains("symref=HEAD:refs/heads/main"), "{}", page.body);
}

#[tokio::test]
async fn s56_an_address_gets_the_git_requests_that_are_published_and_then_429() {
    let settings =
        [("NGIT_GIT_REQUESTS_PER_MINUTE_PER_IP", "6"), ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8")];
    let (hosted, _) = Hosted::published(&Git::any(), &settings).await;
    let nostr = [("Accept", "application/nostr+json")];
    let document = http("GET", &hosted.server.address, &nostr).await.body;
    assert!(document.contains(r#""git_limits":{"requests_per_minute":6}"#), "{document}");
    let place = hosted.place(UPLOAD);
    let from = |address| [("X-Forwarded-For", address)];
    for _ in 0..6 {
        assert_eq!(http("GET", &place, &from("203.0.113.1")).await.status, 200);
    }
    let refused = http("GET", &place, &from("203.0.113.1")).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=11).contains(&wait), "{wait}");
    assert!(refused.body.contains("git requests per minute"), "{refused:?}");
    assert_eq!(http("GET", &place, &from("203.0.113.2")).await.status, 200, "another address");
}

#[tokio::test]
async fn the_ways_of_2008_and_paths_to_elsewhere_lead_nowhere() {
    let (hosted, first) = Hosted::published(&Git::any(), &[]).await;
    for rest in ["/info/refs", "/info/refs?service=", "/info/refs?service=git-upload-archive"] {
        let page = http("GET", &hosted.place(rest), &[]).await;
        assert!([403, 404].contains(&page.status), "{rest}: {}", page.status);
        assert!(!page.body.contains(&first.to_hex()), "{rest}");
    }
    let npub = hosted.acme.owner.key.to_npub();
    let root = &hosted.server.address;
    let places = [
        hosted.place("/HEAD"),
        hosted.place("/config"),
        hosted.place("/packed-refs"),
        hosted.place("/objects/info/packs"),
        hosted.place("/../acme.git/info/refs?service=git-upload-pack"),
        hosted.place("/.git/config"),
        format!("{root}/{npub}/..%2f{npub}%2facme.git{UPLOAD}"),
        format!("{root}/{npub}/%2e%2e.git{UPLOAD}"),
        format!("{root}/{npub}/acme%00.git{UPLOAD}"),
        format!("{root}/{npub}/ACME.git{UPLOAD}"),
        format!("{root}/{npub}/acme{UPLOAD}"),
        format!("{root}/{}/acme.git{UPLOAD}", npub.to_uppercase()),
        format!("{root}/{}/acme.git{UPLOAD}", hosted.acme.owner.key.to_hex()),
        format!("{root}/prs/{npub}/acme.git{UPLOAD}"),
        format!("{root}/.graspd/incoming"),
    ];
    for place in places {
        let page = http("GET", &place, &[]).await;
        assert_eq!(page.status, 404, "{place}");
        assert_eq!(page.header("access-control-allow-origin"), Some("*"), "{place}");
    }
    let unheard = Repository::new(common::bob(), "acme").clone_url(root);
    let unheard = unheard.trim_start_matches("http://");
    for rest in ["", UPLOAD, "/info/refs?service=git-receive-pack"] {
        assert_eq!(http("GET", &format!("{unheard}{rest}"), &[]).await.status, 404, "{rest}");
    }
    assert_eq!(posts(unheard, "git-receive-pack", &[], b"0000").await.status, 404);
    let preflight = http("OPTIONS", &hosted.place("/git-receive-pack"), &[]).await;
    assert_eq!(preflight.status, 204);
    let text = [("Content-Type", "text/plain"), ("Content-Length", "0")];
    assert_eq!(http("POST", &hosted.place("/git-upload-pack"), &text).await.status, 415);
}

#[tokio::test]
async fn a_probe_changes_nothing_and_succeeds() {
    let mut hosted = Hosted::announced(&Git::any(), &[]).await;
    let tip = hosted.tree.commit("README", "hello").await;
    let state = hosted.signs(&[(MAIN, tip)]).await;
    let page = posts(&hosted.place(""), "git-receive-pack", &[], FLUSH.as_bytes()).await;
    assert_eq!((page.status, page.body.as_str()), (200, ""));
    assert!(!hosted.serves(&state).await && !hosted.directory().exists());
}

#[tokio::test]
async fn a_refusal_comes_in_the_form_that_was_asked_for() {
    let hosted = Hosted::announced(&Git::any(), &[]).await;
    let new = "1".repeat(40);
    let push = |caps: &'static str| {
        let mut body = commands(&[(ZERO, &new, MAIN)], caps);
        body.extend_from_slice(EMPTY_PACK);
        body
    };
    let place = hosted.place("");
    let sends = async |body: Vec<u8>| posts(&place, "git-receive-pack", &[], &body).await;
    let framed = sends(push(FRAMED)).await;
    assert_eq!(framed.status, 200);
    let kind = Some("application/x-git-receive-pack-result");
    assert_eq!(framed.header("content-type"), kind);
    let reason = "no state event is waiting for this push";
    let unframed = format!(
        "{}{}{FLUSH}",
        pkt(&format!("unpack {reason}\n")),
        pkt(&format!("ng {MAIN} {reason}\n"))
    );
    assert_eq!(report(&framed), unframed);
    assert!(framed.body.contains("\u{2}nobody has signed"), "{:?}", framed.body);
    assert!(framed.body.ends_with("00000000"), "{:?}", framed.body);
    assert_eq!(sends(push("report-status")).await.body, unframed);
    assert_eq!(sends(push("")).await.body, pkt(&format!("ERR {reason}\n")));
}

#[tokio::test]
async fn what_is_already_so_is_ok_however_it_is_put() {
    let (hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let (tip, other) = (first.to_hex(), "1".repeat(40));
    let unchanged: [&[(&str, &str, &str)]; 4] = [
        &[(&tip, &tip, MAIN)],
        &[(ZERO, ZERO, "refs/heads/none")],
        &[(ZERO, &tip, MAIN)],
        &[(&other, ZERO, "refs/heads/none"), (&tip, &tip, MAIN)],
    ];
    for list in unchanged {
        let body = [&commands(list, "report-status")[..], EMPTY_PACK].concat();
        let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
        let oks: String = list.iter().map(|(_, _, name)| pkt(&format!("ok {name}\n"))).collect();
        assert_eq!(page.body, format!("{}{oks}{FLUSH}", pkt("unpack ok\n")), "{list:?}");
    }
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
}

/// libgit2 names refs it does not move, whatever it last saw of them.
#[tokio::test]
async fn a_command_that_moves_nothing_does_not_spoil_one_that_does() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    let (old, new, other) = (first.to_hex(), second.to_hex(), "1".repeat(40));
    let list = [(&*other, &*other, "refs/heads/gone"), (&*old, &*new, MAIN)];
    let body = [commands(&list, FRAMED), hosted.pack_of(&first, &second).await].concat();
    let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
    assert!(report(&page).contains("unpack ok"), "{page:?}");
    assert_eq!(hosted.shown().await, refs(&[(MAIN, second)]));
}

#[tokio::test]
async fn nothing_can_be_smuggled_past_the_command_list() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    let (old, new) = (first.to_hex(), second.to_hex());
    let right = format!("{old} {new} {MAIN}");
    let evil = format!("{ZERO} {new} refs/heads/evil");
    let lists = [
        [pkt(&format!("{right}\0{FRAMED}")), pkt(&format!("{evil}\0x"))].concat(),
        [pkt(&format!("{right}\0{FRAMED}\0y")), FLUSH.into()].concat(),
        [pkt(&format!("{right}\0{FRAMED}")), pkt(&right)].concat(),
        [pkt(&format!("shallow {old}")), pkt(&format!("{right}\0{FRAMED}"))].concat(),
        [pkt(&format!("push-cert\0{FRAMED}\n")), pkt("certificate version 0.1\n")].concat(),
        [pkt(&format!("{right}\0{FRAMED} push-options")), FLUSH.into(), pkt("x")].concat(),
        [pkt(&format!("{right}\0{FRAMED} object-format=sha256"))].concat(),
        [pkt(&format!("{right}\0{FRAMED}")), "0001".into(), pkt(&evil)].concat(),
        [pkt(&format!("{right}\n{evil}\0{FRAMED}"))].concat(),
        [pkt(&format!("{}\0{FRAMED}", right.to_uppercase()))].concat(),
        [pkt(&format!("{right} \0{FRAMED}"))].concat(),
        ["0003".into(), pkt(&right)].concat(),
        ["zzzz".into(), pkt(&right)].concat(),
        pkt(&format!("{right}\0{FRAMED}")).replacen("00", "ff", 1),
    ];
    for list in lists {
        let body = [list.as_bytes(), FLUSH.as_bytes(), EMPTY_PACK].concat();
        let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
        assert_eq!(page.status, 200, "{list:?}");
        assert!(page.body.contains('\u{3}'), "a sentence on the third band: {:?}", page.body);
        assert!(!page.body.contains("unpack ok"), "{list:?}");
    }
    // A right list with a pack that lacks its objects is refused, too.
    let body = [&commands(&[(&old, &new, MAIN)], FRAMED)[..], EMPTY_PACK].concat();
    let page = posts(&hosted.place(""), "git-receive-pack", &[], &body).await;
    assert!(page.body.contains("unpack missing objects"), "{:?}", page.body);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    hosted.pushes(&["main"]).await.expect("the honest push still works");
}

#[tokio::test]
async fn bodies_may_be_compressed_but_not_beyond_reason() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let gzip = [("Content-Encoding", "gzip")];
    let want = format!("{}{FLUSH}{}", pkt(&format!("want {first} ofs-delta\n")), pkt("done\n"));
    let page = posts(&hosted.place(""), "git-upload-pack", &gzip, &gzipped(want.as_bytes())).await;
    assert_eq!(page.status, 200);
    assert!(page.body.starts_with("0008NAK\nPACK"), "{:?}", page.body.get(..40));
    let second = hosted.tree.commit("README", "second").await;
    hosted.signs(&[(MAIN, second)]).await;
    let push = hosted.push_of(&first, &second).await;
    let page = posts(&hosted.place(""), "git-receive-pack", &gzip, &gzipped(&push)).await;
    assert!(page.body.contains("unpack ok"), "{:?}", page.body);
    let bomb = gzipped(&vec![b'0'; 300 << 20]);
    for service in ["git-upload-pack", "git-receive-pack"] {
        let page = posts(&hosted.place(""), service, &gzip, &bomb).await;
        assert!(page.status >= 400 || !page.body.contains("unpack ok"), "{service}: {page:?}");
    }
    assert!(hosted.server.anonymous_kib() < 64 << 10, "{} KiB", hosted.server.anonymous_kib());
    let odd = [("Content-Encoding", "br")];
    assert_eq!(posts(&hosted.place(""), "git-upload-pack", &odd, b"x").await.status, 415);
}

/// As git-natural-api asks in a browser: one object, no history.
#[tokio::test]
async fn a_browser_gets_single_objects() {
    let (hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let caps = "multi_ack_detailed side-band-64k ofs-delta no-progress object-format=sha1 filter";
    let body = [
        pkt(&format!("want {first} {caps}\n")),
        pkt("deepen 1\n"),
        pkt("filter blob:none\n"),
        FLUSH.into(),
        pkt("done\n"),
    ]
    .concat();
    let page = posts(&hosted.place(""), "git-upload-pack", &[], body.as_bytes()).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("application/x-git-upload-pack-result"));
    assert!(page.body.contains("\u{1}PACK"), "{:?}", page.body);
    let unknown = pkt(&format!("want {} {caps}\n", "1".repeat(40))) + FLUSH + &pkt("done\n");
    let page = posts(&hosted.place(""), "git-upload-pack", &[], unknown.as_bytes()).await;
    assert!(page.status == 200 && page.body.contains("ERR "), "{page:?}");
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let (hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let body = pkt(&format!("want {first} ofs-delta\n")) + FLUSH + &pkt("done\n");
    let place = hosted.place("/git-upload-pack");
    let (host, path) = place.split_once('/').unwrap();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nExpect: 100-continue\r\n\
         Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(host).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    socket.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(body.as_bytes()).await.unwrap();
    let page = answer(&mut socket).await;
    assert!(page.status == 200 && page.body.contains("PACK"), "{page:?}");
}

#[tokio::test]
async fn who_leaves_in_the_middle_of_a_push_leaves_nothing_behind() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let state = hosted.signs(&[(MAIN, second)]).await;
    let push = hosted.push_of(&first, &second).await;
    for _ in 0..3 {
        let slow = SlowPush::begins(&hosted.place(""), push.clone()).await;
        until("the push has begun", || async { hosted.incoming() == 1 }).await;
        drop(slow);
        until("its quarantine is gone", || async { hosted.incoming() == 0 }).await;
    }
    assert!(!hosted.serves(&state).await);
    assert_eq!(hosted.shown().await, refs(&[(MAIN, first)]));
    hosted.pushes(&["main"]).await.expect("a whole push");
    assert!(hosted.serves(&state).await);
}

#[tokio::test]
async fn three_thousand_refs_are_a_matter_of_seconds_and_a_hundred_thousand_are_refused() {
    let (mut hosted, first) = Hosted::published(&Git::any(), &[]).await;
    let second = hosted.tree.commit("README", "second").await;
    let new = second.to_hex();
    let names: Vec<String> = (0..100_000).map(|n| format!("refs/heads/b{n:06}")).collect();
    let commanded: Vec<(&str, &str, &str)> =
        names.iter().map(|name| (ZERO, new.as_str(), name.as_str())).collect();
    let signed: Vec<(&str, Oid)> = names[..3_000].iter().map(|it| (it.as_str(), second)).collect();
    let signed = [&[(MAIN, first)], &signed[..]].concat();
    hosted.signs(&signed).await;
    let pack = hosted.pack_of(&first, &second).await;
    let push = [commands(&commanded[..3_000], FRAMED), pack.clone()].concat();
    let began = Instant::now();
    let page = posts(&hosted.place(""), "git-receive-pack", &[], &push).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(page.body.contains("unpack ok"), "{:?}", page.body.get(..200));
    assert_eq!(report(&page).matches("ok refs/heads/b").count(), 3_000);
    assert_eq!(hosted.shown().await, refs(&signed));
    let flood = [commands(&commanded, FRAMED), pack].concat();
    let page = posts(&hosted.place(""), "git-receive-pack", &[], &flood).await;
    let words = ["refs in one push", "push fewer refs at a time"];
    assert!(words.iter().any(|it| page.body.contains(it)), "{:?}", page.body.get(..300));
    assert_eq!(hosted.shown().await, refs(&signed));
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}
