//! `config print`: every setting's effective value and where it came from, one line each, in the
//! form of an environment file. Secrets are only ever shown to be set.

use super::build::Config;
use super::complaint::Layer;
use super::raw::{RawConfig, RawValue};
use super::setting::{Fallback, Setting, Topic};
use super::table::{NGIT_DOMAIN, NGIT_RELAY_NAME, SETTINGS};
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
    let given = value.layer != Layer::Default;
    let text = match (setting.is_secret(), given) {
        (true, true) => "(hidden)".to_owned(),
        (true, false) => String::new(),
        (false, _) => quoted(&effective(setting, &value.text, config)),
    };
    let assignment = format!("{}={text}", setting.name);
    match (setting.default, given) {
        (Fallback::Unset(words), false) => format!("{assignment:<56} # default: {words}"),
        _ => format!("{assignment:<56} # {}", value.layer),
    }
}

fn effective(setting: &Setting, text: &str, config: Option<&Config>) -> String {
    match config {
        Some(config) if *setting == NGIT_DOMAIN => config.service.authority().to_string(),
        Some(config) if *setting == NGIT_RELAY_NAME => config.relay_name.clone(),
        _ => text.to_owned(),
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
        let lines = dotenv::parse(&print(&raw, Some(&config)));
        assert_eq!(lines.len(), SETTINGS.len());
        let value = |wanted: &Setting| {
            lines.iter().find(|line| line.name == wanted.name).unwrap().value.clone().unwrap()
        };
        assert_eq!(value(&NGIT_RELAY_NAME), name);
        assert_eq!(value(&NGIT_DOMAIN), "127.0.0.1:7334");
    }
}
