//! What follows from the end of a subscription: each refusal has its own answer (S-23), and none
//! of them touches anybody but the relay that gave it.

use crate::neg_memory::NegDenial;
use crate::question::{Question, Work};
use crate::refusal::Refusal;
use crate::relay::{Around, Relay};
use crate::session::{Auth, Negentropy};
use crate::timers::Concern;
use crate::vocabulary::{Action, Doubt, End, News, Sub};

impl Relay {
    /// A question is over.
    pub(crate) fn question_ended(&mut self, work: Work, end: End, around: &mut Around<'_>) {
        let compares = work.question.compares();
        if let End::Complete(page) | End::Flood(page) = &end {
            self.count_daily(&work, page);
        }
        match end {
            End::Complete(page) => self.handle_page(work, &page, around),
            End::Reconciled(found) => {
                self.comparison_succeeded();
                self.negentropy_answered(around);
                match work.question {
                    Question::Check(check) => self.handle_check(check, found, around),
                    Question::Probe(probe) => self.handle_compared_again(&probe, &found, around),
                    _ => {
                        let differs = found.lacking + found.need.len() > 0;
                        self.compared(&work.question, differs, around.now);
                        self.probe_lacking(&work.question, &found, around);
                        self.handle_difference(&work, found, around);
                    }
                }
            }
            End::TooManyEvents { limit } => {
                self.negentropy_answered(around);
                self.compare_less(work, limit, around);
            }
            End::Flood(_) | End::Silent if work.question.verifies_by_request() => {
                self.handle_unanswered(work.question, Doubt::Keeps, around);
            }
            End::Flood(page) => self.handle_flood(&work, &page, around),
            End::NoNegentropy => {
                self.deny_negentropy(NegDenial::Told, around);
                self.handle_no_comparison(work, around);
            }
            // Silence is how some relays say that they do not know a message.
            End::Silent if compares => {
                self.deny_negentropy(NegDenial::Assumed, around);
                self.handle_no_comparison(work, around);
            }
            End::NegentropyFailed(text) => {
                self.tell_comparison_failed(&text, around);
                self.comparison_refused(work, &text, around);
            }
            End::Silent => {
                self.tell_subscription_failed(work.batch, "no answer in time", around);
                self.handle_failure(&work, around);
            }
            End::Closed(text) => self.question_refused(work, &text, around),
        }
    }

    fn comparison_refused(&mut self, work: Work, text: &str, around: &mut Around<'_>) {
        match Refusal::of(text) {
            Refusal::TooManyAtOnce => self.shrink(work, around),
            Refusal::TooManyEvents => self.compare_less(work, None, around),
            Refusal::RateLimit => {
                self.ask_again(work);
                self.slow_down(around);
            }
            Refusal::AuthRequired => self.authenticate(Some(work), around),
            _ if work.question.check().is_some() => {
                if let Question::Check(check) = work.question {
                    self.handle_failed_check(check, around);
                }
            }
            _ => {
                self.negentropy_failed(around.now);
                self.handle_no_comparison(work, around);
            }
        }
    }

    /// For operators: a subscription ended without EOSE.
    fn tell_subscription_failed(&self, batch: Option<u64>, why: &str, around: &mut Around<'_>) {
        let (relay, why) = (self.url.clone(), why.to_owned());
        around.act(Action::Tell(News::SubscriptionFailed { relay, batch, why }));
    }

    fn question_refused(&mut self, work: Work, text: &str, around: &mut Around<'_>) {
        let compares = work.question.compares();
        // A login is the answer to that, and no failure.
        if Refusal::of(text) != Refusal::AuthRequired {
            self.tell_subscription_failed(work.batch, text, around);
        }
        match Refusal::of(text) {
            // A relay that does not know the message may well say so in these words.
            Refusal::FilterCount | Refusal::InvalidFilter | Refusal::Unknown if compares => {
                self.deny_negentropy(NegDenial::Assumed, around);
                self.handle_no_comparison(work, around);
            }
            Refusal::TooManyEvents if compares => self.compare_less(work, None, around),
            Refusal::AuthRequired => self.authenticate(Some(work), around),
            Refusal::FilterCount
            | Refusal::Policy
            | Refusal::InvalidFilter
            | Refusal::RetainedBytes
            | Refusal::Unknown
                if work.question.verifies_by_request() =>
            {
                self.handle_unanswered(work.question, Doubt::Refused, around);
            }
            Refusal::FilterCount if self.takes_fewer_filters(&work, around) => {
                self.ask_in_smaller_parts(work, around);
            }
            Refusal::InvalidFilter if self.shelve_long(&work) => self.give_up(&work, around),
            Refusal::FilterCount | Refusal::Policy | Refusal::InvalidFilter => {
                self.handle_failure(&work, around);
                self.pause(text, around);
            }
            Refusal::TooManyAtOnce => self.shrink(work, around),
            Refusal::RateLimit | Refusal::TooManyEvents => {
                self.ask_again(work);
                self.slow_down(around);
            }
            Refusal::RetainedBytes if self.session().is_some_and(|it| it.live.len() > 1) => {
                self.learn_live_bytes();
                self.trim_live(around);
                self.ask_again(work);
            }
            Refusal::RetainedBytes | Refusal::Unknown => self.handle_failure(&work, around),
        }
    }

