//! Bytes that a thread has asked the allocator for and not given back: what something keeps, without
//! what the allocator keeps for later.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[derive(Debug)]
pub(crate) struct Counted;

thread_local! {
    /// Another thread may give back what this one took, so it can be below nothing.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// In MB, for what one thread both takes and gives back.
pub(crate) fn held_mb() -> f64 {
    let held = HELD.with(Cell::get);
    f64::from(i32::try_from(held >> 10).unwrap_or(i32::MAX)) * 1024.0 / 1e6
}

fn count(change: isize) {
    HELD.with(|held| held.set(held.get().wrapping_add(change)));
}

#[expect(unsafe_code, reason = "the system's allocator, asked for the same and counted beside")]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        unsafe { System.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_and_what_is_given_back_is_not() {
        let before = held_mb();
        let mut kept = vec![1_u8; 10_000_000];
        assert!((held_mb() - before - 10.0).abs() < 0.1);
        kept.reserve_exact(10_000_000);
        assert!((held_mb() - before - 20.0).abs() < 0.1);
        drop(kept);
        assert!((held_mb() - before).abs() < 0.1);
    }
}
