use super::*;

const NOW: Time = Time::from_secs(1_700_000_000);
const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);

fn repo(n: usize) -> RepoId {
    RepoId { owner: PubKey::from_bytes([7; 32]), identifier: n.to_string().parse().unwrap() }
}

fn url(host: usize, n: usize) -> CloneUrl {
    format!("https://h{host}.example/r{n}.git").parse().unwrap()
}

fn following(repos: usize, hosts: usize) -> Rounds {
    let mut rounds = Rounds::new(RoundSettings::default());
    for n in 0..repos {
        let named: Vec<_> = (0..hosts).map(|host| (url(host, n), None)).collect();
        rounds.follow(&repo(n), &named, NOW);
    }
    rounds
}

/// Looks at everything as it becomes due, each look taking a second; when each was done.
fn lives(rounds: &mut Rounds, from: Time, secs: u64) -> BTreeMap<Check, Vec<Time>> {
    let mut seen: BTreeMap<Check, Vec<Time>> = BTreeMap::new();
    for step in 0..secs {
        let now = from.plus(SECOND * u32::try_from(step).unwrap());
        let mut open = Vec::new();
        while let Some(check) = rounds.poll(now) {
            open.push(check);
        }
        for check in open {
            rounds.done(&check, Finding::Equal, None, now);
            seen.entry(check).or_default().push(now);
        }
    }
    seen
}

#[test]
fn s30_what_changes_during_a_look_is_looked_at_again() {
    let mut rounds = following(1, 1);
    let check = rounds.poll(NOW).unwrap();
    rounds.changed(&repo(0), NOW.plus(SECOND));
    rounds.done(&check, Finding::Equal, None, NOW.plus(2 * SECOND));
    assert_eq!(rounds.next_deadline(NOW.plus(2 * SECOND)), Some(NOW.plus(31 * SECOND)));
}

#[test]
fn s30_every_verdict_is_renewed_before_it_is_too_old_and_not_all_at_once() {
    let mut rounds = following(200, 5);
    let seen = lives(&mut rounds, NOW, 3 * 86_400);
    assert_eq!(seen.len(), 1_000);
    let mut in_hour = [0; 72];
    for times in seen.values() {
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) <= DAY * 3 / 4 + SECOND));
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= DAY / 2), "no oftener");
        for at in times {
            in_hour[usize::try_from(at.since(NOW).as_secs() / 3_600).unwrap()] += 1;
        }
    }
    let busiest = in_hour.iter().skip(12).max().unwrap();
    assert!(*busiest < 400, "spread over hours: {in_hour:?}");
}

#[test]
fn s30_a_restart_goes_on_where_it_was() {
    let mut rounds = Rounds::new(RoundSettings::default());
    let named = [(url(1, 1), Some(NOW)), (url(2, 1), None)];
    rounds.follow(&repo(1), &named, NOW.plus(SECOND));
    assert_eq!(rounds.poll(NOW.plus(SECOND)).unwrap().url, url(2, 1), "what is new comes soon");
    assert_eq!(rounds.poll(NOW.plus(DAY / 2)), None);
    assert_eq!(rounds.poll(NOW.plus(DAY * 3 / 4)).unwrap().url, url(1, 1));
    let mut rounds = Rounds::new(RoundSettings::default());
    rounds.follow(&repo(1), &[(url(1, 1), Some(NOW.plus(DAY)))], NOW);
    assert!(rounds.poll(NOW).is_some(), "a time that has not come was written by a wrong clock");
}

#[test]
fn s35_few_at_a_time_and_one_place_holds_up_nobody() {
    let mut rounds = following(10, 3);
    let mut open = Vec::new();
    while let Some(check) = rounds.poll(NOW) {
        open.push(check);
    }
    assert_eq!(open.len(), 6, "two at each of three places");
    let (slow, rest) = open.split_first().unwrap();
    let later = NOW.plus(60 * SECOND);
    rounds.put_off(slow, later);
    rest.iter().for_each(|check| rounds.done(check, Finding::Equal, None, NOW));
    let domain = slow.url.domain();
    let mut others = 0;
    while let Some(check) = rounds.poll(NOW) {
        assert_ne!(check.url.domain(), domain, "left alone until it may be asked");
        rounds.done(&check, Finding::Equal, None, NOW);
        others += 1;
    }
    assert_eq!(others, 16);
    assert_eq!(rounds.next_deadline(NOW), Some(later));
    assert_eq!(rounds.poll(later).as_ref(), Some(slow), "put off, not forgotten");
}

