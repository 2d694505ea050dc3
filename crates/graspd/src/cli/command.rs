//! The shape of the command line. It parses no setting's value: every flag is text here, so that a
//! bad value is reported by the same function, in the same words, wherever it came from.

use super::operating;
use crate::config::SETTINGS;
use crate::config::setting::{Fallback, Form, Part, Setting, Topic};
use clap::{Arg, ArgAction, Command, value_parser};
use grasp_core::Filter;
use std::path::PathBuf;

pub(super) const CONFIG: &str = "config";
pub(super) const FILE: &str = "file";
pub(super) const FILTER: &str = "filter";

pub fn command() -> Command {
    Command::new("graspd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A GRASP server: a Nostr relay and a git host in one process, on one port")
        .after_help(
            "Run `graspd --help` for every setting, `graspd config print` for their values.",
        )
        .after_long_help("Every flag is also a variable: --relay-name is NGIT_RELAY_NAME.")
        .subcommand(Command::new("serve").about("Run the server (the default)"))
        .subcommand(config_command())
        .subcommand(events_command())
        .subcommands(operating::commands())
        .arg(config_file())
        .args(SETTINGS.iter().filter(|setting| setting.has_flag()).map(|setting| flag(setting)))
}

fn config_command() -> Command {
    let check = "Tell everything that is wrong with the configuration";
    let print = "Show every effective value and where it came from, secrets hidden";
    Command::new("config")
        .about("Look at the configuration without starting anything")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("check").about(check))
        .subcommand(Command::new("print").about(print))
        .subcommand(Command::new("docs").about("Print docs/configuration.md"))
}

fn events_command() -> Command {
    let filter = Arg::new(FILTER)
        .long("filter")
        .value_name("JSON")
        .action(ArgAction::Append)
        .value_parser(|text: &str| {
            serde_json::from_str::<Filter>(text).map_err(|error| error.to_string())
        })
        .help("Only events matching this NIP-01 filter; repeat it for several");
    Command::new("events")
        .about("Move events in and out as JSON lines")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("import").about("Read events").arg(file("File to read, `-` for input")),
        )
        .subcommand(
            Command::new("export")
                .about("Write stored events")
                .arg(file("File to write, `-` for output"))
                .arg(filter),
        )
        .subcommand(Command::new("held").about("Tell what waits, for what, and until when"))
}

fn file(help: &'static str) -> Arg {
    Arg::new(FILE)
        .value_name("FILE")
        .default_value("-")
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

fn config_file() -> Arg {
    Arg::new(CONFIG)
        .long("config")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .global(true)
        .help("TOML file to read; without it, graspd.toml in the working directory if there is one")
}

fn flag(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.name)
        .long(setting.flag)
        .value_name(value_name(setting.form))
        .global(true)
        .help_heading(setting.topic.title())
        .hide_short_help(!matches!(setting.topic, Topic::Service | Topic::Storage))
        .help(help(setting));
    match setting.form {
        Form::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => arg,
    }
}

fn help(setting: &Setting) -> String {
    let built = match setting.part {
        Part::Built => String::new(),
        Part::NotBuilt(part) | Part::Ignored(part) => format!(" (not built: {part})"),
    };
    let default = match setting.default {
        Fallback::Is("") => String::new(),
        Fallback::Is(text) => format!(" [default: {text}]"),
        Fallback::Unset(words) => format!(" [default: {words}]"),
    };
    format!("{}{built}{default}", setting.documentation())
}

fn value_name(form: Form) -> &'static str {
    match form {
        Form::Switch | Form::Bool => "BOOL",
        Form::Number { .. } => "N",
        Form::Text => "TEXT",
        Form::LogFilter => "LEVEL",
        Form::Path => "DIR",
        Form::Socket => "ADDR:PORT",
        Form::Authority => "HOST",
        Form::BasePath => "PATH",
        Form::Choice(_) => "WORD",
        Form::RelayUrl => "URL",
        Form::RelayUrls => "URLS",
        Form::Authorities
        | Form::Networks
        | Form::Keys
        | Form::Repositories
        | Form::Identifiers
        | Form::DomainLimits => "LIST",
        Form::Secret => "KEY",
    }
}
