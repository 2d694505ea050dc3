//! Which events belong to a repository, as questions: those every server that hosts it should answer
//! alike. Pure.

use grasp_core::nip34::Announcement;
use grasp_core::{EventId, Filter, Kind, PubKey, RepoId};

/// Values in one filter.
const VALUES_MAX: usize = 100;

/// Its announcement, its states, and what names it.
pub(super) fn around(repo: &RepoId, it: &Announcement) -> Vec<Filter> {
    let identifier = repo.identifier.as_str();
    let mut authors: Vec<PubKey> = it.roles.leads.iter().chain(&it.roles.active).copied().collect();
    authors.push(repo.owner);
    let by = |kind: Kind, authors: Vec<PubKey>| Filter {
        kinds: Some([kind].into()),
        authors: Some(authors.into()),
        ..tagged(b'd', vec![identifier.to_owned()])
    };
    let coordinate = repo.coordinate().to_string();
    let naming = [b'a', b'A', b'q'].map(|letter| tagged(letter, vec![coordinate.clone()]));
    let own = [by(Kind::ANNOUNCEMENT, vec![repo.owner]), by(Kind::STATE, authors)];
    own.into_iter().chain(naming).collect()
}

/// What answers its threads.
pub(super) fn replies(roots: &[EventId]) -> Vec<Filter> {
    let few = roots.chunks(VALUES_MAX).flat_map(|roots| {
        let ids: Vec<String> = roots.iter().map(|id| id.to_hex()).collect();
        [b'e', b'E', b'q'].map(|letter| tagged(letter, ids.clone()))
    });
    few.collect()
}

pub(super) fn is_root(kind: Kind) -> bool {
    matches!(kind, Kind::PATCH | Kind::PULL_REQUEST | Kind::ISSUE)
}

fn tagged(letter: u8, values: Vec<String>) -> Filter {
    Filter { tags: [(letter, values.into())].into(), ..Filter::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_asked_for_by_all_its_names() {
        let repo =
            RepoId { owner: PubKey::from_bytes([7; 32]), identifier: "acme".parse().unwrap() };
        let it = Announcement {
            repo: repo.clone(),
            name: None,
            description: None,
            clone: vec![],
            relays: vec![],
            roles: grasp_core::nip34::Roles {
                leads: vec![],
                active: vec![PubKey::from_bytes([8; 32])],
                author_active: true,
            },
            private: false,
        };
        let filters = around(&repo, &it);
        assert_eq!(filters.len(), 5);
        assert_eq!(filters[0].authors.as_ref().map(|list| list.len()), Some(1));
        assert_eq!(
            filters[1].authors.as_ref().map(|list| list.len()),
            Some(2),
            "states of maintainers"
        );
        assert_eq!(*filters[2].tags[&b'a'], [repo.coordinate().to_string()]);
        let roots: Vec<EventId> = (0..150).map(|n| EventId::from_bytes([n; 32])).collect();
        assert_eq!(replies(&roots).len(), 6);
        assert_eq!(replies(&[]), []);
    }
}
