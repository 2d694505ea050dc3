//! Is there room for one more event that waits, and where would it be counted?

use super::admit::{Candidate, Clerk};
use super::held_room::{self, HeldPlace};
use grasp_core::held_share::{FullShare, HeldClass, full_share};
use grasp_core::maintainers::Standing;
use grasp_core::policy::{About, Facts, Prefix, Reason, Subject};
use grasp_store::{Result, Space, Transaction};

const HELD_BY_KEY_FULL: Reason = Reason::new(
    Prefix::RateLimited,
    "held-key-full",
    "too many events by this author are waiting for git data; push what they name, or wait",
);

impl Clerk<'_> {
    /// Where an event would be counted while it waits.
    pub(super) fn place(&self, it: &Candidate<'_>, subject: &Subject, facts: &Facts) -> HeldPlace {
        let place = HeldPlace::of(it.event, it.from).brought_by(it.ip);
        let rule = self.rules.maintainer_rule;
        let class = match (subject, &facts.about) {
            (Subject::State(state), About::State(about)) => {
                let grant = about.family.authority(&state.author, rule);
                match grant.is_some_and(|grant| grant.standing == Standing::Served) {
                    true => HeldClass::ServedState,
                    false => HeldClass::Other,
                }
            }
            (Subject::PullRequest(_), About::PullRequest(about))
                if about.anchor == Some(Standing::Served) =>
            {
                HeldClass::Served
            }
            _ => place.class,
        };
        HeldPlace { class, ..place }
    }

    /// Why a newcomer cannot wait here, if it cannot.
    pub(super) fn lacks_room_to_wait(
        &self,
        txn: &dyn Transaction,
        it: &Candidate<'_>,
        place: &HeldPlace,
    ) -> Result<Option<Reason>> {
        let fill = held_room::fill(txn, place)?;
        if let Some(full) = full_share(place.class, &fill, self.bounds.held_table()) {
            return Ok(Some(no_room_to_wait(place, &full)));
        }
        let max = self.bounds.held_per_key_max;
        let by_author = txn.authored(Space::Held, &it.event.pubkey, max)?;
        Ok((by_author >= max).then_some(HELD_BY_KEY_FULL))
    }
}

fn no_room_to_wait(place: &HeldPlace, full: &FullShare) -> Reason {
    let what = place.class.name();
    let text = match full {
        FullShare::Room | FullShare::Class => {
            format!("too many {what} are waiting for git data on this server; try again later")
        }
        FullShare::Source(source) => format!(
            "too many {what} from {source} are waiting for git data on this server; try again later"
        ),
    };
    Reason::saying(Prefix::RateLimited, "held-full", text)
}
