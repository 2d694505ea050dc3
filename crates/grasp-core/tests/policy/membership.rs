//! N 1.3 to 1.5 and P 2.2: who is a maintainer of what.

use crate::world::{Draft, announces, family, people, roles, who};
use grasp_core::PubKey;
use grasp_core::maintainers::{Family, Grant, MaintainerRule, Member, Standing, Unresolved};
use grasp_core::nip34::Roles;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn a_record_is_active_by_its_boundaries() {
    let check = |row: &str, record: &str, leads: &str, active: &str| {
        let roles = roles('a', record);
        assert_eq!(roles.leads, people(leads).into_iter().collect::<Vec<_>>(), "{row}: leads");
        assert_eq!(roles.active, people(active).into_iter().collect::<Vec<_>>(), "{row}: active");
    };
    check("N 1.3 no boundary is active", "m=b", "", "b");
    check("N 1.3 odd count is active", "m=b@10", "", "b");
    check("N 1.3 odd count is active", "m=b@10,20,30", "", "b");
    check("N 1.3 even count is ended", "m=b@10,20", "", "");
    check("N 1.3 defer as last end is inactive", "m=b@10,defer", "", "");
    check("N 1.3 defer in a start position is invalid", "m=b@defer", "", "");
    check("N 1.3 defer in a start position is invalid", "m=b@10,20,defer", "", "");
    check("N 1.3 defer before the end is invalid", "m=b@10,defer,30", "", "");
    check("N 1.3 any other text is invalid", "m=b@soon", "", "");
    check("N 1.3 any other text is invalid", "m=b@-1", "", "");
    check("N 1.3 any other text is invalid", "m=b@+1", "", "");
    check("N 1.3 any other text is invalid", "m=b@99999999999999999999", "", "");
    check("N 1.3 one active record of several suffices", "m=b@1,2 m=b@3", "", "b");
    check("N 1.3 an invalid record does not spoil a valid one", "m=b@x M=b", "b", "b");
    check("N 1.3 M leads and maintains", "M=b", "b", "b");
    check("N 1.3 an ended M leads nobody", "M=b@1,2 m=b", "", "b");
    check("N 1.3 o never maintains", "o=b", "", "");
    check("N 1.3 roles silence maintainers", "m=b list=c", "", "b");
    check("N 1.3 even a moderator silences maintainers", "o=b list=c", "", "");
    check("N 1.3 even an invalid record silences maintainers", "m=b@x list=c", "", "");
    check("N 1.3 maintainers alone counts and names no lead", "list=c list=b", "", "bc");
}

#[test]
fn the_author_is_a_maintainer_unless_they_say_otherwise() {
    let check = |row: &str, record: &str, expected: bool| {
        assert_eq!(roles('a', record).author_active, expected, "{row}");
    };
    check("N 1.3 nothing said", "", true);
    check("N 1.3 only others named", "M=b m=c", true);
    check("N 1.3 maintainers never removes its author", "list=b", true);
    check("N 1.3 active m", "m=a", true);
    check("N 1.3 active M", "M=a@1", true);
    check("N 1.3 ended", "m=a@1,2", false);
    check("N 1.3 deferred", "m=a@1,defer", false);
    check("N 1.3 malformed", "m=a@x", false);
    check("N 1.3 only o", "o=a", false);
    check("N 1.3 any active record wins", "o=a m=a@1,2 m=a@3", true);
}

#[test]
fn entries_that_are_no_keys_are_skipped() {
    let npub = who('b').to_npub();
    let upper = who('c').to_hex().replace('6', "A");
    let legacy = announces('a').tag(&["maintainers", "junk", &npub, &upper, &who('d').to_hex()]);
    assert_eq!(Roles::of(&legacy).active, [who('d')], "P 2.1, trap 40");
    let recorded = announces('a').tag(&["m"]).tag(&["maintainers", &who('d').to_hex()]);
    assert!(Roles::of(&recorded).active.is_empty(), "N 1.3 a keyless record is still a record");
}

#[test]
fn at_most_a_hundred_are_listed_and_leads_come_first() {
    let key = |n: u8| PubKey::from_bytes([n; 32]).to_hex();
    let many = (0..150).fold(announces('z'), |event, n| event.tag(&["m", &key(n)]));
    assert_eq!(Roles::of(&many).active.len(), Roles::LISTED_MAX, "T 4");
    let roles = Roles::of(&many.tag(&["M", &key(200)]));
    assert_eq!(roles.active.len(), Roles::LISTED_MAX);
    assert!(roles.lists(&PubKey::from_bytes([200; 32])));
}

