//! Which repositories move the most bytes, for the operator's page. Approximate by design: when the
//! table is full, the quieter half is forgotten. Nothing here is durable.

use grasp_core::RepoId;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Repositories counted at a time.
const TABLE_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Traffic(Mutex<HashMap<RepoId, u64>>);

impl Traffic {
    pub(super) fn moved(&self, repo: &RepoId, bytes: u64) {
        let mut table = self.0.lock();
        if let Some(count) = table.get_mut(repo) {
            *count = count.saturating_add(bytes);
            return;
        }
        if table.len() >= TABLE_MAX {
            forget_half(&mut table);
        }
        table.insert(repo.clone(), bytes);
    }

    /// The busiest, busiest first.
    pub(super) fn busiest(&self, count_max: usize) -> Vec<(String, u64)> {
        let mut all: Vec<(RepoId, u64)> =
            self.0.lock().iter().map(|(repo, bytes)| (repo.clone(), *bytes)).collect();
        all.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        all.into_iter().take(count_max).map(|(repo, bytes)| (repo.to_string(), bytes)).collect()
    }
}

fn forget_half(table: &mut HashMap<RepoId, u64>) {
    let mut counts: Vec<u64> = table.values().copied().collect();
    let middle = counts.len() / 2;
    let (_, median, _) = counts.select_nth_unstable(middle);
    let median = *median;
    table.retain(|_, count| *count > median);
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::PubKey;

    fn repo(number: usize) -> RepoId {
        let identifier = format!("r{number}").parse().unwrap();
        RepoId { owner: PubKey::from_bytes([7; 32]), identifier }
    }

    #[test]
    fn the_busiest_are_named_first() {
        let traffic = Traffic::default();
        for (number, bytes) in [(1, 10), (2, 30), (3, 20), (1, 15)] {
            traffic.moved(&repo(number), bytes);
        }
        let named: Vec<u64> = traffic.busiest(2).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(named, [30, 25]);
        assert!(traffic.busiest(1)[0].0.ends_with("/r2"));
        assert!(traffic.busiest(0).is_empty());
    }

    #[test]
    fn strangers_cannot_make_the_table_grow_nor_push_out_the_busy() {
        let traffic = Traffic::default();
        traffic.moved(&repo(0), 1 << 30);
        for number in 1..3 * TABLE_MAX {
            traffic.moved(&repo(number), 5);
            assert!(traffic.0.lock().len() <= TABLE_MAX);
        }
        assert_eq!(traffic.busiest(1)[0].1, 1 << 30);
    }
}
