use super::*;
use proptest::prelude::*;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const ZERO: &str = "0000000000000000000000000000000000000000";
const EVENT: &str = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d";

#[test]
fn a_list_as_git_sends_it_is_read() {
    let caps = " report-status-v2 side-band-64k quiet atomic object-format=sha1 agent=git/2.47.3";
    let mut bytes = packets(&[
        &format!("{ZERO} {A} refs/heads/main\0{caps}"),
        &format!("{A} {B} refs/tags/v1"),
        &format!("{A} {ZERO} refs/heads/old"),
        &format!("{ZERO} {A} refs/nostr/{EVENT}"),
    ]);
    bytes.extend_from_slice(b"PACK and more");
    let (head, rest) = whole(&bytes);
    assert_eq!(rest, b"PACK and more".len());
    assert_eq!(head.commands.len(), 4);
    assert_eq!(head.commands[0].old, None);
    assert_eq!(head.commands[0].new, Some(A.parse().unwrap()));
    assert_eq!(head.commands[2].new, None);
    assert_eq!(head.commands[3].target, Some(Target::Proposal(EVENT.parse().unwrap())));
    let PushCaps { report_status, report_status_v2, side_band_64k, atomic, quiet } = head.wants;
    assert_eq!((report_status, report_status_v2, side_band_64k), (false, true, true));
    assert!(atomic && quiet && head.wants.wants_report());
}

#[test]
fn a_list_as_libgit2_sends_it_is_read() {
    let first = format!("{A} {A} refs/heads/main\0 report-status side-band-64k\n");
    let (head, rest) = whole(&packets(&[&first, &format!("{ZERO} {ZERO} refs/heads/gone\n")]));
    assert_eq!(rest, 0);
    assert_eq!(&*head.commands[1].name, "refs/heads/gone", "without the line's end");
    assert_eq!((head.commands[1].old, head.commands[1].new), (None, None));
    assert!(head.wants.report_status && head.wants.side_band_64k);
}

#[test]
fn a_flush_alone_is_a_probe_with_no_commands() {
    assert_eq!(whole(b"0000"), (PushHead::default(), 0));
    assert_eq!(whole(b"0000PACK"), (PushHead::default(), 4));
}

#[test]
fn a_name_no_push_may_touch_is_read_only_to_be_named_in_the_answer() {
    for name in [
        "HEAD",
        "refs/heads/x.lock",
        "refs/heads/a..b",
        "refs/heads//x",
        "refs/heads/@{u}",
        "refs/heads/.x",
        "refs/heads/",
        "refs/foo/x",
        "refs/internal/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "refs/nostr/123",
        "refs/nostr/note1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq",
        &format!("refs/nostr/{}", EVENT.to_uppercase()),
        &format!("refs/nostr/{EVENT}/x"),
        "../../etc/passwd",
        "--upload-pack=x",
        &format!("refs/heads/{}", "x".repeat(1_500)),
    ] {
        let (head, _) = whole(&packets(&[&format!("{ZERO} {A} {name}")]));
        assert_eq!((&*head.commands[0].name, &head.commands[0].target), (name, &None));
    }
}

#[test]
fn nothing_but_gits_plain_form_passes() {
    let main = "refs/heads/main";
    for (why, first, refusal) in [
        ("a shallow line", format!("shallow {A}"), BadPush::Shallow),
        ("a certificate", "push-cert\0 report-status".into(), BadPush::Certificate),
        ("a certificate's body", "push-cert-end".into(), BadPush::Certificate),
        ("asks for a certificate", caps("push-cert=1-nonce"), BadPush::Certificate),
        ("asks for options", caps("report-status push-options"), BadPush::PushOptions),
        ("another format", caps("object-format=sha256"), BadPush::ObjectFormat),
        ("a format without a value", caps("object-format"), BadPush::ObjectFormat),
        ("a second NUL", caps("report-status\0refs/heads/x"), BadPush::Nul { number: 1 }),
        ("upper-case hex", format!("{} {B} {main}", A.to_uppercase()), BadPush::Line { number: 1 }),
        ("a short id", format!("{} {B} {main}", &A[1..]), BadPush::Line { number: 1 }),
        ("a long id", format!("{A}a {B} {main}"), BadPush::Line { number: 1 }),
        ("a 64-digit id", format!("{A}{} {B} {main}", &A[..24]), BadPush::Line { number: 1 }),
        ("not hex", format!("{} {B} {main}", "g".repeat(40)), BadPush::Line { number: 1 }),
        ("a tab", format!("{A}\t{B} {main}"), BadPush::Line { number: 1 }),
        ("no ref", format!("{A} {B}"), BadPush::Line { number: 1 }),
        ("an empty ref", format!("{A} {B} "), BadPush::Line { number: 1 }),
        ("nothing at all", String::new(), BadPush::Line { number: 1 }),
        ("only capabilities", "\0report-status".into(), BadPush::Line { number: 1 }),
        ("a leading space", format!(" {A} {B} {main}"), BadPush::Line { number: 1 }),
        ("two spaces", format!("{A} {B}  {main}"), BadPush::Name { number: 1 }),
        ("a fourth word", format!("{A} {B} {main} x"), BadPush::Name { number: 1 }),
        ("a line in a line", format!("{A} {B} {main}\n{A} {B} x"), BadPush::Name { number: 1 }),
        ("two line ends", format!("{A} {B} {main}\n\n"), BadPush::Name { number: 1 }),
        ("a line end before NUL", format!("{A} {B} {main}\n\0x"), BadPush::Name { number: 1 }),
        ("an escape", format!("{A} {B} {main}\x1b[2J"), BadPush::Name { number: 1 }),
        ("a C1 control", format!("{A} {B} {main}\u{9b}"), BadPush::Name { number: 1 }),
        ("a long name", format!("{A} {B} {}", "r".repeat(4_097)), BadPush::LongName { number: 1 }),
    ] {
        assert_eq!(one_feed(&packets(&[&first])), Err(refusal), "{why}");
    }
}

