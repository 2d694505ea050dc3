//! A list that is sorted and free of duplicates by construction, so that a binary search in it is
//! always right.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;

/// Read it as a slice; make it from any list, in any order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SortedList<T>(Vec<T>);

impl<T: Ord> SortedList<T> {
    pub fn has(&self, value: &T) -> bool {
        self.0.binary_search(value).is_ok()
    }
}

impl<T> Default for SortedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for SortedList<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Ord> From<Vec<T>> for SortedList<T> {
    fn from(mut list: Vec<T>) -> Self {
        list.sort_unstable();
        list.dedup();
        list.shrink_to_fit();
        Self(list)
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for SortedList<T> {
    fn from(list: [T; N]) -> Self {
        Vec::from(list).into()
    }
}

impl<T: Ord> FromIterator<T> for SortedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        values.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> From<SortedList<T>> for Vec<T> {
    fn from(list: SortedList<T>) -> Self {
        list.0
    }
}

impl<'a, T> IntoIterator for &'a SortedList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Serialize> Serialize for SortedList<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: Ord + Deserialize<'de>> Deserialize<'de> for SortedList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_and_without_duplicates_however_it_is_made() {
        let made = [
            SortedList::from([3, 1, 2, 3]),
            SortedList::from(vec![2, 3, 1, 1]),
            [3, 2, 1].into_iter().collect(),
            serde_json::from_str("[2,1,3,2]").unwrap(),
        ];
        for list in made {
            assert_eq!(*list, [1, 2, 3]);
            assert!(list.has(&1) && list.has(&3) && !list.has(&4));
        }
    }
}
