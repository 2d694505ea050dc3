//! The command line: which job was asked for, and the raw configuration for it. Settings flags come
//! from the table in `config` and work before and after a subcommand. This is the only place that
//! reads configuration files; [`process`] is the only one that looks at the process itself.

mod command;
mod operating;
mod sources;

pub use command::{command, completions};

use crate::config::RawConfig;
use crate::ops::look::Look;
use clap::ArgMatches;
use clap_complete::Shell;
use grasp_core::Filter;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Exit code of a command that failed, or that found what it was asked to look for.
pub const FAILED: u8 = 1;
/// Exit code where the command line or the configuration cannot be used.
pub const UNUSABLE: u8 = 2;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    Serve,
    /// Tell what is wrong with the configuration.
    ConfigCheck,
    /// Show the effective configuration.
    ConfigPrint,
    /// Print `docs/configuration.md`.
    ConfigDocs,
    EventsImport {
        path: Stream,
    },
    /// No filter means everything.
    EventsExport {
        path: Stream,
        filters: Vec<Filter>,
    },
    EventsHeld,
    /// Tell how something stands, or have it compared now.
    Look(Look),
    /// Look for what keeps this server from doing its work.
    Doctor {
        json: bool,
    },
    /// Compare this server with another.
    Diff {
        url: String,
        json: bool,
    },
    /// Show two servers agreeing.
    Demo {
        /// End as soon as they do.
        exit: bool,
        json: bool,
    },
    Completions(Shell),
}

/// A file, or standard input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stream {
    Standard,
    File(PathBuf),
}

/// Wrong usage, or a request for help or the version; knows how to end the process with either.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CliError(#[from] clap::Error);

impl CliError {
    /// Help goes to standard output and ends well; a mistake goes to standard error and does not.
    pub fn exit(&self) -> ! {
        self.0.exit()
    }
}

/// For `main`: the arguments, environment and working directory of this process.
pub fn process() -> Result<(Invocation, RawConfig), CliError> {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    parse(std::env::args_os(), std::env::vars_os(), &cwd)
}

/// The first argument is the program's name. Files are looked for in `cwd`.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    cwd: &Path,
) -> Result<(Invocation, RawConfig), CliError> {
    let matches = command().try_get_matches_from(args)?;
    let raw = RawConfig::gather(sources::read(leaf(&matches), env, cwd));
    Ok((invocation(&matches), raw))
}

/// The matches of the innermost subcommand: flags given at any level are known there.
fn leaf(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| leaf(inner))
}

fn invocation(matches: &ArgMatches) -> Invocation {
    match path(matches)[..] {
        ["config", "check"] => Invocation::ConfigCheck,
        ["config", "print"] => Invocation::ConfigPrint,
        ["config", "docs"] => Invocation::ConfigDocs,
        ["events", "import"] => Invocation::EventsImport { path: stream(leaf(matches)) },
        ["events", "held"] => Invocation::EventsHeld,
        ["events", "export"] => Invocation::EventsExport {
            path: stream(leaf(matches)),
            filters: filters(leaf(matches)),
        },
        ref words => operating::invocation(words, leaf(matches)).unwrap_or(Invocation::Serve),
    }
}

fn path(matches: &ArgMatches) -> Vec<&str> {
    let mut names = Vec::new();
    let mut level = matches;
    while let Some((name, inner)) = level.subcommand() {
        names.push(name);
        level = inner;
    }
    names
}

fn stream(matches: &ArgMatches) -> Stream {
    match matches.get_one::<PathBuf>(command::FILE) {
        Some(path) if path.as_os_str() != "-" => Stream::File(path.clone()),
        _ => Stream::Standard,
    }
}

