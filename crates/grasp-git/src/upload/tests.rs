use super::*;
use grasp_core::{EventId, Oid};
use proptest::prelude::*;

#[test]
fn a_request_as_git_sends_it_is_understood() {
    let request = request(
        &["command=ls-refs", "agent=git/2.47.3", "object-format=sha1", "server-option=x"],
        &["peel", "symrefs", "unborn", "ref-prefix refs/heads/", "ref-prefix HEAD"],
    );
    let V2Command::LsRefs(asked) = v2_command(&request).unwrap() else { panic!("not ls-refs") };
    assert_eq!((asked.peel, asked.symrefs, asked.prefixes.len()), (true, true, 2));
}

#[test]
fn the_command_may_stand_anywhere_among_the_keys() {
    let request = request(&["agent=x", "command=ls-refs"], &[]);
    assert!(matches!(v2_command(&request), Ok(V2Command::LsRefs(_))));
    assert!(matches!(v2_command(b"0014command=ls-refs\n0000"), Ok(V2Command::LsRefs(_))));
}

#[test]
fn a_fetch_is_known_before_its_arguments_and_not_before_the_keys_end() {
    let keys = b"0012command=fetch\n000cagent=x\n";
    assert_eq!(v2_command(keys), Ok(V2Command::Incomplete));
    assert_eq!(v2_command(&[&keys[..], b"0001"].concat()), Ok(V2Command::Fetch));
    let arguments = b"0001000dthin-pack\n0000";
    assert_eq!(v2_command(&[&keys[..], arguments].concat()), Ok(V2Command::Fetch));
}

#[test]
fn a_lone_flush_asks_for_nothing() {
    assert_eq!(v2_command(b"0000"), Ok(V2Command::Nothing));
}

#[test]
fn what_nobody_understands_is_refused() {
    let keys = |key| v2_command(&request(&[key], &[]));
    let with = |argument| v2_command(&request(&["command=ls-refs"], &[argument]));
    assert_eq!(keys("command=object-info"), Err(BadRequest::Command("object-info".into())));
    assert_eq!(keys("command=ls-refs x"), Err(BadRequest::Command("ls-refs x".into())));
    assert_eq!(keys("object-format=sha256"), Err(BadRequest::ObjectFormat));
    assert_eq!(keys("colour=\x1bblue"), Err(BadRequest::Line("colour= blue".into())));
    assert_eq!(keys("agent=x"), Err(BadRequest::NoCommand));
    assert_eq!(with("ref-prefix"), Err(BadRequest::Line("ref-prefix".into())));
    assert_eq!(with("peel "), Err(BadRequest::Line("peel ".into())));
    let two = request(&["command=ls-refs", "command=fetch"], &[]);
    assert_eq!(v2_command(&two), Err(BadRequest::TwoCommands));
    assert_eq!(v2_command(b"0014command=ls-refs\n00010001"), Err(BadRequest::Separator));
    assert_eq!(v2_command(b"0002"), Err(BadRequest::Separator));
    assert_eq!(v2_command(b"0001"), Err(BadRequest::NoCommand));
    assert_eq!(v2_command(b"PACK"), Err(BadPacket::NotHex.into()));
    assert_eq!(v2_command(b"0003"), Err(BadPacket::Length.into()));
}

#[test]
fn a_request_has_an_end() {
    let mut bytes = Vec::new();
    let line = format!("agent={}", "x".repeat(60_000));
    while bytes.len() <= REQUEST_BYTES_MAX {
        assert_eq!(v2_command(&bytes), Ok(V2Command::Incomplete));
        pktline::text(&mut bytes, &line);
    }
    assert_eq!(v2_command(&bytes), Err(BadRequest::Long));
}

#[test]
fn refs_are_listed_as_git_lists_them() {
    let a = "a".repeat(40);
    let (b, c) = ("b".repeat(40), "c".repeat(40));
    let proposal = format!("refs/nostr/{}", EventId::from_bytes([7; 32]));
    assert_eq!(
        listed(&["peel", "symrefs"]),
        [
            format!("{a} HEAD symref-target:refs/heads/main"),
            format!("{a} refs/heads/main"),
            format!("{b} {proposal}"),
            format!("{c} refs/tags/v1 peeled:{a}"),
        ]
    );
    assert_eq!(listed(&[])[0], format!("{a} HEAD"));
    assert_eq!(listed(&[])[3], format!("{c} refs/tags/v1"));
    assert_eq!(listed(&["ref-prefix refs/tags/"]), [format!("{c} refs/tags/v1")]);
    assert_eq!(listed(&["ref-prefix HE", "ref-prefix refs/heads/mai"]).len(), 2);
    assert_eq!(listed(&["ref-prefix refs/internal/"]), [""; 0]);
    assert_eq!(listed(&["ref-prefix "]).len(), 4, "every name begins with nothing");
}

#[test]
fn an_empty_repository_lists_nothing() {
    let asked = LsRefs { peel: true, symrefs: true, ..LsRefs::default() };
    assert_eq!(ls_refs(&asked, &RefTable::default()), "0000");
}

#[test]
fn too_many_prefixes_are_none_at_all() {
    let count = |prefixes: usize| {
        let mut lines = vec!["ref-prefix x"; prefixes];
        lines.push("peel");
        listed(&lines).len()
    };
    assert_eq!(count(PREFIXES_MAX - 1), 0);
    assert_eq!(count(PREFIXES_MAX), 4);
}

#[test]
fn an_error_is_one_line() {
    assert_eq!(error("busy,\ntry later"), "0018ERR busy, try later\n");
    assert!(error(&"x".repeat(100_000)).len() <= pktline::PACKET_MAX);
}