fn confirmed(row: &str, text: &str, owner: char, expected: &str) {
    assert_eq!(family(text).confirmed(&who(owner)), Ok(people(expected)), "{row}");
}

fn unresolved(row: &str, text: &str, owner: char, expected: Unresolved) {
    assert_eq!(family(text).confirmed(&who(owner)), Err(expected), "{row}");
}

#[test]
fn the_root_of_a_view_is_found_or_nobody_has_a_say() {
    confirmed("N 1.4 leaderless", "a:", 'a', "a");
    confirmed("N 1.4 leads itself", "a: M=a", 'a', "a");
    confirmed("N 1.4 follows the lead", "a: M=b; b: M=b m=a", 'a', "ab");
    confirmed("N 1.4 follows twice", "a: M=b; b: M=c m=a; c: M=c m=b", 'a', "abc");
    unresolved("N 1.4 selected missing", "b:", 'a', Unresolved::OwnerMissing);
    unresolved("N 1.4 inactive", "a: m=a@1,2", 'a', Unresolved::OwnerInactive);
    unresolved("N 1.4 lead missing", "a: M=b", 'a', Unresolved::LeadMissing(who('b')));
    unresolved("N 1.4 path ends", "a: M=b; b: m=a", 'a', Unresolved::PathIncomplete(who('b')));
    unresolved("N 1.4 two leads", "a: M=a M=b; b:", 'a', Unresolved::Ambiguous(who('a')));
    unresolved("N 1.4 two leads", "a: M=b; b: M=a M=b", 'a', Unresolved::Ambiguous(who('b')));
    unresolved("N 1.4 cycle", "a: M=b; b: M=a", 'a', Unresolved::Cycle);
    unresolved("N 1.4 long cycle", "a: M=b; b: M=c; c: M=b", 'a', Unresolved::Cycle);
    let far = "a: M=b; b: M=c; c: M=d; d: M=e; e: M=f; f: M=g; g: M=h; h: M=i; i: M=j; j: M=j";
    unresolved("T 4 eight levels", far, 'a', Unresolved::TooFar);
    confirmed("T 4 eight levels", far, 'b', "j");
}

#[test]
fn confirmation_takes_both_sides() {
    confirmed("N 1.4 mutual", "a: m=b; b: m=a", 'a', "ab");
    confirmed("N 1.4 mutual by the old tag", "a: list=b; b: list=a", 'a', "ab");
    confirmed("N 1.4 mixed", "a: M=a m=b; b: list=a", 'a', "ab");
    confirmed("N 1.4 no own announcement", "a: m=b", 'a', "a");
    confirmed("N 1.4 lists nobody back", "a: m=b; b:", 'a', "a");
    confirmed("N 1.4 lists us, is not listed", "a:; b: m=a", 'a', "a");
    confirmed("N 1.4 resigned", "a: m=b; b: m=a m=b@1,2", 'a', "a");
    confirmed("N 1.4 moderator", "a: o=b; b: m=a", 'a', "a");
    confirmed("N 1.4 held counts at once", "a?: m=b; b?: m=a", 'a', "ab");
    confirmed("N 1.4 chain", "a: m=b; b: m=a m=c; c: m=b", 'a', "abc");
    confirmed("N 1.4 ring nobody invited", "a:; b: m=c m=a; c: m=b", 'a', "a");
    confirmed("N 1.4 listed by one, lists another", "a: m=b m=c; b: m=a; c: m=b", 'a', "abc");
    confirmed("N 1.4 the later tie completes", "a: m=c m=b; b: m=a; c: m=b", 'a', "abc");
    confirmed("N 1.4 invitation ended", "a: m=b@1,2; b: m=a", 'a', "a");
}

#[test]
fn views_are_independent() {
    let former = "a: M=a m=c; b: m=b@1,2 M=a; c: m=a";
    confirmed("N 1.4 a former maintainer's view follows the lead", former, 'b', "ac");
    let removed = "a: M=a; b: m=a";
    confirmed("N 1.4 a removed one keeps their own view", removed, 'b', "b");
    confirmed("N 1.4 and has no say in the lead's", removed, 'a', "a");
    let strangers = "a: m=b; b: m=a; c: m=d; d: m=c";
    confirmed("N 1.4 same name, other people", strangers, 'a', "ab");
    confirmed("N 1.4 same name, other people", strangers, 'c', "cd");
}

