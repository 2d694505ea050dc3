//! Roles of announcements that were read before. An announcement never changes, so neither does
//! its entry; judging a large family again costs index lookups, not parsing.

use grasp_core::EventId;
use grasp_core::nip34::Roles;
use grasp_store::{Result, Snapshot, Space};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub struct RoleCache {
    roles: HashMap<EventId, Roles>,
    keys: usize,
}

/// Listed keys kept in all, about 10 MB; beyond that the cache starts afresh.
const KEYS_MAX: usize = 200_000;

impl RoleCache {
    pub(super) fn of(
        &mut self,
        store: &dyn Snapshot,
        space: Space,
        id: &EventId,
    ) -> Result<Option<Roles>> {
        if let Some(roles) = self.roles.get(id) {
            return Ok(Some(roles.clone()));
        }
        let Some(announcement) = store.get(space, id)? else { return Ok(None) };
        let roles = Roles::of(&announcement.event);
        self.keep(*id, roles.clone());
        Ok(Some(roles))
    }

    fn keep(&mut self, id: EventId, roles: Roles) {
        let weight = roles.active.len() + roles.leads.len() + 1;
        if self.keys + weight > KEYS_MAX {
            self.roles.clear();
            self.keys = 0;
        }
        self.keys += weight;
        self.roles.insert(id, roles);
    }
}
