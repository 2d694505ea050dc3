//! Whatever a stranger writes is read without harm, and nothing unparsed comes out.

use crate::world::{NOW, event, rules};
use grasp_core::event::{Event, Tag};
use grasp_core::maintainers::Member;
use grasp_core::nip34::{References, Roles, State};
use grasp_core::policy::*;
use grasp_core::terms;
use proptest::prelude::*;

/// Tag names and values that mean something somewhere, one between each pair of bars.
const WORDS: &str = "a|A|e|E|q|d|c|p|M|m|o|clone|relays|maintainers|HEAD|private|relay|-||acme|\
    refs/heads/main|refs/heads/../x|refs/tags/v^{}|ref: refs/heads/x|defer|ALL_RELAYS|expiration|\
    18446744073709551615|https://git.example/npub1/acme.git|wss://git.example|30617::|1:2:3";

fn any_word() -> impl Strategy<Value = String> {
    let words: Vec<&str> = WORDS.split('|').collect();
    prop_oneof![
        6 => prop::sample::select(words).prop_map(str::to_owned),
        1 => any::<[u8; 32]>().prop_map(|key| grasp_core::id::hex_encode(&key)),
        1 => any::<[u8; 20]>().prop_map(|oid| grasp_core::id::hex_encode(&oid)),
        1 => any::<String>(),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let kinds = vec![0u16, 1, 5, 62, 1059, 1618, 1619, 10002, 10317, 22242, 29846, 30617, 30618];
    let tags = prop::collection::vec(prop::collection::vec(any_word(), 0..5).prop_map(Tag), 0..20);
    let times = prop_oneof![9 => 0..NOW.0 + 1_000, 1 => any::<u64>()];
    (prop::sample::select(kinds), times, tags).prop_map(|(kind, at, tags)| Event {
        created_at: grasp_core::Timestamp(at),
        tags,
        ..event(kind, 'a')
    })
}

/// The facts of an empty server.
fn nothing_about(subject: &Subject) -> Facts {
    Facts::new(match subject {
        Subject::Announcement(_) => About::Announcement(AnnouncementFacts::default()),
        Subject::State(_) => About::State(StateFacts::default()),
        Subject::PullRequest(_) => About::PullRequest(PullRequestFacts::default()),
        Subject::GraspList => About::GraspList(GraspListFacts { stored: 0 }),
        Subject::Profile(_) => About::Profile(ProfileFacts::default()),
        Subject::Deletion(_) => About::Deletion(DeletionFacts::default()),
        Subject::Vanish(_) => About::Vanish { author_known: false },
        Subject::Related(_) | Subject::Passing(_) => About::Related(None),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn where_nothing_is_known_no_event_opens_a_door(event in any_event()) {
        prop_assert!(terms::terms(&event).is_sorted());
        prop_assert!(References::of(&event).len() <= References::LEN_MAX);
        let Ok(subject) = Subject::of(&event, &rules()) else { return Ok(()) };
        let verdict = judge(&event, &subject, &nothing_about(&subject), &rules(), Origin::Direct, NOW);
        let welcome = matches!(subject, Subject::GraspList)
            && precheck(&event, &rules(), NOW, Origin::Direct).is_ok();
        prop_assert_eq!(verdict == Verdict::Accept, welcome, "{:?}", verdict);
        prop_assert!(verdict != Verdict::PassOn);
    }

    #[test]
    fn a_blacklisted_author_gets_nowhere(event in any_event()) {
        let rules = Rules { event_blacklist: [event.pubkey].into(), ..rules() };
        if let Ok(subject) = Subject::of(&event, &rules) {
            let verdict = judge(&event, &subject, &nothing_about(&subject), &rules, Origin::Direct, NOW);
            prop_assert_eq!(verdict.code(), "author-blacklisted");
        }
    }

    #[test]
    fn an_authorised_state_waits_for_no_more_than_it_names(event in any_event()) {
        let (Ok(subject), Ok(state)) = (Subject::of(&event, &rules()), State::parse(&event)) else {
            return Ok(());
        };
        let family = Member::of(Some(&event), None).map(|it| (event.pubkey, it)).into_iter().collect();
        let about = StateFacts { announced: true, family, present: [].into(), unfit: None };
        let facts = Facts::new(About::State(about));
        match judge(&event, &subject, &facts, &rules(), Origin::Direct, NOW) {
            Verdict::Hold(Needs::GitData { missing }) => {
                prop_assert!(state.satisfiable && !missing.is_empty());
                prop_assert!(missing.iter().all(|oid| state.objects().contains(oid)));
            }
            Verdict::Hold(Needs::Unsatisfiable) => prop_assert!(!state.satisfiable),
            Verdict::Accept => prop_assert!(state.objects().is_empty()),
            _ => {}
        }
    }

    #[test]
    fn a_state_yields_only_what_git_could_have(event in any_event()) {
        if let Ok(state) = State::parse(&event) {
            for (name, oid) in &state.refs {
                prop_assert!(name.as_str().starts_with("refs/") && !name.as_str().contains(".."));
                prop_assert!(oid.to_hex().bytes().any(|digit| digit != b'0'));
            }
            prop_assert!(state.head.is_none_or(|head| head.is_branch()));
        }
    }

    #[test]
    fn roles_are_sorted_bounded_and_never_about_oneself(event in any_event()) {
        let roles = Roles::of(&event);
        prop_assert!(roles.active.is_sorted() && roles.leads.is_sorted());
        prop_assert!(roles.active.len() <= Roles::LISTED_MAX && !roles.lists(&event.pubkey));
        prop_assert!(roles.leads.iter().all(|lead| roles.lists(lead) || *lead == event.pubkey));
        prop_assert!(roles.author_active || !roles.leads.contains(&event.pubkey));
    }
}