#[test]
fn s43_after_something_new_is_served_mirrors_are_looked_at_shortly_after() {
    let mut rounds = following(2, 1);
    lives(&mut rounds, NOW, 10);
    let now = NOW.plus(100 * SECOND);
    rounds.changed(&repo(1), now);
    assert_eq!(rounds.poll(now.plus(29 * SECOND)), None);
    assert_eq!(rounds.poll(now.plus(30 * SECOND)).unwrap().repo, repo(1));
    rounds.now(&repo(0), now);
    let check = rounds.poll(now.plus(30 * SECOND)).unwrap();
    rounds.now(&repo(0), now.plus(31 * SECOND));
    rounds.done(&check, Finding::Equal, None, now.plus(32 * SECOND));
    assert_eq!(rounds.poll(now.plus(33 * SECOND)), None, "once, and then it is fresh");
}

#[test]
fn s43_what_is_new_is_looked_at_at_once_and_again_when_mirrors_had_time_to_follow() {
    let mut rounds = following(1, 1);
    rounds.changed(&repo(0), NOW);
    let check = rounds.poll(NOW).unwrap();
    rounds.done(&check, Finding::Equal, None, NOW.plus(SECOND));
    assert_eq!(rounds.poll(NOW.plus(29 * SECOND)), None);
    assert_eq!(rounds.poll(NOW.plus(30 * SECOND)), Some(check));
}

#[test]
fn s43_who_lagged_is_looked_at_again_soon_and_then_ever_less() {
    let mut rounds = following(1, 1);
    let (mut now, mut last, mut gaps) = (NOW, NOW, Vec::new());
    while gaps.len() < 12 {
        let check = rounds.poll(now).unwrap();
        gaps.push(now.since(last).as_secs());
        last = now;
        rounds.done(&check, Finding::Differs, None, now);
        now = rounds.next_deadline(now).unwrap();
    }
    assert_eq!(gaps[..6], [0, 60, 120, 240, 480, 960]);
    assert_eq!(gaps[11], rounds.interval(&rounds.of(&repo(0))[0]).as_secs());
    let check = rounds.poll(now).unwrap();
    rounds.done(&check, Finding::Equal, None, now);
    assert!(rounds.next_deadline(now).unwrap().since(now) > DAY / 2);
    assert!(rounds.gaps.is_empty());
}

#[test]
fn s30_what_is_not_named_any_more_is_not_looked_at() {
    let mut rounds = following(3, 2);
    let open = rounds.poll(NOW).unwrap();
    rounds.follow(&repo(0), &[(url(1, 0), None)], NOW);
    rounds.forget(&repo(1));
    rounds.done(&open, Finding::Equal, None, NOW);
    let seen = lives(&mut rounds, NOW, 10);
    assert!(seen.keys().all(|check| check.repo != repo(1) && check.url != url(0, 0)));
    assert_eq!(rounds.len(), 3);
    rounds.forget(&repo(0));
    rounds.forget(&repo(2));
    assert!(rounds.is_empty() && rounds.places.is_empty());
}

#[test]
fn s43_no_more_than_so_many_are_followed() {
    let settings = RoundSettings { entries_max: 5, ..RoundSettings::default() };
    let mut rounds = Rounds::new(settings);
    for n in 0..10 {
        rounds.follow(&repo(n), &[(url(1, n), None)], NOW);
    }
    assert_eq!(rounds.len(), 5);
}

fn of_owner(owner: u8, n: usize) -> RepoId {
    RepoId { owner: PubKey::from_bytes([owner; 32]), ..repo(n) }
}

/// All that is started now.
fn started(rounds: &mut Rounds, now: Time) -> Vec<Check> {
    std::iter::from_fn(|| rounds.poll(now)).collect()
}

#[test]
fn s35_whoever_names_many_slow_servers_makes_nobody_else_late() {
    let mut rounds = Rounds::new(RoundSettings::default());
    for n in 0..50 {
        let named: Vec<_> = (0..10).map(|host| (url(100 + 10 * n + host, n), None)).collect();
        rounds.follow(&of_owner(1, n), &named, NOW);
    }
    let alone = started(&mut rounds, NOW);
    assert_eq!(alone.len(), 6, "some room is kept for others");
    assert_eq!(rounds.next_deadline(NOW), None, "and nothing is to be done until one of them ends");
    let later = NOW.plus(SECOND);
    for n in 0..5 {
        rounds.follow(&of_owner(2, n), &[(url(n, n), None)], later);
    }
    let two = started(&mut rounds, later);
    assert!(two.len() == 2 && two.iter().all(|check| check.repo.owner == of_owner(2, 0).owner));
    let (one, rest) = two.split_first().unwrap();
    rounds.done(one, Finding::Equal, None, later);
    assert_eq!(rounds.poll(later).unwrap().repo.owner, one.repo.owner, "its own share is its own");
    assert_eq!(rounds.poll(later), None);
    // The many look at nothing new while the other one has something to look at.
    alone.iter().for_each(|check| rounds.done(check, Finding::Nothing, None, later));
    let of = |rounds: &mut Rounds| -> Vec<u8> {
        started(rounds, later).iter().map(|check| check.repo.owner.as_bytes()[0]).collect()
    };
    assert_eq!(of(&mut rounds), [1, 1, 1, 1, 1, 1], "two of the other one still run");
    rounds.done(&rest[0], Finding::Equal, None, later);
    assert_eq!(of(&mut rounds), [2]);
}