#[test]
fn what_follows_the_first_line_is_as_strict() {
    let first = format!("{A} {B} refs/heads/main\0report-status");
    let main = "refs/heads/main";
    for (second, refusal) in [
        (format!("{A} {B} refs/heads/x\0report-status"), BadPush::Nul { number: 2 }),
        (format!("{B} {A} {main}"), BadPush::Duplicate { name: main.into() }),
        (format!("shallow {A}"), BadPush::Shallow),
        ("push-cert\0x".to_owned(), BadPush::Certificate),
        ("some option".to_owned(), BadPush::Line { number: 2 }),
    ] {
        assert_eq!(one_feed(&packets(&[&first, &second])), Err(refusal), "{second:?}");
    }
}

#[test]
fn separators_and_packets_git_does_not_make_are_refused() {
    let length = BadPush::Packet(BadPacket::Length);
    let not_hex = BadPush::Packet(BadPacket::NotHex);
    for (bytes, refusal) in [
        (&b"0001"[..], BadPush::Separator),
        (b"0002", BadPush::Separator),
        (b"0003", length.clone()),
        (b"fff1", length.clone()),
        (b"FFFF", length),
        (b"PACK", not_hex.clone()),
        (b"+004", not_hex.clone()),
        (b"0x10", not_hex.clone()),
        (b" 004", not_hex.clone()),
        (b"GET / HTTP/1.1", not_hex),
        (b"0004", BadPush::Line { number: 1 }),
        (b"0005\xff", BadPush::Line { number: 1 }),
    ] {
        assert_eq!(one_feed(bytes), Err(refusal), "{bytes:?}");
    }
    let mut bytes = packets(&[&format!("{A} {B} refs/heads/main")]);
    bytes.truncate(bytes.len() - 4);
    bytes.extend_from_slice(b"0001");
    assert_eq!(one_feed(&bytes), Err(BadPush::Separator));
}

#[test]
fn a_name_that_is_not_utf_8_is_refused() {
    let mut line = format!("{A} {B} refs/heads/").into_bytes();
    line.push(0xff);
    let mut bytes = Vec::new();
    pktline::data(&mut bytes, &line);
    assert_eq!(one_feed(&bytes), Err(BadPush::Name { number: 1 }));
}

