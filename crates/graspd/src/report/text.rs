//! Text from strangers, made fit to be shown: no control characters, nothing that turns the direction
//! of what follows, nothing invisible, and not too long. Escaping for HTML is the page's own matter.

/// Foreign error texts, names and the like.
pub const WORDS_MAX: usize = 200;
pub const DESCRIPTION_MAX: usize = 1_000;

/// At most so many characters; what was cut off leaves a mark.
pub fn shown(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        if is_invisible(c) {
            continue;
        }
        if gap && !out.is_empty() {
            out.push(' ');
            count += 1;
        }
        gap = false;
        if count >= chars_max {
            out.push('…');
            break;
        }
        out.push(c);
        count += 1;
    }
    out
}

/// In the unit people would use.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = count as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{count} {name}") } else { format!("{amount:.1} {name}") }
}

/// Changes how others look without being seen: direction marks, joiners, tags, fillers.
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_in_the_unit_people_would_use() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1_023), "1023 bytes");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn what_strangers_wrote_cannot_steer_a_terminal_or_hide() {
        for (text, expected) in [
            ("plain words", "plain words"),
            ("\u{1b}[2J\u{1b}]0;owned\u{7}red", "[2J ]0;owned red"),
            ("two\r\nlines\tand\u{0}more", "two lines and more"),
            ("  around  ", "around"),
            ("gpj.\u{202e}exe", "gpj.exe"),
            ("a\u{200b}b\u{feff}c\u{e0041}", "abc"),
            ("\u{9b}31m", "31m"),
            ("ünïcödé 漢字", "ünïcödé 漢字"),
        ] {
            assert_eq!(shown(text, 100), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        assert_eq!(shown("abcdef", 6), "abcdef");
        assert_eq!(shown("abcdefg", 6), "abcdef…");
        assert_eq!(shown(&"x".repeat(1_000_000), 3), "xxx…");
    }
}