#[test]
fn s35_at_one_place_owners_take_turns_however_much_some_of_them_have_there() {
    let mut rounds = Rounds::new(RoundSettings::default());
    for n in 0..1_000 {
        for owner in [1, 2] {
            rounds.follow(&of_owner(owner, n), &[(url(1, n), None)], NOW);
        }
    }
    let mut open = started(&mut rounds, NOW);
    let (mut order, mut looks_of_last) = (Vec::new(), 0);
    for secs in 1..=40 {
        let now = NOW.plus(SECOND * secs);
        if secs == 10 {
            for n in 0..5 {
                rounds.follow(&of_owner(3, n), &[(url(1, n), None)], now);
            }
        }
        rounds.done(&open.remove(0), Finding::Equal, None, now);
        for check in started(&mut rounds, now) {
            let owner = check.repo.owner.as_bytes()[0];
            looks_of_last += u32::from(owner == 3);
            order.push(owner);
            open.push(check);
        }
        assert_eq!(open.len(), 2, "no slot stays empty");
        assert!(secs < 26 || looks_of_last == 5, "one of three looks: {order:?}");
    }
    let of = |owner: u8| order.iter().filter(|it| **it == owner).count();
    assert!(of(1).abs_diff(of(2)) <= 2, "{order:?}");
}

#[test]
fn s43_good_and_bad_by_turns_do_not_begin_anew() {
    let mut rounds = following(1, 1);
    let check = rounds.poll(NOW).unwrap();
    rounds.done(&check, Finding::Equal, None, NOW);
    let mut thorough = 0;
    for secs in 1..=43_200_u64 {
        let now = NOW.plus(Duration::from_secs(secs));
        rounds.doubt(&check, now);
        for check in started(&mut rounds, now) {
            thorough += u32::from(is_doubted(&rounds, &check));
            rounds.done(&check, Finding::Equal, None, now);
            rounds.trust(&check);
            // And one for which there is no reason.
            rounds.now(&check.repo, now);
        }
    }
    assert!((8..=11).contains(&thorough), "{thorough} in half a day");
}

#[test]
fn s35_however_often_something_new_is_signed_mirrors_are_asked_once_in_ten_minutes() {
    let mut rounds = following(1, 1);
    let first = rounds.poll(NOW).unwrap();
    rounds.done(&first, Finding::Equal, None, NOW);
    let (mut looks, mut last) = (Vec::new(), 0);
    for secs in 1..=4_000_u64 {
        let now = NOW.plus(Duration::from_secs(secs));
        if secs <= 3_000 {
            rounds.changed(&repo(0), now);
            last = secs;
        }
        for check in started(&mut rounds, now) {
            rounds.done(&check, Finding::Equal, None, now);
            looks.push(secs);
        }
    }
    assert_eq!(looks, [31, 631, 1_231, 1_831, 2_431, 3_031]);
    assert!(looks.last() >= Some(&(last + 30)), "the last change had its look, too");
    assert!(rounds.later.is_empty());
}

#[test]
fn s43_a_change_too_late_for_one_look_has_the_next() {
    let mut rounds = following(1, 1);
    let check = rounds.poll(NOW).unwrap();
    rounds.done(&check, Finding::Equal, None, NOW);
    let at = |secs| NOW.plus(Duration::from_secs(secs));
    rounds.changed(&repo(0), at(1));
    rounds.changed(&repo(0), at(20));
    rounds.now(&repo(0), at(21));
    for secs in [21, 31, 631] {
        assert_eq!(rounds.poll(at(secs - 1)), None, "{secs}");
        assert_eq!(rounds.poll(at(secs)).as_ref(), Some(&check), "{secs}");
        rounds.done(&check, Finding::Equal, None, at(secs));
    }
    assert_eq!(rounds.poll(at(40_000)), None);
    rounds.changed(&repo(0), at(40_000));
    assert!(rounds.poll(at(40_030)).is_some(), "long after, it is soon again");
}

