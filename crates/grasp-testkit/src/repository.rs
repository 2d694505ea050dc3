//! A repository, as its owner and its visitors speak of it.

use crate::{Author, Draft};
use grasp_core::{Kind, VerifiedEvent};

#[derive(Debug, Clone)]
pub struct Repository {
    pub owner: Author,
    pub identifier: String,
}

impl Repository {
    pub fn new(owner: Author, identifier: &str) -> Self {
        Self { owner, identifier: identifier.to_owned() }
    }

    pub fn coordinate(&self) -> String {
        format!("30617:{}:{}", self.owner.key.to_hex(), self.identifier)
    }

    /// Names no server at all: served only where an operator imported it.
    pub fn announcement(&self, at: u64) -> VerifiedEvent {
        self.owner.signs(self.draft(at))
    }

    /// Asks the server at `address` to host the repository.
    pub fn announcement_listing(&self, address: &str, at: u64) -> VerifiedEvent {
        let (npub, identifier) = (self.owner.key.to_npub(), &self.identifier);
        let clone = format!("http://{address}/{npub}/{identifier}.git");
        let draft = self.draft(at).tag(&["clone", &clone]);
        self.owner.signs(draft.tag(&["relays", &format!("ws://{address}")]))
    }

    fn draft(&self, at: u64) -> Draft {
        Draft::new(Kind::ANNOUNCEMENT, at).tag(&["d", &self.identifier])
    }

    pub fn issue(&self, by: &Author, at: u64, text: &str) -> VerifiedEvent {
        by.signs(self.issue_draft(at, text))
    }

    /// For issues with more to them.
    pub fn issue_draft(&self, at: u64, text: &str) -> Draft {
        Draft::new(Kind::ISSUE, at).tag(&["a", &self.coordinate()]).content(text)
    }
}