    /// A live subscription is over.
    pub(crate) fn live_ended(&mut self, sub: Sub, end: &End, around: &mut Around<'_>) {
        let Some(live) = self.lose_live(sub, around.now) else { return };
        let text = match end {
            End::Closed(text) => text.as_str(),
            _ => "",
        };
        if Refusal::of(text) != Refusal::AuthRequired {
            self.tell_subscription_failed(None, text, around);
        }
        match Refusal::of(text) {
            Refusal::AuthRequired => self.authenticate(None, around),
            Refusal::FilterCount if self.fewer_filters(live.parts.len(), around) => {
                self.hear_all(around);
            }
            Refusal::InvalidFilter if live.parts.iter().any(|it| self.is_long(it.part.group)) => {
                for heard in &live.parts {
                    if let Some(group) = self.group_mut(heard.part.group) {
                        group.given_up |= group.long;
                    }
                }
            }
            Refusal::FilterCount | Refusal::Policy | Refusal::InvalidFilter => {
                self.pause(text, around);
            }
            Refusal::TooManyAtOnce => {
                self.learn_subscriptions();
                self.trim_live(around);
            }
            Refusal::RetainedBytes => {
                self.learn_live_bytes();
                self.trim_live(around);
            }
            Refusal::RateLimit | Refusal::TooManyEvents => self.slow_down(around),
            // Once it is repaired, after a while; then it is asked for in turn.
            Refusal::Unknown => {
                let mut groups: Vec<u32> = live.parts.iter().map(|it| it.part.group).collect();
                groups.dedup();
                for number in groups {
                    if let Some(group) = self.group_mut(number) {
                        group.given_up |= group.repaired;
                        group.repaired = true;
                    }
                }
                let later = around.now.plus(around.settings.cooldown);
                around.timers.at_latest(self.alarm(Concern::Ask), later);
            }
        }
        self.schedule_rotation(around);
    }

    /// The relay takes fewer filters than we sent; true if that can be mended.
    fn takes_fewer_filters(&mut self, work: &Work, around: &Around<'_>) -> bool {
        let sent = match &work.question {
            Question::Pages(asks) => asks.len(),
            Question::Compare(..) | Question::Ids(..) | Question::Owed(_) => 1,
            Question::Check(_) | Question::CheckIds(..) | Question::CheckSample(..) => 1,
            Question::Probe(_) => 1,
        };
        self.fewer_filters(sent, around)
    }

    fn fewer_filters(&mut self, sent: usize, around: &Around<'_>) -> bool {
        let now = self.filters_max(around.settings);
        // Refused in the old size, while smaller ones are already on their way.
        if sent > now {
            return true;
        }
        if sent <= 1 {
            return false;
        }
        self.learned.filters_per_request_max = Some(match now {
            6.. => 5,
            3..=5 => 2,
            _ => 1,
        });
        true
    }

    fn is_long(&self, group: u32) -> bool {
        self.group(group).is_some_and(|group| group.long)
    }

    /// A value that this relay finds too long concerns one group, and nobody else.
    fn shelve_long(&mut self, work: &Work) -> bool {
        let groups: Vec<u32> = match &work.question {
            Question::Pages(asks) => asks.iter().map(|ask| ask.part.group).collect(),
            Question::Compare(part, _) => vec![part.group],
            Question::Check(check) => vec![check.group],
            Question::Ids(..)
            | Question::Owed(_)
            | Question::CheckIds(..)
            | Question::CheckSample(..)
            | Question::Probe(_) => Vec::new(),
        };
        let long: Vec<u32> = groups.into_iter().filter(|group| self.is_long(*group)).collect();
        for number in &long {
            if let Some(group) = self.group_mut(*number) {
                group.shelved = true;
            }
        }
        !long.is_empty()
    }

