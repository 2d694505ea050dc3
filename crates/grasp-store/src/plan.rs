//! Which index lists to read for a filter: the narrowest that are certain to contain every match.

use grasp_core::Filter;

/// The index lists that together contain every match of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    Nothing,
    Ids,
    Tag(u8),
    AuthorKinds,
    Authors,
    Kinds,
    Time,
}

/// Tags that many unrelated events share; an author is a better way in.
const COMMON_TAGS: &[u8] = b"tkKlL";
/// Index lists read at once by one query; each costs about half a kilobyte and a seek per step. A
/// filter that would need more is answered by a coarser plan and more checking.
pub(crate) const STREAMS_MAX: usize = 20_000;

impl Plan {
    /// The narrowest plan that opens no more than `streams_max` lists.
    pub(crate) fn of(filter: &Filter, streams_max: usize) -> Self {
        if filter.is_void() {
            return Plan::Nothing;
        }
        if filter.ids.is_some() {
            return Plan::Ids;
        }
        let rarest = |common: bool| {
            let of_sort = |letter: &u8| COMMON_TAGS.contains(letter) == common;
            let tags = filter.tags.iter().filter(|(letter, _)| of_sort(letter));
            let rarest = tags.min_by_key(|(_, values)| values.len());
            rarest.map(|(letter, values)| (Plan::Tag(*letter), values.len()))
        };
        let authors = filter.authors.as_ref().map(|list| list.len());
        let kinds = filter.kinds.as_ref().map(|list| list.len());
        let both = authors.zip(kinds).map(|(a, k)| (Plan::AuthorKinds, a.saturating_mul(k)));
        let narrowest_first = [
            rarest(false),
            both,
            authors.map(|count| (Plan::Authors, count)),
            rarest(true),
            kinds.map(|count| (Plan::Kinds, count)),
        ];
        let mut fitting = narrowest_first.into_iter().flatten().filter(|(_, n)| *n <= streams_max);
        fitting.next().map_or(Plan::Time, |(plan, _)| plan)
    }
}
