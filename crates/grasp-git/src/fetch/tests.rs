use super::*;
use crate::pktline::Band;
use proptest::prelude::*;

#[test]
fn a_request_of_version_2_asks_for_objects_and_nothing_special() {
    let request = request_v2(&set(&[1, 2]), &[oid(3)]);
    let (one, two, three) = (oid(1), oid(2), oid(3));
    let expected = format!(
        "0012command=fetch\n{}0001000ethin-pack\n000eofs-delta\n0010no-progress\n\
         0032want {one}\n0032want {two}\n0032have {three}\n0009done\n0000",
        packet(AGENT),
    );
    assert_eq!(text(&request), expected);
    assert_eq!(
        text(&ls_refs_v2(&["refs/heads/", "refs/tags/"])),
        format!(
            "0014command=ls-refs\n{}00010009peel\n001bref-prefix refs/heads/\n\
             001aref-prefix refs/tags/\n0000",
            packet(AGENT)
        )
    );
}

#[test]
fn a_sample_is_the_wanted_objects_and_nothing_before_them() {
    let (one, files) = (oid(1), sample_v2(&set(&[1]), Sample::Files));
    let expected = format!(
        "0012command=fetch\n{}0001000eofs-delta\n0010no-progress\n000ddeepen 1\n\
         0032want {one}\n0009done\n0000",
        packet(AGENT)
    );
    assert_eq!(text(&files), expected);
    let bare = sample_v2(&set(&[1]), Sample::Bare);
    assert_eq!(text(&bare), expected.replace("deepen 1\n", "deepen 1\n0012filter tree:0\n"));
}

#[test]
fn s51_commits_are_asked_for_without_what_is_in_them() {
    let request = commits_v2(&set(&[1]), &[oid(3)]);
    let expected = format!(
        "0012command=fetch\n{}0001000eofs-delta\n0010no-progress\n0012filter tree:0\n\
         0032want {}\n0032have {}\n0009done\n0000",
        packet(AGENT),
        oid(1),
        oid(3),
    );
    assert_eq!(text(&request), expected);
}

#[test]
fn a_history_cut_off_is_understood_where_it_was_asked_for() {
    let mut cut = lines_only(&["shallow-info", &format!("shallow {}", oid(1))]);
    assert!(matches!(pack(Answer::v2(), &cut, 1_000), Err(Refusal::Shallow)));
    pktline::delim(&mut cut);
    cut.extend(lines_only(&["packfile"]));
    pktline::band(&mut cut, Band::Data, b"PACK of it");
    pktline::flush(&mut cut);
    for piece_len in [1, 7, 1_000] {
        assert_eq!(pack(Answer::sample_v2(), &cut, piece_len), Ok(b"PACK of it".to_vec()));
    }
    let mut answer = Answer::sample_v2();
    assert!(!answer.has_begun() && !answer.is_at_pack());
    answer.push(&cut[..3]).unwrap();
    assert!(answer.has_begun() && !answer.is_at_pack());
    answer.push(&cut[3..cut.len() - 19]).unwrap();
    assert!(answer.is_at_pack());
}

#[test]
fn a_request_of_version_0_uses_what_was_offered() {
    let all =
        caps("multi_ack thin-pack side-band side-band-64k ofs-delta shallow no-progress agent=x");
    let request = request_v0(&set(&[1, 2]), &[oid(3)], &all);
    let words = format!("side-band-64k thin-pack ofs-delta no-progress {AGENT}");
    let (one, two, three) = (oid(1), oid(2), oid(3));
    let expected = format!(
        "{}0032want {two}\n00000032have {three}\n0009done\n",
        packet(&format!("want {one} {words}"))
    );
    assert_eq!(text(&request), expected);
    let bare = request_v0(&set(&[1]), &[], &V0Caps::default());
    assert_eq!(text(&bare), format!("0032want {one}\n00000009done\n"));
    assert_eq!(request_v0(&set(&[]), &[], &all), b"0000");
    assert_eq!(caps("side-band").chosen(), "side-band");
}

#[test]
fn types_are_compared_without_their_parameters() {
    assert!(is_type("application/x-git-upload-pack-result", RESULT_TYPE));
    assert!(is_type("Application/X-Git-Upload-Pack-Result ; charset=x", RESULT_TYPE));
    assert!(!is_type("text/html", RESULT_TYPE));
    assert!(!is_type("", ADVERT_TYPE));
}

