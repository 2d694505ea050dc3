//! The shape of the command line. It parses no setting's value: every flag is text here, so that a
//! bad value is reported by the same function, in the same words, wherever it came from.

use super::operating;
use crate::config::SETTINGS;
use crate::config::setting::{Fallback, Form, Part, Setting, Unit};
use crate::config::table::{
    NGIT_BIND_ADDRESS, NGIT_DOMAIN, NGIT_GIT_DATA_PATH, NGIT_RELAY_DATA_PATH,
};
use clap::{Arg, ArgAction, Command, value_parser};
use clap_complete::Shell;
use grasp_core::Filter;
use std::path::PathBuf;

pub(super) const CONFIG: &str = "config";
pub(super) const FILE: &str = "file";
pub(super) const FILTER: &str = "filter";

pub fn command() -> Command {
    Command::new("graspd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A GRASP server: a Nostr relay and a git host in one process, on one port")
        .after_help(format!("{SETTINGS_HINT}\n\n{EXIT_CODES}"))
        .subcommand(serve_command())
        .subcommand(quiet(config_command()))
        .subcommand(quiet(events_command()))
        .subcommands(operating::commands().map(quiet))
        .arg(config_file())
        .args(flags().map(|(setting, arg)| arg.hide(!ESSENTIAL.contains(&setting))))
}

/// Settings that every operator meets; `serve --help` has the others.
const ESSENTIAL: [&Setting; 4] =
    [&NGIT_DOMAIN, &NGIT_BIND_ADDRESS, &NGIT_GIT_DATA_PATH, &NGIT_RELAY_DATA_PATH];

const SETTINGS_HINT: &str = "\
Settings: `graspd serve --help` lists every flag, `graspd config print` shows their values.
Every flag is also a variable: --relay-name is NGIT_RELAY_NAME.";

const QUIET_HINT: &str = "\
Settings of the server are flags here, too: `graspd config docs` describes them, `graspd config print`
shows their values.";

/// What every exit code means. `docs/operating.md` says the same.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done, and nothing is wrong or different
  1  it failed, or found something: a difference (diff), a problem (doctor), servers that do not
     agree (demo), a relay that could not be compared (sync now)
  2  the command line or the configuration cannot be used, or (diff) no comparison was possible";

fn serve_command() -> Command {
    Command::new("serve").about("Run the server (the default)").args(flags().map(|(_, arg)| arg))
}

/// A command that does not serve takes every setting, and lists none in its help.
fn quiet(command: Command) -> Command {
    let command = command.args(flags().map(|(_, arg)| arg.hide(true))).after_help(QUIET_HINT);
    command.mut_subcommands(|inner| inner.after_help(QUIET_HINT))
}

fn flags() -> impl Iterator<Item = (&'static Setting, Arg)> {
    let settings = SETTINGS.iter().copied().filter(|setting| setting.has_flag());
    settings.map(|setting| (setting, flag(setting)))
}

/// The completions of a shell.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "graspd", &mut script);
    String::from_utf8_lossy(&script).into_owned()
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
        Form::Number { unit: Unit::Bytes, .. } => "SIZE",
        Form::Number { unit: Unit::Millis | Unit::Secs | Unit::Hours, .. } => "TIME",
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
