//! `config print`: every setting's effective value and where it came from, one line each, as an
//! environment file that gives the same configuration again. What is worked out at the start is a comment,
//! since writing it down would fix it; a secret is only ever shown to be set.

use super::build::Config;
use super::complaint::Layer;
use super::raw::{RawConfig, RawValue};
use super::setting::{Fallback, Setting, Topic};
use super::table::{NGIT_DOMAIN, NGIT_GIT_DATA_PATH, NGIT_RELAY_NAME, SETTINGS};
use std::fmt::Write;

/// `config` is what `raw` became, if it is sound; with it, worked-out defaults can be shown.
pub fn print(raw: &RawConfig, config: Option<&Config>) -> String {
    let mut out = String::new();
    for topic in Topic::ALL {
        let _ = writeln!(out, "# {}", topic.title());
        for setting in SETTINGS.iter().filter(|setting| setting.topic == topic) {
            let _ = writeln!(out, "{}", line(setting, &raw.get(setting), config));
        }
        out.push('\n');
    }
    out
}

fn line(setting: &Setting, value: &RawValue, config: Option<&Config>) -> String {
    let (name, layer) = (setting.name, &value.layer);
    let is_given = *layer != Layer::Default;
    match (setting.default, is_given) {
        _ if setting.is_secret() && is_given => {
            format!("# {name} is set and never printed ({layer})")
        }
        (Fallback::Unset(words), false) => {
            let worked_out = quoted(&worked_out(setting, config));
            format!("{:<56} # default: {words}", format!("# {name}={worked_out}"))
        }
        // The memory backend keeps repositories in a temporary directory unless a path is given.
        _ if *setting == NGIT_GIT_DATA_PATH && !is_given => {
            format!("{:<56} # {layer}", format!("# {name}={}", quoted(&value.text)))
        }
        _ => format!("{:<56} # {layer}", format!("{name}={}", quoted(&value.text))),
    }
}

fn worked_out(setting: &Setting, config: Option<&Config>) -> String {
    match config {
        Some(config) if *setting == NGIT_DOMAIN => config.service.authority().to_string(),
        Some(config) if *setting == NGIT_RELAY_NAME => config.relay_name.clone(),
        _ => String::new(),
    }
}

/// Quoted where our own `.env` reader would otherwise read something else.
fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"#'\"\\$`".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let escaped = text.chars().flat_map(|c| match c {
        '"' | '\\' | '$' => vec!['\\', c],
        '\n' => vec!['\\', 'n'],
        '\r' => vec!['\\', 'r'],
        '\t' => vec!['\\', 't'],
        c => vec![c],
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use crate::config::dotenv;

    #[test]
    fn what_is_printed_can_be_read_back() {
        let name = "a \"b\" # $c\\";
        let flags = vec![(&NGIT_RELAY_NAME, name.to_owned())];
        let raw = RawConfig::gather(Sources { flags, ..Sources::default() });
        let config = Config::build(&raw).unwrap();
        let shown = print(&raw, Some(&config));
        let lines = dotenv::parse(&shown);
        let has_default = |it: &Setting| matches!(it.default, Fallback::Is(_));
        let set = |it: &&&Setting| {
            (has_default(it) && ***it != NGIT_GIT_DATA_PATH) || ***it == NGIT_RELAY_NAME
        };
        assert_eq!(lines.len(), SETTINGS.iter().filter(set).count());
        let found = lines.iter().find(|line| line.name == NGIT_RELAY_NAME.name).unwrap();
        assert_eq!(found.value.clone().unwrap(), name);
        assert!(shown.contains("# NGIT_DOMAIN=127.0.0.1:7334 "), "{shown}");
    }
}
