use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::convert::Infallible;
use std::io::Write;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::best());
    to.write_all(text).unwrap();
    to.finish().unwrap()
}

fn sent(text: &[u8], step: usize) -> Body {
    let pieces: Vec<_> = text.chunks(step.max(1)).map(Bytes::copy_from_slice).collect();
    Body::from_stream(futures_util::stream::iter(pieces.into_iter().map(Ok::<_, Infallible>)))
}

fn up_to(bytes: u64) -> Drain {
    Drain { bytes, time: Duration::from_secs(60) }
}

async fn all(mut body: Inbound) -> Result<Vec<u8>, BadBody> {
    let mut text = Vec::new();
    while let Some(piece) = body.piece().await? {
        text.extend_from_slice(&piece);
    }
    assert!(body.ended().is_cancelled());
    Ok(text)
}

#[tokio::test]
async fn plain_and_compressed_bodies_read_the_same() {
    let text: Vec<u8> = (0..100_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
    let packed = gzip(&text);
    for step in [1_000, 16_384, 1 << 20] {
        let plain = Inbound::new(sent(&text, step), Encoding::Identity, u64::MAX);
        assert!(all(plain).await.as_ref() == Ok(&text));
        let zipped = Inbound::new(sent(&packed, step), Encoding::Gzip, u64::MAX);
        assert!(all(zipped).await.as_ref() == Ok(&text));
    }
}

#[tokio::test]
async fn what_is_handed_back_comes_first() {
    let mut body = Inbound::new(sent(b"commandsPACK...", 11), Encoding::Identity, 100);
    let piece = body.piece().await.unwrap().unwrap();
    assert_eq!(piece, "commandsPAC");
    body.unread(piece.slice(8..));
    assert!(body.expect_more(Duration::ZERO).await.unwrap());
    assert_eq!(all(body).await.unwrap(), b"PACK...");
}

#[tokio::test]
async fn a_body_may_end_where_its_commands_do() {
    let mut body = Inbound::new(sent(b"commands", 8), Encoding::Identity, 100);
    assert_eq!(body.piece().await.unwrap().unwrap(), "commands");
    assert!(!body.expect_more(Duration::from_secs(60)).await.unwrap());
    assert!(body.ended().is_cancelled());
    assert_eq!(body.piece().await, Ok(None));
}

#[tokio::test]
async fn no_more_comes_out_than_allowed() {
    let long = || Inbound::new(sent(&[b'x'; 1_000], 100), Encoding::Identity, 999);
    assert_eq!(all(long()).await, Err(BadBody::Long { max: 999 }));
    let zipped = Inbound::new(sent(&gzip(&[b'x'; 1_000]), 100), Encoding::Gzip, 999);
    assert_eq!(all(zipped).await, Err(BadBody::Long { max: 999 }));
    let mut body = long();
    while body.piece().await.is_ok() {}
    assert_eq!(body.piece().await, Err(BadBody::Long { max: 999 }), "it stays refused");
    assert_eq!(body.failed(), Some(&BadBody::Long { max: 999 }));
}

#[tokio::test]
async fn a_bomb_is_refused_after_a_megabyte() {
    let bomb = gzip(&vec![0; 64 << 20]);
    let mut body = Inbound::new(sent(&bomb, 16_384), Encoding::Gzip, 16 << 20);
    let mut came = 0;
    let refused = loop {
        match body.piece().await {
            Ok(piece) => came += piece.unwrap().len(),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, BadBody::Gzip(BadGzip::Bomb));
    assert!(came <= 1 << 20, "{came}");
}

#[tokio::test]
async fn a_compressed_body_that_breaks_off_is_no_body() {
    let packed = gzip(b"0000");
    let half = Inbound::new(sent(&packed[..packed.len() - 1], 100), Encoding::Gzip, 100);
    assert_eq!(all(half).await, Err(BadBody::Gzip(BadGzip::Truncated)));
}

#[tokio::test]
async fn who_leaves_in_the_middle_is_noticed() {
    let pieces = [Ok(Bytes::from_static(b"some")), Err(io::Error::other("reset"))];
    let body = Body::from_stream(futures_util::stream::iter(pieces));
    assert_eq!(all(Inbound::new(body, Encoding::Identity, 100)).await, Err(BadBody::Gone));
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let silent = || Body::from_stream(futures_util::stream::pending::<io::Result<Bytes>>());
    let mut body = Inbound::new(silent(), Encoding::Identity, 100);
    let slow = Err(BadBody::Slow(TooSlow));
    assert_eq!(body.expect_more(Duration::from_millis(1)).await, slow);
    assert_eq!(body.failed(), Some(&BadBody::Slow(TooSlow)));
}

#[tokio::test]
async fn the_rest_of_a_refused_request_is_let_in_up_to_a_point() {
    let mut body = Inbound::new(sent(&[b'x'; 1_000], 100), Encoding::Identity, 10);
    assert_eq!(body.drain(up_to(1_000)).await, Ok(true));
    assert!(body.ended().is_cancelled());
    let mut body = Inbound::new(sent(&[b'x'; 1_000], 100), Encoding::Gzip, 10);
    assert_eq!(body.drain(up_to(500)).await, Ok(false));
    assert!(body.wire_bytes() <= 600);
}

#[tokio::test]
async fn the_rest_of_a_refused_request_is_not_waited_for_without_end() {
    let silent = Body::from_stream(futures_util::stream::pending::<io::Result<Bytes>>());
    let mut body = Inbound::new(silent, Encoding::Identity, 100);
    let briefly = Drain { bytes: 100, time: Duration::from_millis(1) };
    assert_eq!(body.drain(briefly).await, Ok(false));
}

#[test]
fn encodings_nobody_uses_with_git_are_not_guessed() {
    let of = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
        }
        Encoding::of(&headers)
    };
    assert_eq!(of(&[]), Some(Encoding::Identity));
    assert_eq!(of(&["GZIP"]), Some(Encoding::Gzip));
    assert_eq!(of(&["x-gzip"]), Some(Encoding::Gzip));
    for odd in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["deflate"]] {
        assert_eq!(of(odd), None, "{odd:?}");
    }
}