#[test]
fn an_advertisement_of_version_2_is_known_with_and_without_its_service_line() {
    let offers = ["version 2", "agent=x", "ls-refs=unborn", "fetch=shallow", "object-format=sha1"];
    let plain = lines(&offers);
    assert_eq!(advert(&plain), Ok(Advert::V2));
    let service = [&lines(&["# service=git-upload-pack"])[..], &plain].concat();
    assert_eq!(advert(&service), Ok(Advert::V2));
    let other = lines(&["version 2", "ls-refs", "fetch", "object-format=sha256"]);
    assert_eq!(advert(&other), Err(Refusal::ObjectFormat));
    assert!(matches!(advert(&lines(&["version 2", "ls-refs"])), Err(Refusal::Malformed(_))));
}

#[test]
fn an_advertisement_of_version_0_lists_tips_and_what_tags_are_of() {
    let (one, two) = (oid(1), oid(2));
    let first =
        format!("{one} HEAD\0 side-band-64k symref=HEAD:refs/heads/main allow-any-sha1-in-want");
    let refs = [
        format!("{one} refs/heads/main"),
        format!("{two} refs/tags/v1"),
        format!("{one} refs/tags/v1^{{}}"),
        format!("{one} refs/heads/a b\u{1b}[2J"),
    ];
    for version in [&[][..], &["version 1"]] {
        let listed = refs.iter().map(String::as_str);
        let all: Vec<&str> = version.iter().copied().chain([&*first]).chain(listed).collect();
        let page = [&lines(&["# service=git-upload-pack"])[..], &lines(&all)].concat();
        let Ok(found @ Advert::V0 { .. }) = advert(&page) else { panic!("{:?}", advert(&page)) };
        assert!(found.offers(&oid(9)), "it takes any want");
        let Advert::V0 { caps, refs } = found else { panic!("not version 0") };
        assert!(caps.side_band_64k && caps.allow_any && caps.banded() && !caps.thin_pack);
        let kinds: Vec<RefKind> = refs.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [RefKind::Other, RefKind::Branch, RefKind::Tag, RefKind::Branch]);
        assert_eq!((refs[2].oid, refs[2].peeled), (two, Some(one)));
    }
}

#[test]
fn only_what_is_listed_is_offered_by_a_server_that_says_so() {
    let page = lines(&["# service=git-upload-pack"]);
    let page = [page, lines(&[&format!("{} refs/heads/main\0ofs-delta", oid(1))])].concat();
    let found = advert(&page).unwrap();
    assert!(found.offers(&oid(1)) && !found.offers(&oid(2)) && Advert::V2.offers(&oid(2)));
}

#[test]
fn an_empty_repository_is_an_empty_list() {
    let zero = "0".repeat(40);
    let service = lines(&["# service=git-upload-pack"]);
    let with_line = lines(&[&format!("{zero} capabilities^{{}}\0ofs-delta object-format=sha1")]);
    let Ok(Advert::V0 { caps, refs }) = advert(&[&service[..], &with_line].concat()) else {
        panic!("not understood")
    };
    assert!(caps.ofs_delta && refs.is_empty());
    let bare = advert(&[&service[..], b"0000"].concat());
    assert_eq!(bare, Ok(Advert::V0 { caps: V0Caps::default(), refs: Vec::new() }));
}

#[test]
fn advertisements_that_lead_nowhere_are_refused() {
    let service = || lines(&["# service=git-upload-pack"]);
    let with = |line: &str| advert(&[service(), lines(&[line])].concat());
    assert_eq!(advert(b"<!DOCTYPE html>"), Err(Refusal::NotGit));
    assert_eq!(advert(b""), Err(Refusal::NotGit));
    assert_eq!(advert(b"0000"), Err(Refusal::NotGit));
    assert_eq!(advert(&lines(&["# service=git-receive-pack"])), Err(Refusal::NotGit));
    let dumb = format!("{}\trefs/heads/main\n", oid(0x01));
    assert_eq!(advert(dumb.as_bytes()), Err(Refusal::NotGit), "a list for dumb clients");
    assert_eq!(advert(&service()), Err(Refusal::Truncated));
    assert_eq!(with("ERR no such repository"), Err(Refusal::Said("no such repository".into())));
    assert!(matches!(with("ERR rate limit"), Err(Refusal::Said(said)) if wants_slowdown(&said)));
    let long = format!("{} refs/heads/main\0object-format=sha256", "a".repeat(64));
    assert_eq!(with(&long), Err(Refusal::ObjectFormat));
    let shallow =
        [service(), lines(&[&format!("{} HEAD\0x", oid(1)), &format!("shallow {}", oid(2))])];
    assert_eq!(advert(&shallow.concat()), Err(Refusal::Shallow));
    assert!(matches!(with("nonsense"), Err(Refusal::Malformed(_))));
}