#[test]
fn every_limit_ends_the_reading_with_its_number() {
    let branches = |count: usize| -> Vec<u8> {
        let lines: Vec<_> = (0..count).map(|n| format!("{ZERO} {A} refs/heads/{n}")).collect();
        packets(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let limits = HeadLimits { commands_max: 3, ..HeadLimits::default() };
    assert!(HeadReader::new(limits).feed(&branches(3)).is_ok());
    let refusal = HeadReader::new(limits).feed(&branches(4));
    assert_eq!(refusal, Err(BadPush::ManyCommands { max: 3 }));

    let bytes = branches(10);
    let limits = HeadLimits { bytes_max: bytes.len(), ..HeadLimits::default() };
    assert!(HeadReader::new(limits).feed(&bytes).is_ok());
    let limits = HeadLimits { bytes_max: bytes.len() - 1, ..limits };
    let refusal = HeadReader::new(limits).feed(&bytes);
    assert_eq!(refusal, Err(BadPush::Long { max: bytes.len() - 1 }));

    let lines: Vec<_> = (0..9).map(|n| format!("{ZERO} {A} refs/nostr/{n:064x}")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    assert_eq!(whole(&packets(&lines[..8])).0.commands.len(), 8);
    assert_eq!(one_feed(&packets(&lines)), Err(BadPush::ManyProposals { max: 8 }));
}

#[test]
fn three_thousand_refs_pass_and_a_hundred_thousand_are_refused_without_being_kept() {
    let mut reader = HeadReader::new(HeadLimits::default());
    let mut refusal = None;
    for n in 0..100_000 {
        let mut packet = Vec::new();
        pktline::data(&mut packet, format!("{ZERO} {A} refs/heads/b{n}").as_bytes());
        match reader.feed(&packet) {
            Ok(Step::More) => assert!(reader.consumed <= HeadLimits::default().bytes_max),
            other => refusal = refusal.or(Some((n, other))),
        }
    }
    let (at, why) = refusal.unwrap();
    assert!(at > 3_000);
    assert_eq!(why, Err(BadPush::Long { max: 4 * 1024 * 1024 }));
}

#[test]
fn after_its_end_a_reader_takes_nothing_more() {
    let mut reader = HeadReader::new(HeadLimits::default());
    assert!(matches!(reader.feed(b"0000"), Ok(Step::Done { .. })));
    assert_eq!(reader.feed(b"0000"), Err(BadPush::Complete));
    let mut reader = HeadReader::new(HeadLimits::default());
    assert_eq!(reader.feed(b"0001"), Err(BadPush::Separator));
    assert_eq!(reader.feed(b"0000"), Err(BadPush::Separator), "a refusal is final");
}

proptest! {
    #[test]
    fn arbitrary_bytes_in_arbitrary_pieces_give_one_result(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..300), almost_a_list()],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        prop_assert_eq!(in_pieces(&bytes, &cuts), one_feed(&bytes));
    }

    #[test]
    fn what_is_read_means_what_was_written(commands in commands(), pack in any::<Vec<u8>>()) {
        let mut bytes = rendered(&commands);
        bytes.extend_from_slice(&pack);
        let (head, rest) = whole(&bytes);
        prop_assert_eq!(rest, pack.len());
        prop_assert_eq!(head.commands, commands);
    }

    #[test]
    fn whatever_passes_has_only_one_reading(bytes in almost_a_list()) {
        if let Ok(Step::Done { head, .. }) = one_feed(&bytes) {
            prop_assert_eq!(whole(&rendered(&head.commands)).0.commands, head.commands);
        }
    }
}

fn in_pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Result<Step, BadPush> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut reader = HeadReader::new(HeadLimits::default());
    let mut step = Ok(Step::More);
    for pair in cuts.windows(2) {
        step = reader.feed(&bytes[pair[0]..pair[1]]);
        if let Ok(Step::Done { head, rest }) = step {
            return Ok(Step::Done { head, rest: rest + bytes.len() - pair[1] });
        }
        step.as_ref().map_err(Clone::clone)?;
    }
    step
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let oid = || prop::option::of(prop::array::uniform20(1..=u8::MAX).prop_map(Oid::from_bytes));
    let names = prop::collection::btree_set("refs/(heads|tags|foo)/[a-zé./^-]{1,20}", 0..20);
    let changes = prop::collection::vec((oid(), oid()), 20);
    (names, changes).prop_map(|(names, changes)| {
        let zipped = names.into_iter().zip(changes);
        let command = |(name, (old, new)): (String, _)| {
            let target = Target::parse(&name);
            Command { name: name.into(), target, old, new }
        };
        zipped.map(command).collect()
    })
}

/// A list someone has tampered with: bytes overwritten, inserted or removed.
fn almost_a_list() -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..3, any::<u8>()), 0..4);
    (commands(), edits).prop_map(|(commands, edits)| {
        let mut bytes = rendered(&commands);
        for (at, what, byte) in edits {
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
            bytes.push(byte);
        }
        bytes
    })
}

fn rendered(commands: &[Command]) -> Vec<u8> {
    let hex = |oid: Option<Oid>| oid.map_or(ZERO.to_owned(), Oid::to_hex);
    let line = |it: &Command| format!("{} {} {}", hex(it.old), hex(it.new), it.name);
    let lines: Vec<_> = commands.iter().map(line).collect();
    packets(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn packets(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    lines.iter().for_each(|line| pktline::data(&mut out, line.as_bytes()));
    pktline::flush(&mut out);
    out
}

fn caps(caps: &str) -> String {
    format!("{A} {B} refs/heads/main\0{caps}")
}

fn one_feed(bytes: &[u8]) -> Result<Step, BadPush> {
    HeadReader::new(HeadLimits::default()).feed(bytes)
}

fn whole(bytes: &[u8]) -> (PushHead, usize) {
    match one_feed(bytes) {
        Ok(Step::Done { head, rest }) => (head, rest),
        other => panic!("not a whole list: {other:?}"),
    }
}