    /// It allows fewer subscriptions than it said, or than we assumed.
    fn shrink(&mut self, work: Work, around: &mut Around<'_>) {
        // How many comparisons it makes at once says nothing about subscriptions.
        if work.question.compares()
            && let Some(session) = self.session_mut()
            && session.comparing() > 0
        {
            session.compare_max = u32::try_from(session.comparing()).unwrap_or(u32::MAX);
            return self.ask_again(work);
        }
        self.learn_subscriptions();
        self.trim_live(around);
        self.ask_again(work);
        let nothing_open =
            self.session().is_none_or(|it| it.live.is_empty() && it.asked.is_empty());
        if nothing_open {
            self.slow_down(around);
        }
    }

    fn learn_subscriptions(&mut self) {
        let Some(session) = self.session() else { return };
        let open = session.live.len() + session.asked.len();
        let open = u32::try_from(open).unwrap_or(u32::MAX).max(2);
        let known = self.learned.subscriptions_max.unwrap_or(u32::MAX);
        self.learned.subscriptions_max = Some(open.min(known));
    }

    fn learn_live_bytes(&mut self) {
        let Some(session) = self.session() else { return };
        let open: usize = session.live.values().map(|live| live.bytes).sum();
        // A question needs some room beside what stays.
        self.learned.live_bytes_max = Some(u64::try_from(open / 4 * 3).unwrap_or(u64::MAX));
    }

    /// Answered once with who we are; a second time we are not wanted.
    fn authenticate(&mut self, work: Option<Work>, around: &mut Around<'_>) {
        let relay = self.url.clone();
        let allowed = around.settings.authenticate;
        let Some(session) = self.session_mut() else { return };
        match session.auth {
            Auth::Untried if allowed => {
                session.auth = Auth::Asked;
                session.after_auth.extend(work);
                around.act(Action::Authenticate(relay));
            }
            Auth::Asked => session.after_auth.extend(work),
            Auth::Untried | Auth::Done => {
                if let Some(work) = work {
                    self.handle_failure(&work, around);
                }
                self.pause("it wants us to log in", around);
            }
        }
    }

    /// This relay, and nobody else, is left alone for a while, and asked more gently afterwards.
    pub(crate) fn slow_down(&mut self, around: &mut Around<'_>) {
        let cools = self.brake.cool(around.now, around.settings);
        let until = self.brake.cooling_until;
        self.no_negentropy_for_now(around);
        // A pause may be older than this process, which has yet to hear an objection itself.
        if let Some(pace) = &mut self.pace
            && (cools || !pace.has_objected())
        {
            pace.slow_down(until);
        }
        if !cools {
            return;
        }
        around.timers.at_latest(self.alarm(Concern::Ask), until);
        around.act(Action::Tell(News::Cooling { relay: self.url.clone(), until }));
        around.act(Action::Remember(self.url.clone()));
    }

    fn no_negentropy_for_now(&mut self, around: &mut Around<'_>) {
        let until = self.brake.cooling_until;
        let Some(session) = self.session_mut() else { return };
        session.negentropy = Negentropy::No;
        session.doubt = Some(Doubt::RateLimited { until });
        self.comparisons_become_pages(around);
    }

    /// It does not want what we ask for: nothing is asked for a day; the link stays.
    pub(crate) fn pause(&mut self, why: &str, around: &mut Around<'_>) {
        if self.brake.paused_until > around.now {
            return;
        }
        let until = around.now.plus(around.settings.pause);
        self.brake.paused_until = until;
        around.timers.set(self.alarm(Concern::Ask), until);
        let (relay, why) = (self.url.clone(), why.to_owned());
        around.act(Action::Tell(News::Paused { relay: relay.clone(), why, until }));
        around.act(Action::Remember(relay));
    }

    /// A NOTICE said that NIP-77 is not spoken: the open comparisons are read page by page. Nothing is
    /// sent about these comparisons any more: a relay that does not know NEG-OPEN does not know
    /// NEG-CLOSE either (S-61).
    pub(crate) fn comparisons_denied(&mut self, denial: NegDenial, around: &mut Around<'_>) {
        let Some(session) = self.session() else { return };
        let compares = |work: &Work| work.question.compares();
        let open: Vec<Sub> = session
            .asked
            .iter()
            .filter(|(_, asked)| compares(&asked.work))
            .map(|(sub, _)| *sub)
            .collect();
        if open.is_empty() {
            return;
        }
        self.deny_negentropy(denial, around);
        let relay = self.url.clone();
        for sub in open {
            around.act(Action::Abandon { relay: relay.clone(), sub });
            if let Some(work) = self.end_asked(sub) {
                self.handle_no_comparison(work, around);
            }
        }
    }
}