#[test]
fn lists_have_an_end() {
    let mut reader = RefsReader::new();
    let mut bytes = Vec::new();
    for n in 0..REFS_MAX {
        pktline::data(&mut bytes, format!("{} r{n}", oid(1)).as_bytes());
    }
    reader.push(&bytes).unwrap();
    assert!(size_of::<Listed>() <= 48, "a full list takes less than ten megabytes");
    let one_more = lines_only(&[&format!("{} x", oid(1))]);
    assert_eq!(reader.push(&one_more), Err(Refusal::ManyRefs { max: REFS_MAX }));

    let mut reader = AdvertReader::new();
    let mut page = b"000eversion 2\n".to_vec();
    pktline::data(&mut page, &[b'x'; 60_000]);
    reader.push(&page).unwrap();
    let mut line = Vec::new();
    pktline::data(&mut line, &[b'x'; 60_000]);
    let refused = (0..300).find_map(|_| reader.push(&line).err());
    assert_eq!(refused, Some(Refusal::LongList { max: LIST_BYTES_MAX }));
    assert_eq!(reader.finish(), Err(Refusal::LongList { max: LIST_BYTES_MAX }));
}

#[test]
fn refs_of_version_2_are_read_with_what_tags_are_of() {
    let (one, two) = (oid(1), oid(2));
    let answer = lines(&[
        "unborn HEAD symref-target:refs/heads/main",
        &format!("{one} HEAD symref-target:refs/heads/main"),
        &format!("{two} refs/tags/v1 peeled:{one}"),
    ]);
    let refs = refs_of(&answer).unwrap();
    assert_eq!(refs.len(), 2);
    assert_eq!(refs[1], Listed { kind: RefKind::Tag, oid: two, peeled: Some(one) });
    assert_eq!(refs_of(b"0000"), Ok(Vec::new()));
    assert_eq!(refs_of(b"00"), Err(Refusal::Truncated));
    assert_eq!(refs_of(&lines(&["ERR busy"])), Err(Refusal::Said("busy".into())));
    assert!(matches!(refs_of(&lines(&["refs/heads/main"])), Err(Refusal::Malformed(_))));
}

#[test]
fn a_pack_is_taken_out_of_its_bands() {
    let mut answer = lines_only(&["packfile"]);
    pktline::band(&mut answer, Band::Progress, b"Counting\r");
    pktline::band(&mut answer, Band::Data, b"PACK and");
    pktline::band(&mut answer, Band::Data, b"");
    pktline::band(&mut answer, Band::Data, b" more");
    pktline::flush(&mut answer);
    for piece in [1, 2, 5, 1_000] {
        assert_eq!(pack(Answer::v2(), &answer, piece), Ok(b"PACK and more".to_vec()));
    }
    let acked =
        [lines_only(&["acknowledgments", "NAK", "ready"]), b"0001".to_vec(), answer.clone()];
    assert_eq!(pack(Answer::v2(), &acked.concat(), 3), Ok(b"PACK and more".to_vec()));
    let cut = &answer[..answer.len() - 4];
    assert_eq!(pack(Answer::v2(), cut, 7), Err(Refusal::Truncated));
    assert_eq!(pack(Answer::v2(), b"", 1), Err(Refusal::Truncated));
}

#[test]
fn a_pack_of_version_0_comes_in_bands_or_bare() {
    let banded = caps("side-band-64k");
    let mut answer = lines_only(&["NAK"]);
    pktline::band(&mut answer, Band::Data, b"PACK...");
    pktline::flush(&mut answer);
    let mut bare = lines_only(&[&format!("ACK {}", oid(1))]);
    bare.extend_from_slice(b"PACK0000...");
    for piece in [1, 3, 1_000] {
        assert_eq!(pack(Answer::v0(&banded), &answer, piece), Ok(b"PACK...".to_vec()));
        let found = pack(Answer::v0(&V0Caps::default()), &bare, piece);
        assert_eq!(found, Ok(b"PACK0000...".to_vec()));
    }
    assert_eq!(pack(Answer::v0(&V0Caps::default()), b"PACK", 4), Err(Refusal::NotGit));
}

