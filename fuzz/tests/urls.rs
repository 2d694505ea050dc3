//! URLs from events: whatever they are, they mean us only if their host is ours.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bolero::check;
use grasp_core::service::{Authority, Service, percent_decoded};
use grasp_core::{Identifier, PubKey};
use grasp_fuzz::{Tape, broken, tapes};
use url::Url;

fn services() -> [Service; 3] {
    let authority = |text| Authority::parse(text).unwrap();
    [
        Service::new(authority("git.example"), vec![authority("old.example")], ""),
        Service::new(authority("127.0.0.1:7334"), vec![], "/base/path"),
        Service::new(authority("[::1]"), vec![], ""),
    ]
}

const OUR_HOSTS: &[&str] =
    &["git.example", "git.example.", "old.example", "old.example.", "127.0.0.1", "[::1]"];

#[test]
fn no_text_makes_the_comparison_fall_and_none_of_another_host_means_us() {
    let services = services();
    check!().with_generator(tapes(1_000)).with_iterations(8_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let owner = PubKey::from_bytes(tape.key());
        let identifier: Identifier =
            tape.text().parse().unwrap_or_else(|_| "acme".parse().unwrap());
        let text = url(&mut tape, &owner, &identifier);
        let text = broken(&mut tape, &text);
        for service in &services {
            let relay = service.names_relay(&text);
            let clone = service.names_clone(&text, &owner, &identifier);
            assert!(!(relay && clone), "{text} cannot be both");
            if relay || clone {
                let url = Url::parse(text.trim()).unwrap();
                assert!(OUR_HOSTS.contains(&url.host_str().unwrap()), "{text}");
                assert_eq!((url.query(), url.fragment(), url.username()), (None, None, ""));
            }
        }
    });
}

fn url(tape: &mut Tape<'_>, owner: &PubKey, identifier: &Identifier) -> String {
    let scheme =
        *tape.pick(&["wss://", "ws://", "https://", "http://", "HTTPS://", "git@", "file://"]);
    let host = match tape.below(4) {
        0 => tape.text(),
        _ => (*tape.pick(&[
            "git.example",
            "GIT.example.",
            "old.example:443",
            "127.0.0.1:7334",
            "0x7f.1:7334",
            "[::1]:80",
            "git.example.evil.example",
            "git.example@evil.example",
            "evil.example",
            "git.example\\@evil.example",
            "git.example%00.evil.example",
        ]))
        .to_owned(),
    };
    let path = match tape.below(5) {
        0 => String::new(),
        1 => "/base/path/".to_owned(),
        2 => format!("/{}/{}.git", owner.to_npub(), identifier.percent_encoded()),
        3 => format!("/base/path/{}/{}.git", owner.to_npub(), identifier.percent_encoded()),
        _ => format!("/{}", tape.text()),
    };
    format!("{scheme}{host}{path}")
}

#[test]
fn our_own_url_of_any_repository_is_recognised() {
    let [service, ..] = services();
    check!().with_generator(tapes(1_000)).with_iterations(6_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let owner = PubKey::from_bytes(tape.key());
        let Ok(identifier) = tape.text().parse::<Identifier>() else { return };
        let encoded = identifier.percent_encoded();
        assert_eq!(percent_decoded(&encoded).as_deref(), Some(identifier.as_str()));
        let url = format!("https://git.example/{}/{encoded}.git", owner.to_npub());
        assert!(service.names_clone(&url, &owner, &identifier), "{url}");
        let other: Identifier = "another".parse().unwrap();
        assert!(identifier == other || !service.names_clone(&url, &owner, &other));
    });
}

#[test]
fn percent_escapes_are_decoded_once_or_refused() {
    check!().with_generator(tapes(1_000)).with_iterations(8_000).for_each(|bytes: &Vec<u8>| {
        let text = Tape::new(bytes).text();
        let Some(decoded) = percent_decoded(&text) else {
            assert!(text.contains('%'));
            return;
        };
        assert!(decoded.len() <= text.len());
        assert!(text.contains('%') || decoded == text);
    });
}

#[test]
fn an_authority_that_parses_prints_as_one_that_parses_the_same() {
    check!().with_generator(tapes(1_000)).with_iterations(6_000).for_each(|bytes: &Vec<u8>| {
        let text = Tape::new(bytes).text();
        if let Ok(authority) = Authority::parse(&text) {
            let printed = authority.to_string();
            assert_eq!(Authority::parse(&printed).as_ref(), Ok(&authority), "{text:?} {printed:?}");
        }
    });
}
