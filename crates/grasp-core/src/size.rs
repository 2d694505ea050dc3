//! Sizes in the unit people would use.

/// `512 bytes`, `1.5 MiB`, `105 GiB`; rounded down.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "bytes";
    for next in UNITS {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1_024;
        unit = next;
    }
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, _) if whole >= 100 => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_536, "1.5 KiB"),
            (105 << 20, "105 MiB"),
            ((1 << 30) - 1, "1023 MiB"),
            (1 << 30, "1 GiB"),
            (u64::MAX, "16383 PiB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
