use super::*;
use grasp_core::Kind;

fn sub(text: &str) -> SubId {
    SubId::parse(text).unwrap()
}

fn id() -> EventId {
    EventId::from_bytes([0xaa; 32])
}

/// An event whose fields after the id are `rest`.
fn event(rest: &str) -> String {
    format!(
        r#"{{"id":"{}","pubkey":"{}","sig":"{}",{rest}}}"#,
        "aa".repeat(32),
        "bb".repeat(32),
        "cc".repeat(64)
    )
}

fn good() -> String {
    event(r#""created_at":1,"kind":1,"tags":[["e","x"]],"content":"hi""#)
}

fn refused(text: &str) -> Malformed {
    match ClientMessage::parse(text) {
        Err(malformed) => malformed,
        Ok(message) => panic!("{text} was read as {message:?}"),
    }
}

#[test]
fn every_verb_is_understood() {
    let parse = |text: &str| ClientMessage::parse(text).unwrap();
    let ClientMessage::Event(read) = parse(&format!(r#" [ "EVENT" , {} ] "#, good())) else {
        panic!("not an event")
    };
    assert_eq!((read.id, read.kind, read.content.as_str()), (id(), Kind(1), "hi"));
    assert!(matches!(parse(&format!(r#"["AUTH",{}]"#, good())), ClientMessage::Auth(_)));
    let two = vec![Filter { limit: Some(0), ..Filter::default() }, Filter::default()];
    let req = ClientMessage::Req { sub: sub("a"), filters: two.clone() };
    assert_eq!(parse(r#"["REQ","a",{"limit":0},{}]"#), req);
    let count = ClientMessage::Count { sub: sub("a"), filters: two };
    assert_eq!(parse(r#"["COUNT","a",{"limit":0},{}]"#), count);
    assert_eq!(parse(r#"["CLOSE","a"]"#), ClientMessage::Close(sub("a")));
    assert_eq!(parse(r#"["NEG-CLOSE","a"]"#), ClientMessage::NegClose(sub("a")));
    let message = ClientMessage::NegMsg { sub: sub("a"), message: vec![0x61, 0xff] };
    assert_eq!(parse(r#"["NEG-MSG","a","61fF"]"#), message);
    let open =
        ClientMessage::NegOpen { sub: sub("a"), filter: Box::default(), message: vec![0x61] };
    assert_eq!(parse(r#"["NEG-OPEN","a",{},"61"]"#), open);
}

#[test]
fn a_broken_event_is_answered_by_its_id_wherever_it_broke() {
    let deep = "[".repeat(100_000);
    for rest in [
        r#""created_at":1,"kind":1,"tags":[],"content":"\ud800""#.to_owned(),
        r#""created_at":1,"created_at":1,"kind":1,"tags":[],"content":"""#.to_owned(),
        r#""created_at":1,"kind":70000,"tags":[],"content":"""#.to_owned(),
        r#""created_at":1,"kind":1,"tags":[[1]],"content":"""#.to_owned(),
        r#""created_at":1,"kind":1,"content":"""#.to_owned(),
        format!(r#""created_at":1,"kind":1,"tags":{deep},"content":"""#),
        "broken".to_owned(),
    ] {
        for verb in ["EVENT", "AUTH"] {
            let malformed = refused(&format!(r#"["{verb}",{}]"#, event(&rest)));
            assert_eq!(malformed.to, Addressee::Event(id()), "{}", excerpt(&rest, 80));
            assert!(malformed.why.starts_with("invalid: "), "{}", malformed.why);
        }
    }
    let good = good();
    for around in [
        format!(r#"["EVENT",{good},1]"#),
        format!(r#"["EVENT",{good}"#),
        format!(r#"["EVENT",{good}]x"#),
        format!(r#"["EVENT",{good},]"#),
        format!(r#"["EVENT",{}]"#, good.replace("aa", "AA")),
        format!(r#"["EVENT",{}]"#, good.replace("cc", "zz")),
    ] {
        assert_eq!(refused(&around).to, Addressee::Event(id()), "{around}");
    }
    let last = r#"["EVENT",{"kind":{"a":[{}]},"id":"IDHERE"}]"#.replace("IDHERE", &"aa".repeat(32));
    assert_eq!(refused(&last).to, Addressee::Event(id()), "the id may come last");
}

#[test]
fn without_a_readable_name_the_answer_goes_to_nobody_in_particular() {
    for text in [
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        "[\"EVENT\"]",
        r#"["EVENT",{}]"#,
        r#"["EVENT",{"id":1}]"#,
        r#"["EVENT",{"id":"zz"}]"#,
        r#"["EVENT","sub",{}]"#,
        r#"["event",{}]"#,
        r#"["REQ"]"#,
        r#"["REQ",1,{}]"#,
        r#"["REQ","",{}]"#,
        r#"["CLOSE"]"#,
        r#"["CLOSE","a","b"]"#,
        r#"["HELLO","a"]"#,
        "\u{feff}[\"CLOSE\",\"a\"]",
        "[[[[",
    ] {
        assert_eq!(refused(text).to, Addressee::Nobody, "{text}");
    }
    let endless = format!(r#"["REQ","{}",{{}}]"#, "x".repeat(SubId::CHARS_MAX + 1));
    assert_eq!(refused(&endless).to, Addressee::Nobody);
}

#[test]
fn a_bad_request_is_answered_by_its_subscription() {
    for (filter, start) in [
        ("", "invalid: the message lacks a filter"),
        (",1", "invalid: "),
        (r#",{"kinds":["1"]}"#, "invalid: "),
        (r#",{"kinds":[1],"kinds":[1]}"#, "invalid: duplicate field"),
        (r#",{},{"search":"x"}"#, "unsupported: "),
        (r#",{"ids":["abcd"]}"#, "invalid: "),
    ] {
        let req = refused(&format!(r#"["REQ","s"{filter}]"#));
        assert_eq!(req.to, Addressee::Subscription(sub("s")));
        assert!(req.why.starts_with(start), "{}", req.why);
        let count = refused(&format!(r#"["COUNT","s"{filter}]"#));
        assert_eq!(count.to, Addressee::Count(sub("s")));
    }
    let floods = format!(r#"["REQ","s"{}]"#, ",{}".repeat(100_000));
    assert_eq!(refused(&floods).to, Addressee::Subscription(sub("s")));
}

#[test]
fn a_bad_reconciliation_is_answered_as_one() {
    for text in [
        r#"["NEG-OPEN","n",{},"6"]"#,
        r#"["NEG-OPEN","n",{},"6g"]"#,
        r#"["NEG-OPEN","n",{}]"#,
        r#"["NEG-OPEN","n",{},16,"61"]"#,
        r#"["NEG-OPEN","n",{"search":""},"61"]"#,
        r#"["NEG-MSG","n"]"#,
        r#"["NEG-MSG","n","zz"]"#,
        r#"["NEG-MSG","n","61","62"]"#,
    ] {
        assert_eq!(refused(text).to, Addressee::Reconciliation(sub("n")), "{text}");
    }
}

#[test]
fn foreign_text_comes_back_short_and_without_control_characters() {
    let long = format!(r#"["\u0007\u001b[31m{}"]"#, "x".repeat(10_000));
    let kind = format!(r#""created_at":1,"kind":"{}","tags":[],"content":"""#, "y".repeat(10_000));
    for text in [long, format!(r#"["EVENT",{}]"#, event(&kind))] {
        let why = refused(&text).why;
        assert!(why.chars().count() < 140, "{why}");
        assert!(!why.contains(char::is_control), "{why}");
    }
}