#[test]
fn s43_who_gives_out_what_is_of_no_use_is_looked_at_thoroughly_and_ever_less_often() {
    let mut rounds = following(1, 1);
    let check = rounds.poll(NOW).unwrap();
    assert!(!is_doubted(&rounds, &check));
    rounds.done(&check, Finding::Equal, None, NOW);
    let mut thorough = Vec::new();
    for secs in 1..=20_000_u64 {
        let now = NOW.plus(Duration::from_secs(secs));
        // Every fetch fails.
        rounds.doubt(&check, now);
        for check in started(&mut rounds, now) {
            assert!(is_doubted(&rounds, &check));
            rounds.done(&check, Finding::Equal, None, now);
            thorough.push(secs);
        }
    }
    let gaps: Vec<u64> = thorough.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(thorough[0], 31);
    assert_eq!(gaps[..5], [60, 120, 240, 480, 960]);
    rounds.trust(&check);
    let now = NOW.plus(Duration::from_secs(20_001));
    rounds.now(&repo(0), now);
    assert_eq!(rounds.poll(now).as_ref(), Some(&check));
    assert!(!is_doubted(&rounds, &check), "a good fetch ends all doubt");
    rounds.doubt(&check, now);
    rounds.done(&check, Finding::Equal, None, now);
    let soon = rounds.next_deadline(now).unwrap();
    let gap = soon.since(NOW.plus(SECOND * u32::try_from(*thorough.last().unwrap()).unwrap()));
    assert_eq!(gap, 2 * SECOND * u32::try_from(*gaps.last().unwrap()).unwrap(), "ever less");
    assert!(
        rounds.poll(soon).is_some() && is_doubted(&rounds, &check),
        "the last was not for that"
    );
    rounds.put_off(&check, soon.plus(SECOND));
    assert!(rounds.poll(soon.plus(SECOND)).is_some() && is_doubted(&rounds, &check));
    rounds.forget(&repo(0));
    rounds.doubt(&check, soon);
    assert!(!is_doubted(&rounds, &check), "nobody follows it");
}

fn is_doubted(rounds: &Rounds, check: &Check) -> bool {
    rounds.doubts.is_running(check)
}

#[test]
fn s43_who_signs_often_calls_for_no_closer_looks_where_something_is_amiss() {
    let mut rounds = following(1, 1);
    let check = rounds.poll(NOW).unwrap();
    rounds.done(&check, Finding::Differs, None, NOW);
    let (mut usual, mut again) = (Vec::new(), Vec::new());
    for secs in 1..=40_000 {
        let now = NOW.plus(Duration::from_secs(secs));
        rounds.changed(&repo(0), now);
        for check in started(&mut rounds, now) {
            match rounds.care(&check) {
                Care::Again => again.push(secs),
                _ => usual.push(secs),
            }
            rounds.done(&check, Finding::Differs, None, now);
        }
    }
    assert!(usual.len() > 50, "{}", usual.len());
    let seen: Vec<u64> = again.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!((again[0], &seen[..5]), (60, &[120, 240, 480, 960, 1_920][..]));
    let now = NOW.plus(40_001 * SECOND);
    rounds.now(&repo(0), now);
    assert!(rounds.poll(now).is_some());
    assert_eq!(rounds.care(&check), Care::Again, "somebody wants to know");
    rounds.done(&check, Finding::Differs, None, now);
    let soon = now.plus(600 * SECOND);
    rounds.changed(&repo(0), now);
    assert!(rounds.poll(soon).is_some());
    rounds.now(&repo(0), soon);
    rounds.done(&check, Finding::Differs, None, soon.plus(SECOND));
    assert!(rounds.poll(soon.plus(SECOND)).is_some(), "the one that went on was not for that");
    assert_eq!(rounds.care(&check), Care::Again);
}

#[test]
fn s35_whoever_has_much_sent_to_us_waits_and_others_do_not() {
    let mut rounds = Rounds::new(RoundSettings { bytes_per_owner: 1_000, ..Default::default() });
    for owner in [1, 2] {
        (0..4).for_each(|n| rounds.follow(&of_owner(owner, n), &[(url(n, n), None)], NOW));
    }
    let begun = started(&mut rounds, NOW);
    assert!(begun.iter().any(|it| it.repo.owner == of_owner(1, 0).owner));
    for check in begun {
        let is_first = check.repo.owner == of_owner(1, 0).owner;
        rounds.received(&check, if is_first { 600 } else { 10 }, NOW);
        rounds.done(&check, Finding::Equal, None, NOW);
    }
    (0..4).for_each(|n| {
        rounds.now(&of_owner(1, n), NOW);
        rounds.now(&of_owner(2, n), NOW);
    });
    let begun = started(&mut rounds, NOW);
    assert!(begun.len() >= 2 && begun.iter().all(|it| it.repo.owner == of_owner(2, 0).owner));
    for check in begun {
        rounds.done(&check, Finding::Equal, None, NOW);
    }
    while let Some(check) = rounds.poll(NOW) {
        rounds.done(&check, Finding::Equal, None, NOW);
    }
    let later = rounds.next_deadline(NOW).unwrap();
    assert!(later > NOW && later < NOW.plus(2 * DAY));
    assert_eq!(rounds.poll(later).unwrap().repo.owner, of_owner(1, 0).owner);
}