#[test]
fn the_chain_of_confirmation_is_eight_long() {
    let long = "a: m=b; b: m=a m=c; c: m=b m=d; d: m=c m=e; e: m=d m=f; f: m=e m=g; g: m=f m=h; \
                h: m=g m=i; i: m=h m=j; j: m=i";
    confirmed("D 2 beyond eight levels nothing is granted", long, 'a', "abcdefghi");
    assert_eq!(family(long).listed(&who('a')), Ok(people("abcdefghi")), "D 2, listed");
}

#[test]
fn the_older_rule_is_one_way() {
    let check = |row: &str, text: &str, owner, expected: &str| {
        assert_eq!(family(text).listed(&who(owner)), Ok(people(expected)), "{row}");
    };
    check("P 2.2 the owner is a member", "a:", 'a', "a");
    check("P 2.2 listed without an announcement", "a: list=b", 'a', "ab");
    check("P 2.2 recursive", "a: list=b; b: list=c", 'a', "abc");
    check("P 2.2 cycles end", "a: list=b; b: list=a", 'a', "ab");
    check("P 2.2 directional", "a: list=b; b:", 'b', "b");
    check("P 2.2 role tags count when present", "a: m=b o=c m=d@1,2 list=e", 'a', "ab");
    check("P 2.2 who declined is out", "a: list=b; b: m=b@1,2 m=c", 'a', "a");
    check("P 2.2 a former owner hands on", "a: m=a@1,2 M=b; b: M=b m=c", 'a', "bc");
    let missing = family("b: list=a").listed(&who('a'));
    assert_eq!(missing, Err(Unresolved::OwnerMissing), "no announcement, no view");
}

#[test]
fn a_say_in_any_known_view_is_authority() {
    let check = |row: &str, rule, text: &str, author, expected: Option<(char, Standing)>| {
        let expected = expected.map(|(view, standing)| Grant { view: who(view), standing });
        assert_eq!(family(text).authority(&who(author), rule), expected, "{row}");
    };
    use MaintainerRule::{Confirmed, Listed};
    use Standing::{Held, Served};
    check("N 1.5 owner", Confirmed, "a:", 'a', Some(('a', Served)));
    check("N 1.5 held owner", Confirmed, "a?:", 'a', Some(('a', Held)));
    check("N 1.5 stranger", Confirmed, "a:", 'b', None);
    check("N 1.5 listed only", Confirmed, "a: m=b", 'b', None);
    check("N 1.5 confirmed elsewhere", Confirmed, "a: M=a m=b; b: M=a", 'b', Some(('a', Served)));
    check(
        "N 1.5 (a) invitee rules their own view",
        Confirmed,
        "a:; b: m=a",
        'b',
        Some(('b', Served)),
    );
    check("N 1.5 (b) two leads", Confirmed, "a?: M=a M=b; b: M=a", 'a', None);
    check("N 1.5 the best view counts", Confirmed, "a: M=a m=b; b?: m=a", 'b', Some(('a', Served)));
    let by_former = "a?: M=a m=c; b: m=b@1,2 M=a; c?: M=a";
    check("N 1.4 a former's served view", Confirmed, by_former, 'c', Some(('b', Served)));
    check("N 1.4 the former has no say", Confirmed, by_former, 'b', None);
    check("N 1.5 resigned", Confirmed, "a: M=a m=b; b: m=b@1,2 M=a", 'b', None);
    check("P 2.2 listed only", Listed, "a: list=b", 'b', Some(('a', Served)));
    check("P 2.2 listed by a held one", Listed, "a?: list=b", 'b', Some(('a', Held)));
    check("P 2.2 stranger", Listed, "a:", 'b', None);
    check("P 2.2 resigned", Listed, "a: m=b; b: m=b@1,2", 'b', None);
}

#[test]
fn an_invitation_is_any_active_listing() {
    let invited = |text: &str, key| family(text).invited(&who(key)).map(|by| by.standing);
    assert_eq!(invited("a: m=b", 'b'), Some(Standing::Served), "N 1.4 step 3");
    assert_eq!(invited("a?: m=b", 'b'), Some(Standing::Held));
    assert_eq!(invited("a?: m=c; b: m=c", 'c'), Some(Standing::Served), "the best counts");
    assert_eq!(invited("a: o=b", 'b'), None, "N 1.3 moderators are not followed");
    assert_eq!(invited("a: m=b@1,2", 'b'), None, "ended");
    assert_eq!(invited("a:", 'a'), None, "nobody invites themselves");
}

