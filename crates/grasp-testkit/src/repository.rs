//! A repository, as its owner and its visitors speak of it.

use crate::{Author, Draft};
use grasp_core::{Identifier, Kind, Oid, VerifiedEvent};

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
        self.announcement_naming(address, at, &[])
    }

    /// The same, and names others who may sign.
    pub fn announcement_naming(&self, address: &str, at: u64, others: &[&Author]) -> VerifiedEvent {
        let draft = self.draft(at).tag(&["clone", &self.clone_url(address)]);
        let mut draft = draft.tag(&["relays", &format!("ws://{address}")]);
        let others: Vec<String> = others.iter().map(|other| other.key.to_hex()).collect();
        if !others.is_empty() {
            let values = others.iter().map(String::as_str);
            draft = draft.tag(&std::iter::once("maintainers").chain(values).collect::<Vec<_>>());
        }
        self.owner.signs(draft)
    }

    /// Where git finds it on the server at `address`.
    pub fn clone_url(&self, address: &str) -> String {
        let name = self.identifier.parse::<Identifier>().map(|it| it.percent_encoded());
        let name = name.unwrap_or_else(|_| self.identifier.clone());
        format!("http://{address}/{}/{name}.git", self.owner.key.to_npub())
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

    /// What `by` says the branches and tags are; names as in `refs/heads/main`.
    pub fn state(
        &self,
        by: &Author,
        at: u64,
        refs: &[(&str, &str)],
        head: Option<&str>,
    ) -> VerifiedEvent {
        let draft = Draft::new(Kind::STATE, at).tag(&["d", &self.identifier]);
        let draft = refs.iter().fold(draft, |draft, (name, oid)| draft.tag(&[name, oid]));
        by.signs(match head {
            Some(branch) => draft.tag(&["HEAD", &format!("ref: refs/heads/{branch}")]),
            None => draft,
        })
    }

    pub fn pull_request(&self, by: &Author, at: u64, tip: &Oid) -> VerifiedEvent {
        let draft = Draft::new(Kind::PULL_REQUEST, at).tag(&["a", &self.coordinate()]);
        by.signs(draft.tag(&["c", &tip.to_hex()]))
    }
}
