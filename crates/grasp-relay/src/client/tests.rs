use super::*;
use crate::ClientMessage;
use grasp_core::Kind;
use proptest::prelude::*;

fn sub(text: &str) -> SubId {
    SubId::parse(text).unwrap()
}

fn event_json() -> String {
    format!(
        r#"{{"id":"{}","pubkey":"{}","sig":"{}","created_at":1,"kind":1,"tags":[],"content":"hi"}}"#,
        "aa".repeat(32),
        "bb".repeat(32),
        "cc".repeat(64)
    )
}

fn read(text: &str) -> RelayMessage {
    RelayMessage::parse(text).unwrap()
}

fn unread(text: &str) -> Unreadable {
    match RelayMessage::parse(text) {
        Err(unreadable) => unreadable,
        Ok(message) => panic!("{text} was read as {message:?}"),
    }
}

#[test]
fn every_word_of_a_relay_is_understood() {
    let RelayMessage::Event { sub: of, event } =
        read(&format!(r#"["EVENT","a",{}]"#, event_json()))
    else {
        panic!("not an event")
    };
    assert_eq!((of, event.kind, event.content.as_str()), (sub("a"), Kind(1), "hi"));
    let text = || "rate-limited: slow down".to_owned();
    let id = EventId::from_bytes([0xaa; 32]);
    let hex = "aa".repeat(32);
    for (line, message) in [
        (r#"["EOSE","a"]"#.to_owned(), RelayMessage::Eose { sub: sub("a"), hint: None }),
        (
            r#"["EOSE","a","finish"]"#.to_owned(),
            RelayMessage::Eose { sub: sub("a"), hint: Some(Hint::Finish) },
        ),
        (
            r#"["EOSE","a","more"]"#.to_owned(),
            RelayMessage::Eose { sub: sub("a"), hint: Some(Hint::More) },
        ),
        (
            r#"["EOSE","a",["finish"]]"#.to_owned(),
            RelayMessage::Eose { sub: sub("a"), hint: Some(Hint::Finish) },
        ),
        (
            r#"["EOSE","a",["perhaps",7,"more"],{}]"#.to_owned(),
            RelayMessage::Eose { sub: sub("a"), hint: Some(Hint::More) },
        ),
        (
            r#"["CLOSED","a","rate-limited: slow down"]"#.to_owned(),
            RelayMessage::Closed { sub: sub("a"), text: text() },
        ),
        (r#"["NOTICE","rate-limited: slow down"]"#.to_owned(), RelayMessage::Notice(text())),
        (
            format!(r#"["OK","{hex}",false,"rate-limited: slow down"]"#),
            RelayMessage::Ok { id, ok: false, text: text() },
        ),
        (r#"["AUTH","c\u0001\n"]"#.to_owned(), RelayMessage::Auth("c\u{1}\n".into())),
        (
            r#"["NEG-MSG","a","61ff"]"#.to_owned(),
            RelayMessage::NegMsg { sub: sub("a"), message: vec![0x61, 0xff] },
        ),
        (
            r#"["NEG-ERR","a","rate-limited: slow down"]"#.to_owned(),
            RelayMessage::NegErr { sub: sub("a"), text: text(), limit: None },
        ),
        (
            r#"["NEG-ERR","a","rate-limited: slow down",1000]"#.to_owned(),
            RelayMessage::NegErr { sub: sub("a"), text: text(), limit: Some(1_000) },
        ),
        (
            r#"["NEG-ERR","a","rate-limited: slow down","1000",5]"#.to_owned(),
            RelayMessage::NegErr { sub: sub("a"), text: text(), limit: Some(1_000) },
        ),
        (
            r#"["NEG-ERR","a","rate-limited: slow down",{"max":-1.5}]"#.to_owned(),
            RelayMessage::NegErr { sub: sub("a"), text: text(), limit: None },
        ),
        (r#"["COUNT","a",{"count":7}]"#.to_owned(), RelayMessage::Other),
        (r#"["FUTURE",{},[[]],null]"#.to_owned(), RelayMessage::Other),
    ] {
        assert_eq!(read(&line), message, "{line}");
    }
}

#[test]
fn what_relays_leave_out_or_add_costs_no_message() {
    let hex = "aa".repeat(32);
    let none = String::new;
    let closed = RelayMessage::Closed { sub: sub("a"), text: none() };
    let eose = RelayMessage::Eose { sub: sub("a"), hint: None };
    let id = EventId::from_bytes([0xaa; 32]);
    for (line, message) in [
        (r#"["CLOSED","a"]"#.to_owned(), &closed),
        (r#"["CLOSED","a",null]"#.to_owned(), &closed),
        (r#"["CLOSED","a",{"why":["x",1.5]},7]"#.to_owned(), &closed),
        (r#"["EOSE","a",true]"#.to_owned(), &eose),
        (r#"["EOSE","a","perhaps"]"#.to_owned(), &eose),
        (r#"["EOSE","a",-1,{}]"#.to_owned(), &eose),
        (r#"["EOSE","a",[]]"#.to_owned(), &eose),
        (r#"["EOSE","a",[null,["more"],{"more":1}]]"#.to_owned(), &eose),
        (r#"["EOSE","a",{"more":true}]"#.to_owned(), &eose),
        (r#"["NOTICE"]"#.to_owned(), &RelayMessage::Notice(none())),
        (format!(r#"["OK","{hex}",true]"#), &RelayMessage::Ok { id, ok: true, text: none() }),
    ] {
        assert_eq!(read(&line), *message, "{line}");
    }
}

#[test]
fn foreign_text_is_cut_and_carries_no_control_characters() {
    let long = format!(r#"["NOTICE","\u001b[31m\n{}"]"#, "é".repeat(5000));
    let RelayMessage::Notice(text) = read(&long) else { panic!("not a notice") };
    assert_eq!(text.chars().count(), RelayMessage::TEXT_CHARS_MAX);
    assert!(text.starts_with("[31mé"), "{text}");
}

#[test]
fn what_cannot_be_read_is_attributed_as_far_as_it_was_readable() {
    let deep = format!(r#"["EVENT","a",{}"#, "[".repeat(100_000));
    let upper = event_json().replace("aa", "AA");
    for of_a in [
        r#"["EVENT","a"]"#.to_owned(),
        r#"["EVENT","a",null]"#.to_owned(),
        r#"["EVENT","a",{}]"#.to_owned(),
        format!(r#"["EVENT","a",{upper}]"#),
        format!(r#"["EVENT","a",{}"#, event_json()),
        format!(r#"["EVENT","a",{}] x"#, event_json()),
        r#"["NEG-MSG","a","6"]"#.to_owned(),
        r#"["NEG-MSG","a","zz"]"#.to_owned(),
        r#"["NEG-MSG","a"]"#.to_owned(),
        deep,
    ] {
        assert_eq!(unread(&of_a).sub, Some(sub("a")), "{}", excerpt(&of_a, 80));
    }
    let huge = "s".repeat(SubId::CHARS_MAX + 1);
    for nobodys in [
        String::new(),
        "null".into(),
        "{}".into(),
        "[]".into(),
        "[1]".into(),
        r#"["EOSE"]"#.into(),
        r#"["EOSE",""]"#.into(),
        r#"["EOSE",7]"#.into(),
        format!(r#"["EOSE","{huge}"]"#),
        r#"["OK","aa",true,""]"#.into(),
        format!(r#"["OK","{}","true",""]"#, "aa".repeat(32)),
        r#"["AUTH",""]"#.into(),
        r#"["AUTH",{}]"#.into(),
        format!(r#"["AUTH","{}"]"#, "c".repeat(RelayMessage::CHALLENGE_BYTES_MAX + 1)),
        "[".repeat(100_000),
    ] {
        let unreadable = unread(&nobodys);
        assert_eq!(unreadable.sub, None, "{}", excerpt(&nobodys, 80));
        assert!(unreadable.to_string().chars().count() < 160, "{unreadable}");
    }
}

#[test]
fn what_we_say_is_what_a_relay_reads() {
    let name = "3-\"live\"\\\u{1}";
    let filter = |json: &str| serde_json::from_str::<Filter>(json).unwrap();
    let filters = vec![
        filter(r#"{"kinds":[30617,30618],"limit":0}"#),
        filter(r##"{"#a":["30617:x:\"y\""],"since":5}"##),
    ];
    let parse = |text: &str| ClientMessage::parse(text).unwrap();
    let asked = ClientMessage::Req { sub: sub(name), filters: filters.clone() };
    assert_eq!(parse(&req(name, &filters)), asked);
    assert_eq!(parse(&close(name)), ClientMessage::Close(sub(name)));
    assert_eq!(parse(&neg_close(name)), ClientMessage::NegClose(sub(name)));
    let message = vec![0x61, 0x00, 0xff];
    let said = ClientMessage::NegMsg { sub: sub(name), message: message.clone() };
    assert_eq!(parse(&neg_msg(name, &message)), said);
    let opened = ClientMessage::NegOpen {
        sub: sub(name),
        filter: Box::new(filters[1].clone()),
        message: message.clone(),
    };
    assert_eq!(parse(&neg_open(name, &filters[1], &message)), opened);
    let event = Event::from_json(event_json().as_bytes()).unwrap();
    assert_eq!(parse(&auth(&event)), ClientMessage::Auth(Box::new(event)));
}

#[test]
fn what_our_own_server_says_is_understood() {
    use crate::reply;
    let name = sub("7");
    let id = EventId::from_bytes([1; 32]);
    let event = reply::event(&name, event_json().as_bytes());
    assert!(matches!(read(&event), RelayMessage::Event { .. }));
    let more = RelayMessage::Eose { sub: name.clone(), hint: Some(Hint::More) };
    assert_eq!(read(&reply::eose(&name, Some(Hint::More))), more);
    let refused = RelayMessage::Closed { sub: name.clone(), text: "error: x".into() };
    assert_eq!(read(&reply::closed(&name, "error: x")), refused);
    let ok = RelayMessage::Ok { id, ok: true, text: String::new() };
    assert_eq!(read(&reply::ok(&id, true, "")), ok);
    let neg = RelayMessage::NegMsg { sub: name.clone(), message: vec![0x61] };
    assert_eq!(read(&reply::neg_msg(&name, &[0x61])), neg);
    let failed = RelayMessage::NegErr { sub: name.clone(), text: "closed: x".into(), limit: None };
    assert_eq!(read(&reply::neg_err(&name, "closed: x")), failed);
    assert_eq!(read(&reply::auth("c")), RelayMessage::Auth("c".into()));
    assert_eq!(read(&reply::notice("n")), RelayMessage::Notice("n".into()));
    assert_eq!(read(&reply::count(&name, 1)), RelayMessage::Other);
}

proptest! {
    #[test]
    fn no_text_is_too_strange_to_be_read_or_refused(text in "\\PC*") {
        let _ = RelayMessage::parse(&text);
    }

    #[test]
    fn no_message_is_too_strange(
        verb in "EVENT|EOSE|CLOSED|NOTICE|OK|AUTH|NEG-MSG|NEG-ERR|COUNT|X",
        rest in "[\\[\\]{}\",:a-f0-9\\\\ ]{0,60}",
    ) {
        if let Err(unreadable) = RelayMessage::parse(&format!("[\"{verb}\",{rest}]")) {
            prop_assert!(unreadable.why.chars().count() <= 121);
        }
    }
}