fn filters(matches: &ArgMatches) -> Vec<Filter> {
    matches.get_many::<Filter>(command::FILTER).into_iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{NGIT_ARCHIVE_ALL, NGIT_METRICS_ENABLED, NGIT_RELAY_NAME};
    use crate::config::{Layer, Setting};
    use crate::ops::look::{Leaf, Question};

    fn run(args: &str) -> Result<(Invocation, RawConfig), CliError> {
        let args = ["graspd"].into_iter().chain(args.split_whitespace()).map(OsString::from);
        parse(args, [], Path::new("/nonexistent"))
    }

    fn text(args: &str, setting: &Setting) -> String {
        run(args).unwrap().1.get(setting).text
    }

    #[test]
    fn serving_is_what_happens_without_a_word() {
        assert_eq!(run("").unwrap().0, Invocation::Serve);
        assert_eq!(run("serve").unwrap().0, Invocation::Serve);
        assert_eq!(run("config check").unwrap().0, Invocation::ConfigCheck);
        assert_eq!(run("config print").unwrap().0, Invocation::ConfigPrint);
        assert_eq!(run("config docs").unwrap().0, Invocation::ConfigDocs);
        for incomplete in ["config", "events", "sevre", "serve now", "events import a b"] {
            assert!(run(incomplete).is_err(), "{incomplete}");
        }
    }

    #[test]
    fn operators_ask_in_few_words() {
        let look = |args: &str| match run(args).unwrap().0 {
            Invocation::Look(look) => look,
            other => panic!("{other:?}"),
        };
        assert_eq!(look("status"), Look { question: Question::Status, json: false });
        assert_eq!(look("status --json"), Look { question: Question::Status, json: true });
        assert_eq!(look("repo a/b").question, Question::Repo("a/b".into()));
        let leaf = Leaf { after: Some("x".into()), limit: 5 };
        assert_eq!(look("repos --after x --limit 5").question, Question::Repos(leaf));
        let leaf = Leaf { after: None, limit: 100 };
        assert_eq!(look("relays").question, Question::Relays(leaf.clone()));
        assert_eq!(look("purgatory").question, Question::Purgatory(leaf));
        assert_eq!(look("explain").question, Question::Explain(None));
        assert_eq!(look("explain a/b").question, Question::Explain(Some("a/b".into())));
        let everything = Question::SyncNow { what: None, waits: true };
        assert_eq!(look("sync now").question, everything);
        let relay = Question::SyncNow { what: Some("wss://x".into()), waits: false };
        assert_eq!(look("sync now --no-wait wss://x").question, relay);
        assert_eq!(run("doctor --json").unwrap().0, Invocation::Doctor { json: true });
        let demo = Invocation::Demo { exit: true, json: false };
        assert_eq!(run("demo --exit").unwrap().0, demo);
        let diff = Invocation::Diff { url: "https://x".into(), json: false };
        assert_eq!(run("diff https://x").unwrap().0, diff);
        assert_eq!(run("completions fish").unwrap().0, Invocation::Completions(Shell::Fish));
        for wrong in ["repo", "sync", "diff", "completions tcsh", "repos --limit 0", "status x"] {
            assert!(run(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_work_on_either_side_of_a_subcommand() {
        for args in [
            "--relay-name x config print",
            "config --relay-name x print",
            "config print --relay-name x",
            "config print --relay-name=x",
        ] {
            assert_eq!(text(args, &NGIT_RELAY_NAME), "x", "{args}");
            assert_eq!(run(args).unwrap().1.get(&NGIT_RELAY_NAME).layer, Layer::Flag);
        }
        assert!(run("--relay-name x --relay-name y").is_err(), "which one?");
    }

    #[test]
    fn booleans_are_switches_that_can_be_turned_off() {
        assert_eq!(text("--archive-all serve", &NGIT_ARCHIVE_ALL), "true");
        assert_eq!(text("--metrics-enabled=false", &NGIT_METRICS_ENABLED), "false");
        assert_eq!(text("", &NGIT_METRICS_ENABLED), "true");
        assert!(run("--sync-plus-enabled").is_err(), "this one takes a value");
        assert!(run("--sync-plus-enabled false").is_ok());
    }

    #[test]
    fn the_owners_key_has_no_flag() {
        let error = run("--relay-owner-nsec=sesame").unwrap_err().to_string();
        assert!(!error.contains("sesame"), "{error}");
    }

    #[test]
    fn events_go_to_and_from_files_or_the_standard_streams() {
        let import = |path| Invocation::EventsImport { path };
        assert_eq!(run("events import").unwrap().0, import(Stream::Standard));
        assert_eq!(run("events import -").unwrap().0, import(Stream::Standard));
        assert_eq!(run("events import a").unwrap().0, import(Stream::File("a".into())));
        let (job, _) = run(r#"events export b --filter {"kinds":[1]} --filter {}"#).unwrap();
        let Invocation::EventsExport { path, filters } = job else { panic!() };
        assert_eq!(path, Stream::File("b".into()));
        assert_eq!(filters.len(), 2);
        let error = run(r#"events export --filter {"kind":1}"#).unwrap_err().to_string();
        assert!(error.contains("unsupported filter field `kind`"), "{error}");
    }

    #[test]
    fn help_names_every_topic_and_every_flag() {
        command().debug_assert();
        let help = run("serve --help").unwrap_err().to_string();
        for topic in crate::config::setting::Topic::ALL {
            assert!(help.contains(topic.title()), "{}", topic.title());
        }
        for setting in crate::config::SETTINGS.iter().filter(|setting| setting.has_flag()) {
            assert!(help.contains(&format!("--{}", setting.flag)), "{}", setting.flag);
        }
        for short in ["-h", "--help"] {
            let help = run(short).unwrap_err().to_string();
            assert!(help.lines().count() < 50, "it fits a window:\n{help}");
            assert!(help.contains("graspd serve --help"), "{help}");
        }
    }

    /// Every command with its words, but for the ones that serve.
    fn commands(of: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
        for inner in of.get_subcommands().filter(|it| it.get_name() != "serve") {
            let words = format!("{words} {}", inner.get_name()).trim().to_owned();
            commands(inner, &words, found);
            found.push((words, inner.clone()));
        }
    }

    #[test]
    fn the_help_of_a_command_is_short_and_has_its_own_options_alone() {
        let mut found = Vec::new();
        commands(&command(), "", &mut found);
        assert!(found.len() > 15, "{}", found.len());
        for (words, command) in found {
            let help = run(&format!("{words} --help")).unwrap_err().to_string();
            assert!(help.lines().count() <= 18, "{words} takes a window:\n{help}");
            assert!(help.contains("graspd config docs"), "{help}");
            for setting in crate::config::SETTINGS {
                assert!(!help.contains(&format!("--{} ", setting.flag)), "{words}:\n{help}");
            }
            for own in command.get_arguments().filter(|it| !it.is_hide_set()) {
                let name = own.get_long().map(|long| format!("--{long}"));
                let name = name.unwrap_or_else(|| own.get_id().to_string());
                let shown = help.to_lowercase().contains(&name);
                assert!(shown || own.get_value_names().is_some(), "{words} hides {name}:\n{help}");
            }
        }
    }

    #[test]
    fn exit_codes_are_told_by_the_help_and_by_the_document() {
        let document = include_str!("../../../../docs/operating.md");
        let help = run("--help").unwrap_err().to_string();
        let told = command::EXIT_CODES.lines().map(str::trim);
        for line in told.clone() {
            assert!(help.contains(line), "{line} in:\n{help}");
        }
        let together = document.split_whitespace().collect::<Vec<_>>().join(" ");
        for code in [0, u32::from(FAILED), u32::from(UNUSABLE)] {
            assert!(help.contains(&format!("\n  {code}  ")), "{help}");
            assert!(together.contains(&format!("| {code} |")), "{document}");
        }
    }
}
