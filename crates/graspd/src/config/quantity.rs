//! Sizes and times as operators write them: `10GB`, `512MiB`, `30m`. A number without a unit counts in
//! the unit that the setting is named after. Pure.

use super::setting::Unit;

/// A unit's spelling and how many of the smallest unit it is.
type Scale = (&'static str, u64);

/// Any case is understood.
const SIZES: [Scale; 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// In milliseconds. Small letters alone: `M` could mean months.
const TIMES: [Scale; 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// In the setting's own unit. The error is the middle of a sentence.
pub(super) fn parse_quantity(unit: Unit, text: &str) -> Result<u64, String> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(digits_end);
    let not_a_number = || format!("`{text}` is not a whole number");
    if digits.is_empty() || suffix.starts_with(['.', ',']) {
        return Err(not_a_number());
    }
    let number = digits.parse::<u64>().map_err(|_| too_large(text))?;
    let suffix = suffix.trim_start();
    if suffix.is_empty() {
        return Ok(number);
    }
    match unit {
        Unit::Count | Unit::Percent => Err(not_a_number()),
        Unit::Bytes => {
            let scale = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix));
            let (_, scale) = scale.ok_or_else(|| unknown_unit(suffix, &SIZES))?;
            number.checked_mul(*scale).ok_or_else(|| too_large(text))
        }
        Unit::Millis => milliseconds(number, suffix, text),
        Unit::Secs => whole(milliseconds(number, suffix, text)?, 1_000, text, "seconds"),
        Unit::Hours => whole(milliseconds(number, suffix, text)?, 3_600_000, text, "hours"),
    }
}

fn milliseconds(number: u64, suffix: &str, text: &str) -> Result<u64, String> {
    let scale = TIMES.iter().find(|(name, _)| *name == suffix);
    let (_, scale) = scale.ok_or_else(|| unknown_unit(suffix, &TIMES))?;
    number.checked_mul(*scale).ok_or_else(|| too_large(text))
}

fn whole(millis: u64, unit_millis: u64, text: &str, name: &str) -> Result<u64, String> {
    match millis.is_multiple_of(unit_millis) {
        true => Ok(millis / unit_millis),
        false => Err(format!("`{text}` is not a whole number of {name}")),
    }
}

fn too_large(text: &str) -> String {
    format!("`{text}` is too large")
}

fn unknown_unit(suffix: &str, known: &[Scale]) -> String {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    format!("`{suffix}` is not a unit it knows ({})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units_and_a_bare_number_is_bytes() {
        for (text, bytes) in [
            ("10", 10),
            ("10B", 10),
            ("10KB", 10_000),
            ("10GB", 10_000_000_000),
            ("2tb", 2_000_000_000_000),
            ("64 MiB", 64 << 20),
            ("1GiB", 1 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(parse_quantity(Unit::Bytes, text), Ok(bytes), "{text}");
        }
        for bad in ["", "GB", "1.5GB", "-1GB", "10G", "10 m", "99999999999TB"] {
            assert!(parse_quantity(Unit::Bytes, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units_and_a_bare_number_keeps_the_unit_of_its_setting() {
        for (unit, text, amount) in [
            (Unit::Millis, "30", 30),
            (Unit::Millis, "30s", 30_000),
            (Unit::Millis, "2m", 120_000),
            (Unit::Secs, "30", 30),
            (Unit::Secs, "30m", 1_800),
            (Unit::Secs, "2h", 7_200),
            (Unit::Secs, "90d", 7_776_000),
            (Unit::Secs, "2000ms", 2),
            (Unit::Hours, "24", 24),
            (Unit::Hours, "1d", 24),
            (Unit::Hours, "120m", 2),
        ] {
            assert_eq!(parse_quantity(unit, text), Ok(amount), "{text}");
        }
        for (unit, bad) in [
            (Unit::Secs, "1500ms"),
            (Unit::Hours, "90m"),
            (Unit::Secs, "30M"),
            (Unit::Secs, "30 weeks"),
            (Unit::Secs, "99999999999999999d"),
        ] {
            assert!(parse_quantity(unit, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_and_percentages_have_no_unit() {
        for unit in [Unit::Count, Unit::Percent] {
            assert_eq!(parse_quantity(unit, "9"), Ok(9));
            for bad in ["9k", "9s", "9%", "9 B"] {
                assert!(parse_quantity(unit, bad).is_err(), "{bad}");
            }
        }
    }
}