#[test]
fn an_answer_that_is_of_no_use_says_why() {
    let v2 = |bytes: &[u8]| pack(Answer::v2(), bytes, 1_000);
    let v0 = |bytes: &[u8]| pack(Answer::v0(&caps("side-band")), bytes, 1_000);
    let absent = lines(&[&format!("ERR upload-pack: not our ref {}", oid(7))]);
    assert_eq!(v2(&absent), Err(Refusal::NotOurRef(oid(7))));
    assert_eq!(v0(&absent), Err(Refusal::NotOurRef(oid(7))));
    let other = lines(&[&format!("ERR want {} not valid", oid(7))]);
    assert_eq!(v2(&other), Err(Refusal::NotOurRef(oid(7))));
    let mut fatal = lines_only(&["packfile"]);
    pktline::band(
        &mut fatal,
        Band::Fatal,
        format!("upload-pack: not our ref {}\n", oid(7)).as_bytes(),
    );
    assert_eq!(v2(&fatal), Err(Refusal::NotOurRef(oid(7))));
    let late = [lines_only(&["packfile"]), lines_only(&["ERR out of\x07 memory"])].concat();
    assert_eq!(v2(&late), Err(Refusal::Said("out of  memory".into())));
    assert_eq!(v2(&lines(&["shallow-info", "shallow x"])), Err(Refusal::Shallow));
    assert_eq!(v0(&lines(&["shallow x"])), Err(Refusal::Shallow));
    assert_eq!(v2(&lines(&["packfile-uris"])), Err(Refusal::PackElsewhere));
    assert_eq!(v2(b"<html>"), Err(Refusal::NotGit));
    assert!(matches!(v2(b"000dpackfile\n<html>"), Err(Refusal::Malformed(_))));
    assert!(matches!(v2(b"000dpackfile\n0000"), Err(Refusal::Malformed(_))));
    assert!(matches!(v2(b"000dpackfile\n0004"), Err(Refusal::Malformed(_))));
    assert!(matches!(v2(b"000dpackfile\n0006\x04x"), Err(Refusal::Malformed(_))));
    assert!(matches!(v0(b"0008NAK\n0000"), Err(Refusal::Malformed(_))));
    let long = lines(&[&format!("ERR {}", "é".repeat(1_000))]);
    assert_eq!(v2(&long), Err(Refusal::Said("é".repeat(200))));
}

#[test]
fn a_server_may_not_talk_without_end() {
    let mut words = Vec::new();
    pktline::band(&mut words, Band::Progress, &[b'.'; 60_000]);
    let mut idle = Vec::new();
    pktline::band(&mut idle, Band::Data, b"");
    for noise in [words, idle] {
        let mut answer = Answer::v2();
        answer.push(b"000dpackfile\n").unwrap();
        let pushes = PROGRESS_BYTES_MAX / noise.len() + 1;
        let refused = (0..pushes).find_map(|_| answer.push(&noise).err());
        assert_eq!(refused, Some(Refusal::TooMuchProgress));
        assert_eq!(answer.finish(), Err(Refusal::TooMuchProgress));
    }
    let mut answer = Answer::v2();
    answer.push(b"0014acknowledgments\n").unwrap();
    let mut line = Vec::new();
    pktline::data(&mut line, &[b'A'; 60_000]);
    assert!((0..30).any(|_| answer.push(&line).is_err()), "nor before the pack");
}

#[test]
fn words_that_ask_for_patience_are_known() {
    for words in [
        "API rate limit exceeded",
        "Rate-limited: come back",
        "Too Many Requests",
        "You have exceeded a secondary rate limit",
        "request was throttled",
        "Please slow down",
        "server overloaded, try again later",
    ] {
        assert!(wants_slowdown(words), "{words}");
    }
    for words in ["", "repository not found", "upload-pack: not our ref", "access denied"] {
        assert!(!wants_slowdown(words), "{words}");
    }
}