#[test]
fn the_newest_version_decides_roles_and_any_served_one_the_standing() {
    let served = announces('a').at(10).tag(&["m", &who('b').to_hex()]);
    let held = announces('a').at(20).tag(&["m", &who('c').to_hex()]);
    let member = Member::of(Some(&served), Some(&held)).unwrap();
    assert_eq!(
        (member.roles.active, member.standing),
        (vec![who('c')], Standing::Served),
        "N 1.5 (b)"
    );
    let member = Member::of(Some(&served.at(30)), Some(&held)).unwrap();
    assert_eq!((member.roles.active, member.standing), (vec![who('b')], Standing::Served));
    let member = Member::of(None, Some(&held)).unwrap();
    assert_eq!((member.roles.active, member.standing), (vec![who('c')], Standing::Held));
    assert_eq!(Member::of(None, None), None);
}

/// Seven people, so that the bounds are never met: sets of others, leads, and a resignation.
type Sketch = Vec<Option<Person>>;
type Person = (BTreeSet<u8>, BTreeSet<u8>, bool);

fn any_sketch() -> impl Strategy<Value = Sketch> {
    let keys = |max| prop::collection::btree_set(0u8..7, 0..max);
    let one = (keys(5), keys(3), prop::bool::weighted(0.85));
    prop::collection::vec(prop::option::weighted(0.9, one), 7)
}

fn drawn(sketch: &Sketch) -> Vec<(u8, Member)> {
    let draw = |(author, one): (u8, &Option<Person>)| {
        let (others, leads, author_active) = one.clone()?;
        let active = others.union(&leads).copied().filter(|n| *n != author);
        let leads = leads.iter().copied().filter(|n| *n != author || author_active);
        let roles = Roles {
            leads: leads.map(nth).collect(),
            active: active.map(nth).collect(),
            author_active,
        };
        Some((author, Member { roles, standing: Standing::Served }))
    };
    (0..).zip(sketch).filter_map(draw).collect()
}

fn nth(n: u8) -> PubKey {
    PubKey::from_bytes([n; 32])
}

/// The rule as it is written down, looking at everything again until nothing changes.
fn naive(members: &[(u8, Member)], owner: u8) -> BTreeSet<PubKey> {
    let of = |n: u8| members.iter().find(|(m, _)| *m == n).map(|(_, member)| &member.roles);
    let mut path = vec![owner];
    let root = loop {
        let at = *path.last().unwrap();
        let Some(roles) = of(at) else { return BTreeSet::new() };
        match roles.leads.as_slice() {
            [] if path.len() == 1 && roles.author_active => break at,
            [lead] if *lead == nth(at) => break at,
            [lead] => path.push((0..7).find(|n| nth(*n) == *lead).unwrap()),
            _ => return BTreeSet::new(),
        }
        if path.len() > 8 {
            return BTreeSet::new();
        }
    };
    let mut confirmed = BTreeSet::from([root]);
    loop {
        let before = confirmed.clone();
        for (candidate, Member { roles, .. }) in members {
            let listed = before.iter().any(|m| of(*m).is_some_and(|it| it.lists(&nth(*candidate))));
            let lists = before.iter().any(|m| roles.lists(&nth(*m)));
            if listed && lists && roles.author_active {
                confirmed.insert(*candidate);
            }
        }
        if confirmed == before {
            return confirmed.into_iter().map(nth).collect();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_worklist_confirms_whom_the_naive_rule_confirms(sketch in any_sketch()) {
        let members = drawn(&sketch);
        let family: Family = members.iter().map(|(n, m)| (nth(*n), m.clone())).collect();
        for owner in 0..7 {
            let found = family.confirmed(&nth(owner)).unwrap_or_default();
            prop_assert_eq!(found, naive(&members, owner));
        }
    }

    #[test]
    fn authority_means_being_confirmed_in_some_view(sketch in any_sketch()) {
        let members = drawn(&sketch);
        let known = |key: &PubKey| {
            members.iter().find(|(n, _)| nth(*n) == *key).map(|(_, member)| member.clone())
        };
        for author in 0..7 {
            let family = Family::gather([nth(author)], known, |_| Vec::new());
            let somewhere = (0..7).any(|view| naive(&members, view).contains(&nth(author)));
            let authority = family.authority(&nth(author), MaintainerRule::Confirmed);
            prop_assert_eq!(authority.is_some(), somewhere);
        }
    }
}
