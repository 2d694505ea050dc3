//! What an operator can do about each kind of problem.

use super::problems::ProblemKind;
use crate::metrics::FullTable;

impl ProblemKind {
    pub(super) const fn fix(self) -> &'static str {
        match self {
            Self::NotReady => "see the log of the server",
            Self::DiskLow => "free some space, or set NGIT_GIT_MIN_FREE_BYTES to less",
            Self::ClockStep => {
                "check that it is right now and that a time service (NTP) keeps it so; this goes away \
                 an hour after the step"
            }
            Self::StoreNearlyFull => {
                "raise NGIT_RELAY_DISK_BUDGET_BYTES before it refuses events, or delete events"
            }
            Self::TableFull(FullTable::Held) => {
                "see `graspd purgatory` for what waits; raise NGIT_RELAY_MAX_HELD_EVENTS and \
                 NGIT_RELAY_MAX_HELD_BYTES if it is wanted"
            }
            Self::TableFull(FullTable::Aside) => {
                "raise NGIT_RELAY_MAX_ASIDE_EVENTS and NGIT_RELAY_MAX_ASIDE_BYTES if it stays full"
            }
            Self::TableFull(FullTable::FetchQueue) => {
                "see `graspd purgatory` for what waits; raise NGIT_SYNC_HUNTS_MAX if it is wanted"
            }
            Self::TableFull(FullTable::Ledger) => {
                "blacklist owners whose repositories name many invented mirrors"
            }
            Self::TableFull(FullTable::Proposals) => {
                "ask the owners to close pull requests; the refusal told its sender which limit it met"
            }
            Self::TableFull(FullTable::GraspLists | FullTable::Deletions) => {
                "look in the log for addresses that send many of them"
            }
            Self::TableFull(FullTable::GitSlots) => {
                "raise NGIT_GIT_MAX_UPLOADS and NGIT_GIT_MAX_PUSHES if this machine has cores to spare"
            }
            Self::TableFull(FullTable::Connections) => {
                "raise NGIT_MAX_CONNECTIONS and the limit of file descriptors; lower \
                 NGIT_MAX_CONNECTIONS_PER_IP if few addresses hold most of them"
            }
            Self::NoRelayConnected => {
                "see `graspd relays` for the reason of each, and run `graspd doctor` for this machine"
            }
            Self::RelayDead | Self::RelayUnreachable => {
                "ask its operator, or ask the owners to drop it from their announcements; \
                 `graspd sync now <its URL>` tries it at once"
            }
            Self::RelayBanned => {
                "ask the owners to drop it from their announcements; the log of the server says why"
            }
            Self::RelayRefused => {
                "ask its operator to remove the spam, or the owners to drop it from their announcements"
            }
            Self::RelayPaused => "ask its operator to allow this server; `graspd relays` says more",
            Self::MirrorLacks => {
                "check that this server is reachable from there and that the mirror syncs; \
                 `graspd explain` names every repository"
            }
            Self::WeLack => {
                "it is fetched again by itself; if it stays, `graspd explain` says what is in the way"
            }
            Self::FetchStuck => "`graspd explain` names every repository",
            Self::SlotsFull => {
                "slow fetches end by themselves; if it stays, raise NGIT_SYNC_FETCHES_MAX or \
                 blacklist those who name many slow hosts"
            }
        }
    }
}