#[test]
fn words_are_shown_on_one_line_without_tricks() {
    assert_eq!(printable(b"  a\nb\x1b[31m\xff \n"), "a b [31m\u{fffd}");
    assert_eq!(printable("ab\u{202e}cd".as_bytes()), "ab cd");
    assert_eq!(printable(&[b'x'; 10_000]).len(), 200);
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic_and_pieces_change_nothing(
        bytes in prop_oneof![any::<Vec<u8>>(), tampered()],
        piece in 1_usize..40,
        form in 0_usize..3,
    ) {
        let fresh = || match form {
            0 => Answer::v2(),
            1 => Answer::v0(&caps("side-band-64k")),
            _ => Answer::v0(&V0Caps::default()),
        };
        let whole = pack(fresh(), &bytes, usize::MAX);
        prop_assert_eq!(&pack(fresh(), &bytes, piece), &whole);
        if let Ok(pack) = whole {
            prop_assert!(pack.len() <= bytes.len());
        }
    }

    #[test]
    fn no_list_makes_it_panic_and_pieces_change_nothing(
        bytes in prop_oneof![any::<Vec<u8>>(), tampered_list()],
        piece in 1_usize..40,
    ) {
        let mut reader = AdvertReader::new();
        let read = bytes.chunks(piece).try_for_each(|piece| reader.push(piece));
        prop_assert_eq!(read.and_then(|()| reader.finish()), advert(&bytes));
        let mut reader = RefsReader::new();
        let read = bytes.chunks(piece).try_for_each(|piece| reader.push(piece));
        prop_assert_eq!(read.and_then(|()| reader.finish()), refs_of(&bytes));
    }
}

fn tampered() -> impl Strategy<Value = Vec<u8>> {
    let v2 = [lines_only(&["acknowledgments", "ACK x", "ready"]), b"0001".to_vec()].concat();
    let v2 = [v2, lines_only(&["packfile"])].concat();
    let starts = [v2, lines_only(&["NAK"])];
    (any::<prop::sample::Index>(), any::<u8>(), 0_usize..2).prop_map(move |(at, byte, start)| {
        let mut bytes = starts[start].clone();
        pktline::band(&mut bytes, Band::Progress, b"words");
        pktline::band(&mut bytes, Band::Data, b"PACK and more");
        pktline::flush(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    })
}

fn tampered_list() -> impl Strategy<Value = Vec<u8>> {
    (any::<prop::sample::Index>(), any::<u8>(), any::<bool>()).prop_map(|(at, byte, v2)| {
        let mut bytes = lines(&["# service=git-upload-pack"]);
        let first = format!("{} HEAD\0ofs-delta agent=x", oid(1));
        let second = format!("{} refs/tags/v1^{{}}", oid(2));
        let offers: &[&str] = &["version 2", "ls-refs", "fetch=shallow"];
        bytes.extend(if v2 { lines(offers) } else { lines(&[&first, &second]) });
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    })
}

fn oid(byte: u8) -> Oid {
    Oid::from_bytes([byte; 20])
}

fn set(bytes: &[u8]) -> BTreeSet<Oid> {
    bytes.iter().map(|byte| oid(*byte)).collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn packet(line: &str) -> String {
    format!("{:04x}{line}\n", line.len() + 5)
}

fn lines_only(lines: &[&str]) -> Vec<u8> {
    lines.iter().map(|line| packet(line)).collect::<String>().into_bytes()
}

fn lines(all: &[&str]) -> Vec<u8> {
    [lines_only(all), b"0000".to_vec()].concat()
}

/// What a server that offers this is taken to be.
fn caps(words: &str) -> V0Caps {
    let page = [lines(&["# service=git-upload-pack"]), lines(&[&format!("{} x\0{words}", oid(1))])];
    match advert(&page.concat()) {
        Ok(Advert::V0 { caps, .. }) => caps,
        other => panic!("{other:?}"),
    }
}

fn advert(bytes: &[u8]) -> Result<Advert, Refusal> {
    let mut reader = AdvertReader::new();
    reader.push(bytes)?;
    reader.finish()
}

fn refs_of(bytes: &[u8]) -> Result<Vec<Listed>, Refusal> {
    let mut reader = RefsReader::new();
    reader.push(bytes)?;
    reader.finish()
}

/// The pack of an answer that comes in pieces.
fn pack(mut answer: Answer, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Refusal> {
    let mut pack = Vec::new();
    for mut rest in bytes.chunks(piece) {
        loop {
            match answer.push(rest)? {
                Step::More | Step::End => break,
                Step::Pack { bytes, rest: later } => {
                    pack.extend_from_slice(bytes);
                    rest = later;
                }
            }
        }
    }
    answer.finish()?;
    assert_eq!(u64::try_from(pack.len()).unwrap(), answer.pack_bytes());
    Ok(pack)
}
