//! Reads `.env` text: `NAME=value` lines, `export` in front allowed, comments, single and double
//! quotes. It sets nothing and expands nothing: `$X` stays `$X`. Values are never repeated in an
//! error, because this is where people keep secrets.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Counted from one.
    pub number: usize,
    /// As far as it could be read.
    pub name: String,
    pub value: Result<String, &'static str>,
}

pub(super) fn parse(text: &str) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let numbered = text.lines().enumerate();
    numbered.filter_map(|(index, line)| parse_line(index + 1, line.trim())).collect()
}

fn parse_line(number: usize, line: &str) -> Option<Line> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let exported = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t']));
    let line = exported.unwrap_or(line).trim_start();
    // Only what can be a name is kept of a broken line: the rest may be the secret.
    let name: String =
        line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let rest = line.get(name.len()..).unwrap_or_default().trim_start();
    let value = rest.strip_prefix('=').ok_or("has no `=` after its name");
    Some(Line { number, name, value: value.and_then(|value| parse_value(value.trim())) })
}

fn parse_value(text: &str) -> Result<String, &'static str> {
    let mut chars = text.chars();
    match chars.next() {
        Some('\'') => {
            let (value, rest) = chars.as_str().split_once('\'').ok_or(UNCLOSED)?;
            only_comment(rest)?;
            Ok(value.to_owned())
        }
        Some('"') => double_quoted(chars.as_str()),
        _ => Ok(without_comment(text).to_owned()),
    }
}

const UNCLOSED: &str = "has a quote that is not closed on the same line";

fn double_quoted(text: &str) -> Result<String, &'static str> {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return only_comment(chars.as_str()).map(|()| value),
            '\\' => match chars.next().ok_or(UNCLOSED)? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                literal @ ('"' | '\\' | '$' | '\'') => value.push(literal),
                _ => return Err("has an unknown escape after a backslash"),
            },
            c => value.push(c),
        }
    }
    Err(UNCLOSED)
}

fn only_comment(rest: &str) -> Result<(), &'static str> {
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(())
    } else {
        Err("has text after the closing quote")
    }
}

/// A `#` begins a comment only after a space: `wss://x/#a` is a value.
fn without_comment(text: &str) -> &str {
    if text.starts_with('#') {
        return "";
    }
    let comment = text.find(" #").or_else(|| text.find("\t#"));
    comment.and_then(|at| text.get(..at)).unwrap_or(text).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, Result<String, &'static str>)> {
        parse(text).into_iter().map(|line| (line.name, line.value)).collect()
    }

    #[test]
    fn the_usual_spellings_are_understood() {
        for (line, value) in [
            ("A=b", "b"),
            ("  A = b c  ", "b c"),
            ("export A=b", "b"),
            ("export\tA=b", "b"),
            ("A=", ""),
            ("A=b # why", "b"),
            ("A=b\t# why", "b"),
            ("A= # why", ""),
            ("A=wss://x/#y", "wss://x/#y"),
            ("A=b=c", "b=c"),
            ("A='b # c' # why", "b # c"),
            (r"A='b\n$C'", r"b\n$C"),
            (r#"A="b # c""#, "b # c"),
            (r#"A="b\n\"c\" \$D \\""#, "b\n\"c\" $D \\"),
            ("A=$HOME", "$HOME"),
            ("A=it's", "it's"),
        ] {
            assert_eq!(values(line), [("A".to_owned(), Ok(value.to_owned()))], "{line}");
        }
    }

    #[test]
    fn comments_and_blank_lines_count_but_say_nothing() {
        let lines = parse("\u{feff}# head\r\n\r\nA=1\r\n  # more\nexportB=2\n");
        let found: Vec<_> = lines.iter().map(|l| (l.number, l.name.as_str())).collect();
        assert_eq!(found, [(3, "A"), (5, "exportB")]);
    }

    #[test]
    fn a_broken_line_is_an_error_that_keeps_the_value_to_itself() {
        for broken in [
            r#"A="sesame"#,
            "A='sesame",
            r#"A="sesame" x"#,
            r#"A="sesame\q""#,
            "A sesame",
            "A:sesame",
            "A sesame=",
        ] {
            let [(name, Err(error))] = &values(broken)[..] else { panic!("{broken}") };
            assert_eq!(name, "A");
            assert!(!error.contains("sesame"));
        }
    }
}
