//! As much of the query language as it takes to say which figures and labels an expression speaks of.
//! A word it does not know makes it fail: that is how misspelt functions are found.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) mentions: Vec<Mention>,
    /// Named by `by`, `on` and the like.
    pub(crate) grouped: Option<BTreeSet<String>>,
}

/// A figure and what is asked of its labels.
#[derive(Debug)]
pub(crate) struct Mention {
    pub(crate) metric: String,
    /// Label, operator, value.
    pub(crate) matchers: Vec<(String, String, String)>,
}

const FUNCTIONS: [&str; 9] =
    ["histogram_quantile", "increase", "max", "min", "rate", "resets", "sum", "topk", "absent"];
const GROUPING: [&str; 4] = ["by", "on", "group_left", "without"];
const OPERATORS: [&str; 3] = ["and", "or", "unless"];

pub(crate) fn read(expression: &str) -> Reading {
    let mut reading = Reading::default();
    let tokens = tokens(expression);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if !token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            || OPERATORS.contains(&token.as_str())
        {
            continue;
        }
        let follows = tokens.get(at).map(String::as_str);
        if GROUPING.contains(&token.as_str()) {
            let names = tokens[at + 1..].iter().take_while(|it| *it != ")");
            let names: Vec<String> = names.filter(|it| *it != ",").cloned().collect();
            at += 2 + names.len() + names.len().saturating_sub(1);
            // `without` keeps the others; what `on` and `by` name is what remains.
            reading.grouped.get_or_insert_default().extend(names);
        } else if FUNCTIONS.contains(&token.as_str()) {
            let called = follows.is_some_and(|it| it == "(" || GROUPING.contains(&it));
            assert!(called, "{token} is not called in {expression}");
        } else {
            assert_ne!(follows, Some("("), "unknown function {token} in {expression}");
            let (matchers, used) = matchers(&tokens[at..]);
            at += used;
            reading.mentions.push(Mention { metric: token.clone(), matchers });
        }
    }
    assert!(!reading.mentions.is_empty(), "{expression} is about nothing");
    reading
}

/// What stands in braces, and how many tokens that were.
fn matchers(tokens: &[String]) -> (Vec<(String, String, String)>, usize) {
    if tokens.first().map(String::as_str) != Some("{") {
        return (Vec::new(), 0);
    }
    let end = tokens.iter().position(|it| it == "}").expect("braces are closed");
    let each = tokens[1..end].split(|it| it == ",").filter(|part| !part.is_empty());
    let matchers = each.map(|part| match part {
        [label, operator, value] => {
            (label.clone(), operator.clone(), value.trim_matches('"').to_owned())
        }
        _ => panic!("not a matcher: {part:?}"),
    });
    (matchers.collect(), end + 1)
}

/// Words, numbers, strings, operators. Ranges in brackets are left out.
fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '.';
        let len = match first {
            '[' => rest.find(']').expect("brackets are closed") + 1,
            '"' => rest[1..].find('"').expect("quotes are closed") + 2,
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ if ["=~", "!~", "!=", "==", ">=", "<="].iter().any(|it| rest.starts_with(it)) => 2,
            '(' | ')' | '{' | '}' | ',' | '=' | '>' | '<' | '+' | '-' | '*' | '/' => 1,
            other => panic!("{other:?} in {expression}"),
        };
        let (token, after) = rest.split_at(len);
        if first != '[' {
            tokens.push(token.to_owned());
        }
        rest = after.trim_start();
    }
    tokens
}