proptest! {
    #[test]
    fn prefixes_cover_what_any_of_them_begins(
        prefixes in prop::collection::vec("[abc/]{0,4}", 0..12),
        name in "[abc/]{0,6}",
    ) {
        let plain = prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix));
        let mut asked = LsRefs::default();
        prefixes.iter().for_each(|prefix| asked.prefix(prefix.as_bytes()));
        asked.settle();
        prop_assert_eq!(asked.covers(&name), plain);
    }

    #[test]
    fn a_growing_buffer_gives_the_result_of_the_whole(
        bytes in prop_oneof![any::<Vec<u8>>(), tampered()],
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = v2_command(&bytes);
        let mut reader = V2Reader::default();
        let early = reader.read(&bytes[..cut.index(bytes.len() + 1)]);
        let grown = if early == Ok(V2Command::Incomplete) { reader.read(&bytes) } else { early };
        prop_assert_eq!(grown, whole);
    }
}

fn tampered() -> impl Strategy<Value = Vec<u8>> {
    (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| {
        let mut bytes = request(&["command=ls-refs", "agent=x"], &["peel", "ref-prefix HEAD"]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    })
}

fn request(keys: &[&str], arguments: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    keys.iter().for_each(|line| pktline::text(&mut out, line));
    out.extend_from_slice(b"0001");
    arguments.iter().for_each(|line| pktline::text(&mut out, line));
    pktline::flush(&mut out);
    out
}

/// The lines of an answer for a small repository.
fn listed(arguments: &[&str]) -> Vec<String> {
    let oid = |byte| Oid::from_bytes([byte; 20]);
    let main = Entry { oid: oid(0xaa), peeled: None };
    let tag = Entry { oid: oid(0xcc), peeled: Some(oid(0xaa)) };
    let refs = RefTable {
        governed: [("refs/heads/main", main), ("refs/tags/v1", tag)]
            .map(|(name, entry)| (name.parse().unwrap(), entry))
            .into(),
        proposals: [(EventId::from_bytes([7; 32]), Entry { oid: oid(0xbb), peeled: None })].into(),
        kept: [oid(0xee)].into(),
        head: Some("refs/heads/main".parse().unwrap()),
    };
    let request = request(&["command=ls-refs"], arguments);
    let Ok(V2Command::LsRefs(asked)) = v2_command(&request) else { panic!("not ls-refs") };
    let answer = ls_refs(&asked, &refs);
    let (mut rest, mut lines) = (&answer[..], Vec::new());
    while let Some((Packet::Data(line), len)) = pktline::decode(rest).unwrap() {
        lines.push(String::from_utf8(line.to_vec()).unwrap().trim_end().to_owned());
        rest = &rest[len..];
    }
    assert_eq!(rest, b"0000");
    lines
}

#[test]
fn requests_without_haves_are_the_same_whoever_sends_them() {
    let v0 = |agent: &str, more: &str| {
        let mut out = Vec::new();
        pktline::text(&mut out, &format!("want {} ofs-delta agent={agent} filter", "1".repeat(40)));
        pktline::flush(&mut out);
        if !more.is_empty() {
            pktline::text(&mut out, more);
        }
        out
    };
    let plain = |agent, more| request_without_haves(&v0(agent, more));
    assert!(plain("git/2", "done").is_some());
    assert_eq!(plain("git/2", "done"), plain("libgit2 session-id=7", "done"));
    assert_eq!(plain("git/2", ""), None, "the talk goes on");
    let mut with_have = v0("git/2", &format!("have {}", "2".repeat(40)));
    pktline::text(&mut with_have, "done");
    assert_eq!(request_without_haves(&with_have), None);
    assert_eq!(request_without_haves(&v0("git/2", "done")[..20]), None, "it ends in the middle");
    let mut other = v0("git/2", "deepen 1");
    pktline::text(&mut other, "done");
    assert_ne!(request_without_haves(&other), plain("git/2", "done"));
}

#[test]
fn requests_that_git_answers_differently_stay_different() {
    let want = format!("want {}", "1".repeat(40));
    let v2 = |head: &[&str], line: &str| {
        let out = request(&[&["command=fetch"], head].concat(), &[&want, line, "done"]);
        request_without_haves(&out)
    };
    let honest = v2(&["agent=git/2"], "ofs-delta");
    assert!(honest.is_some());
    assert_eq!(v2(&[], "ofs-delta"), honest, "git accepts any agent");
    assert_eq!(v2(&["agent=libgit2 1.9"], "ofs-delta"), honest);
    for (head, line) in [
        (&[][..], "ofs-delta agent=x"),
        (&[], "agent=x"),
        (&[], "session-id=x"),
        (&["session-id=x"], "ofs-delta"),
        (&["x agent=y"], "ofs-delta"),
    ] {
        assert_ne!(v2(head, line), honest, "{head:?} {line}");
    }
    let v0 = |lines: &[&str]| {
        let mut out = Vec::new();
        lines.iter().for_each(|line| pktline::text(&mut out, line));
        pktline::flush(&mut out);
        pktline::text(&mut out, "done");
        request_without_haves(&out)
    };
    let (plain, with_agent) = (format!("{want} ofs-delta"), format!("{want} ofs-delta agent=x"));
    let honest = v0(&[&plain]);
    assert_eq!(v0(&[&with_agent]), honest);
    assert_ne!(v0(&["agent=x", &plain]), honest);
    assert_ne!(v0(&[&plain, "agent=x"]), honest);
    assert_ne!(v0(&[&format!("{with_agent}\tthin-pack")]), honest);
    assert_ne!(v0(&[&plain, &format!("{want} agent=x")]), v0(&[&plain, &want]));
    let mut separated = request(&["command=fetch"], &[&want, "done"]);
    separated.extend_from_slice(b"0002");
    assert_eq!(request_without_haves(&separated), None);
}
