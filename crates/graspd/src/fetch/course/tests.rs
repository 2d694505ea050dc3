use super::*;
use grasp_git::fetch::V0Caps;

fn oid(n: u8) -> Oid {
    Oid::from_bytes([n; 20])
}

fn set(ns: impl IntoIterator<Item = u8>) -> BTreeSet<Oid> {
    ns.into_iter().map(oid).collect()
}

fn branch(n: u8) -> Listed {
    Listed { kind: RefKind::Branch, oid: oid(n), peeled: None }
}

/// A server in a few words.
#[derive(Debug, Default, Clone)]
struct Server {
    has: BTreeSet<Oid>,
    tips: Vec<Listed>,
    /// Version 0, with these.
    old: Option<V0Caps>,
    only_tips: bool,
    refuses_in_words: bool,
    /// What may not be taken, alone or with others.
    bad: BTreeSet<Oid>,
    /// How many together are too large.
    heavy: Option<usize>,
}

impl Server {
    fn answers(&self, question: &Question, wants: &BTreeSet<Oid>, speaks: Speaks) -> Heard {
        let is_old = matches!(speaks, Speaks::V0(_));
        match question {
            Question::Advert => Heard::Advert(match self.old {
                None => Advert::V2,
                Some(caps) => Advert::V0 { caps, refs: self.tips.clone() },
            }),
            _ if self.old.is_some() != is_old => Heard::Unclear("what?".into()),
            Question::Refs => Heard::Refs(self.tips.clone()),
            Question::Objects(oids) | Question::Everything { tips: oids, .. } => {
                let gives = |oid: &Oid| {
                    self.has.contains(oid)
                        && (!self.only_tips || self.tips.iter().any(|tip| tip.oid == *oid))
                };
                match oids.iter().find(|oid| !gives(oid)) {
                    Some(_) if self.refuses_in_words => Heard::Refuses("no".into()),
                    Some(oid) => Heard::Lacks(*oid),
                    None if !oids.is_disjoint(&self.bad) => Heard::Unfit("bad".into()),
                    None if self.heavy.is_some_and(|heavy| oids.len() >= heavy) => {
                        Heard::Unfit("heavy".into())
                    }
                    None if matches!(question, Question::Everything { .. }) => {
                        Heard::Pack(wants & &self.has)
                    }
                    None => Heard::Pack(wants & oids),
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Told {
    questions: Vec<String>,
    found: BTreeSet<Oid>,
    absent: BTreeSet<Oid>,
    spurned: BTreeSet<Oid>,
    failed: Option<String>,
}

fn run(course: &mut Course, server: &Server, wants: &BTreeSet<Oid>) -> Told {
    course.begin(wants, false);
    follow(course, server)
}

fn follow(course: &mut Course, server: &Server) -> Told {
    let mut told =
        Told { questions: vec![], found: set([]), absent: set([]), spurned: set([]), failed: None };
    while let Some(question) = course.poll_question() {
        assert!(told.questions.len() < 30, "{:?}", told.questions);
        told.questions.push(match &question {
            Question::Objects(oids) => format!("objects {}", oids.len()),
            Question::Everything { tips, sure: true } => format!("everything {}", tips.len()),
            Question::Everything { tips, .. } => format!("search {}", tips.len()),
            other => format!("{other:?}").to_lowercase(),
        });
        let heard = server.answers(&question, &course.sought(), course.speaks);
        if let Heard::Pack(here) = &heard {
            told.found.extend(here);
        }
        if let Err(why) = course.handle(heard) {
            told.failed = Some(why);
            break;
        }
        told.spurned.extend(course.take_spurned());
    }
    told.absent.clone_from(course.absent());
    told
}

fn asked(server: &Server, wants: &BTreeSet<Oid>) -> Told {
    run(&mut Course::new(false, 0, 2_000), server, wants)
}

#[test]
fn a_server_that_has_everything_is_asked_once() {
    let server = Server { has: set(1..=9), ..Server::default() };
    let told = asked(&server, &set(1..=5));
    assert_eq!(told.questions, ["objects 5"]);
    assert_eq!((told.found, told.absent, told.failed), (set(1..=5), set([]), None));
}

#[test]
fn what_it_lacks_is_dropped_one_by_one() {
    let server = Server { has: set([1, 4, 5]), ..Server::default() };
    let told = asked(&server, &set(1..=5));
    assert_eq!(told.questions, ["objects 5", "objects 4", "objects 3"]);
    assert_eq!((told.found, told.absent, told.failed), (set([1, 4, 5]), set([2, 3]), None));
}

#[test]
fn who_lacks_many_is_asked_what_there_is_and_then_for_a_few_that_may_be_behind_it() {
    let tips = vec![branch(20), branch(21)];
    let server = Server { has: set([1, 9, 20, 21]), tips, ..Server::default() };
    let wants = set((1..=12).chain([20, 21]));
    let mut found = BTreeSet::new();
    for turn in 0..12 {
        let told = run(&mut Course::new(false, turn, 10), &server, &wants);
        let listed = ["objects 14", "objects 13", "objects 12", "refs", "objects 2"];
        assert_eq!(told.questions.get(..5).unwrap(), listed);
        assert!(told.questions.len() <= 8, "{:?}", told.questions);
        assert!(told.found.is_superset(&set([20, 21])) && told.failed.is_none());
        assert!(told.absent.is_disjoint(&server.has), "{:?}", told.absent);
        found.extend(told.found);
    }
    assert_eq!(found, server.has, "in one of the turns each was asked for");
}

#[test]
fn a_mirror_that_lags_behind_costs_few_requests_and_no_data() {
    let server = Server { has: set([1]), tips: vec![branch(1)], ..Server::default() };
    let told = asked(&server, &set(2..=4));
    assert_eq!(told.questions, ["objects 3", "objects 2", "objects 1"]);
    assert_eq!((told.absent, told.failed), (set(2..=4), None));
    let told = asked(&server, &set(2..=20));
    assert!(told.questions.len() <= 7 && !told.questions.iter().any(|q| q.starts_with("every")));
}

#[test]
fn who_does_not_know_version_2_is_asked_in_version_0() {
    let caps = V0Caps { allow_any: true, ..V0Caps::default() };
    let tips = vec![branch(1)];
    let server = Server { has: set([1, 2]), tips, old: Some(caps), ..Server::default() };
    let told = asked(&server, &set([1, 2]));
    assert_eq!(told.questions, ["objects 2", "advert", "objects 1", "objects 1"]);
    assert_eq!((told.found, told.failed), (set([1, 2]), None));
    let told = run(&mut Course::new(true, 0, 10), &server, &set([1]));
    assert_eq!(told.questions, ["advert", "objects 1"], "known beforehand");
}

#[test]
fn who_gives_away_nothing_but_tips_is_asked_for_all_of_them() {
    let caps = Some(V0Caps::default());
    let tips = vec![branch(1), branch(3)];
    let old = Server { has: set(1..=3), tips, old: caps, only_tips: true, ..Server::default() };
    let told = asked(&old, &set([2, 7]));
    assert_eq!(told.questions, ["objects 2", "advert", "everything 2"]);
    assert_eq!((told.found, told.absent, told.failed), (set([2]), set([7]), None));
    let told = run(&mut Course::new(true, 0, 1), &old, &set([2, 7]));
    assert_eq!((told.questions, told.absent), (vec!["advert".into()], set([2, 7])), "too many");
    let new = Server { old: None, refuses_in_words: true, ..old };
    let told = asked(&new, &set([2, 3]));
    assert_eq!(told.questions, ["objects 2", "advert", "refs", "objects 1", "everything 2"]);
    assert_eq!((told.found, told.failed), (set([2, 3]), None));
}

#[test]
fn who_refuses_everything_may_be_searched_once() {
    let tips = vec![branch(5), branch(6)];
    let server = Server { has: set(1..=6), tips, only_tips: true, ..Server::default() };
    let search = |wants: &BTreeSet<Oid>| {
        let mut course = Course::new(false, 0, 10);
        course.begin(wants, true);
        follow(&mut course, &server)
    };
    let told = search(&set([2, 9]));
    assert_eq!(told.questions, ["objects 2", "objects 1", "refs", "search 2"]);
    assert_eq!((told.found, told.absent, told.failed), (set([2]), set([9]), None));
    let told = search(&set([9]));
    assert_eq!(told.questions, ["objects 1", "refs", "search 2"]);
    assert_eq!((told.found, told.absent, told.failed), (set([]), set([9]), None));
    let told = search(&set([5, 9]));
    assert_eq!(told.questions, ["objects 2", "objects 1"], "it gave something away");
    let told = asked(&server, &set([2]));
    assert_eq!(told.questions, ["objects 1"], "searching was not permitted");
    let silent = Server { tips: vec![], ..server.clone() };
    let mut course = Course::new(false, 0, 10);
    course.begin(&set([2]), true);
    assert_eq!(follow(&mut course, &silent).questions, ["objects 1", "refs"], "nothing to search");
}

#[test]
fn one_that_may_not_be_taken_keeps_no_other_away() {
    let server = Server { has: set(1..=9), bad: set([3]), ..Server::default() };
    let mut course = Course::new(false, 0, 10);
    let told = run(&mut course, &server, &set(1..=8));
    let halves = ["objects 8", "objects 4", "objects 2", "objects 2", "objects 1", "objects 1"];
    assert_eq!(told.questions, [&halves[..], &["objects 4"]].concat());
    assert_eq!((told.found, told.absent), (set([1, 2, 4, 5, 6, 7, 8]), set([])));
    assert_eq!((told.spurned, told.failed, course.left_some()), (set([3]), None, false));
    let told = run(&mut course, &server, &set([9]));
    assert_eq!((told.questions, told.found), (vec!["objects 1".to_owned()], set([9])));
}

#[test]
fn what_is_too_much_together_comes_in_parts() {
    let server = Server { has: set(1..=9), heavy: Some(3), ..Server::default() };
    let told = asked(&server, &set(1..=8));
    assert_eq!((told.found, told.spurned, told.failed), (set(1..=8), set([]), None));
    assert_eq!(told.questions.len(), 7);
}

#[test]
fn where_nothing_may_be_taken_only_so_much_is_spent_on_finding_it_out() {
    let server = Server { has: set(1..=99), bad: set(1..=99), ..Server::default() };
    let mut course = Course::new(false, 0, 10);
    let mut wants = set(1..=99);
    let told = run(&mut course, &server, &wants);
    assert_eq!(told.questions.len(), 1 + HALVES_MAX);
    assert!(told.spurned.len() >= 4 && course.left_some(), "{:?}", told.spurned);
    assert_eq!((told.absent, told.failed), (set([]), None));
    let told = run(&mut course, &server, &set([1, 2]));
    assert_eq!(told.questions, ["objects 2"], "nothing is left for another part");
    let mut jobs = 0;
    while !wants.is_empty() {
        jobs += 1;
        let told = run(&mut Course::new(false, jobs, 10), &server, &wants);
        assert!(!told.spurned.is_empty());
        wants.retain(|oid| !told.spurned.contains(oid));
    }
    assert!(jobs < 25, "{jobs}");
}

#[test]
fn what_is_lacking_and_what_may_not_be_taken_are_told_apart() {
    let tips = (1..=9).map(branch).collect();
    let server = Server { has: set(1..=9), bad: set([2]), tips, ..Server::default() };
    let told = asked(&server, &set((1..=4).chain(20..=30)));
    assert_eq!((told.found, told.spurned), (set([1, 3, 4]), set([2])));
    assert!(told.absent.is_subset(&set(20..=30)) && told.failed.is_none(), "{:?}", told.absent);
    let caps = Some(V0Caps::default());
    let tips = vec![branch(5)];
    let bad = set([5]);
    let old = Server { tips, bad, old: caps, only_tips: true, ..server };
    let told = asked(&old, &set([2, 7]));
    assert_eq!(told.questions, ["objects 2", "advert", "everything 1"]);
    assert_eq!((told.spurned, told.absent), (set([2, 7]), set([])));
}

#[test]
fn what_was_learnt_serves_the_next_part() {
    let caps = Some(V0Caps::default());
    let tips = vec![branch(1), branch(3)];
    let server = Server { has: set(1..=3), tips, old: caps, only_tips: true, ..Server::default() };
    let mut course = Course::new(false, 0, 10);
    run(&mut course, &server, &set([1, 7]));
    let told = run(&mut course, &server, &set([3, 7]));
    assert_eq!(told.questions, ["objects 1"], "7 is known to be absent, and how to ask too");
    let new = Server { has: set([1]), ..Server::default() };
    let mut course = Course::new(false, 0, 10);
    run(&mut course, &new, &set([1, 7]));
    assert_eq!(run(&mut course, &new, &set([1, 7])).questions, ["objects 1"]);
    assert!(run(&mut course, &new, &set([7])).questions.is_empty());
}

#[test]
fn who_lists_what_it_does_not_have_is_found_out() {
    let tips = (1..=9).map(branch).collect();
    let server = Server { has: set([]), tips, ..Server::default() };
    let told = asked(&server, &set(1..=9));
    assert_eq!(told.questions.len(), 7);
    assert_eq!(told.failed.as_deref(), Some("it lists refs whose objects it does not have"));
}

#[test]
fn whatever_it_hears_it_comes_to_an_end() {
    let advert = Advert::V0 { caps: V0Caps::default(), refs: vec![branch(1)] };
    let any = V0Caps { allow_reachable: true, ..V0Caps::default() };
    let heard = [
        Heard::Pack(set([])),
        Heard::Pack(set([1])),
        Heard::Unfit("too large".into()),
        Heard::Lacks(oid(1)),
        Heard::Lacks(oid(200)),
        Heard::Refuses("no".into()),
        Heard::Unclear("what?".into()),
        Heard::Refs(vec![]),
        Heard::Refs((0..=40).map(branch).collect()),
        Heard::Advert(Advert::V2),
        Heard::Advert(advert),
        Heard::Advert(Advert::V0 { caps: any, refs: vec![branch(1), branch(2)] }),
    ];
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let mut course = Course::new(seed.is_multiple_of(2), seed, 10);
        course.begin(&set(0..=30), seed.is_multiple_of(3));
        let mut questions = 0;
        while course.poll_question().is_some() {
            questions += 1;
            assert!(questions <= 14 + HALVES_MAX, "{course:?}");
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = usize::try_from(seed >> 33).unwrap() % heard.len();
            if course.handle(heard[at].clone()).is_err() {
                break;
            }
        }
    }
}
