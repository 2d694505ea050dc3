//! How long something waits, by steady time. Every start gives the full time again: the clock may have
//! been set meanwhile. An announcement sleeps for a day before it is given up.

use crate::kind::Kind;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub since: Time,
    pub deadline: Time,
    pub phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Waiting, and able to let a push in.
    Awake,
    /// An announcement without data for half an hour: no git service, but a state wakes it.
    Asleep,
}

/// How long each phase lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub awake: Duration,
    pub asleep: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { awake: Duration::from_secs(30 * 60), asleep: Duration::from_secs(24 * 60 * 60) }
    }
}

/// What a deadline that has come means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    NotYet,
    Sleep(Hold),
    Expire,
}

impl Hold {
    pub fn begin(now: Time, patience: Patience) -> Self {
        Self { since: now, deadline: now.plus(patience.awake), phase: Phase::Awake }
    }

    /// Something happened for it: it is awake again, for the full time.
    pub fn extended(self, now: Time, patience: Patience) -> Self {
        Self { since: self.since, ..Self::begin(now, patience) }
    }

    pub fn due(self, kind: Kind, now: Time, patience: Patience) -> Due {
        if now < self.deadline {
            Due::NotYet
        } else if kind == Kind::ANNOUNCEMENT && self.phase == Phase::Awake {
            let deadline = now.plus(patience.asleep);
            Due::Sleep(Self { deadline, phase: Phase::Asleep, ..self })
        } else {
            Due::Expire
        }
    }

    /// After a start the clock may say anything, so it waits for the full time of its phase.
    pub fn restarted(self, now: Time, patience: Patience) -> Self {
        let length = match self.phase {
            Phase::Awake => patience.awake,
            Phase::Asleep => patience.asleep,
        };
        Self { since: self.since.min(now), deadline: now.plus(length), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Patience =
        Patience { awake: Duration::from_millis(100), asleep: Duration::from_secs(1) };

    #[test]
    fn an_announcement_sleeps_before_it_goes_and_everything_else_just_goes() {
        let hold = Hold::begin(Time(5), P);
        assert_eq!(hold.due(Kind::STATE, Time(104), P), Due::NotYet);
        assert_eq!(hold.due(Kind::STATE, Time(105), P), Due::Expire);
        let Due::Sleep(asleep) = hold.due(Kind::ANNOUNCEMENT, Time(105), P) else { panic!() };
        assert_eq!(asleep.due(Kind::ANNOUNCEMENT, Time(1_104), P), Due::NotYet);
        assert_eq!(asleep.due(Kind::ANNOUNCEMENT, Time(1_105), P), Due::Expire);
    }

    #[test]
    fn a_sleeper_wakes_for_the_full_time() {
        let hold = Hold { phase: Phase::Asleep, ..Hold::begin(Time(0), P) };
        let awake = hold.extended(Time(500), P);
        assert_eq!((awake.phase, awake.deadline, awake.since), (Phase::Awake, Time(600), Time(0)));
    }

    #[test]
    fn after_a_start_a_hold_has_its_full_time_whatever_the_clock_says() {
        let hold = Hold::begin(Time(1_000_000), P);
        for now in [Time(0), Time(1_000_050), Time(9_000_000)] {
            assert_eq!(hold.restarted(now, P).deadline, now.plus(P.awake));
            let asleep = Hold { phase: Phase::Asleep, ..hold };
            assert_eq!(asleep.restarted(now, P).deadline, now.plus(P.asleep));
        }
        assert_eq!(hold.restarted(Time(7), P).since, Time(7), "nothing began in the future");
    }
}
