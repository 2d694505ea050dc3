//! The commands of an operator: their words, their flags, and what was asked for with them. What an
//! argument means is found out where it is used.

use super::Invocation;
use crate::ops::look::{Leaf, Look, Question};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;

const JSON: &str = "json";
const AFTER: &str = "after";
const LIMIT: &str = "limit";
const WHAT: &str = "what";
const EXIT: &str = "exit";
const NO_WAIT: &str = "no-wait";
const SHELL: &str = "shell";
/// Long enough for most servers, short enough for a window.
const LIMIT_USUAL: &str = "100";
const LIMIT_MAX: u64 = 500;

pub(super) fn commands() -> [Command; 11] {
    let repository = "Its identifier, `<npub>/<identifier>` or its clone URL";
    [
        told("status", "Tell how this server is"),
        told("repos", "List the repositories").args(paging()),
        told("repo", "Tell all about one repository: refs, mirrors, what is in the way")
            .arg(what("REPOSITORY", repository).required(true)),
        told("relays", "Tell how the relays are that this server follows").args(paging()),
        told("purgatory", "Tell what waits for git data, and how long it may").args(paging()),
        told("explain", "Explain why a repository or an event is incomplete")
            .arg(what("WHAT", "A repository, or the id of an event; without it, everything")),
        sync(),
        told("doctor", "Look for what is wrong here, and say how to put it right"),
        told("diff", "Compare this server with another, repository by repository")
            .arg(what("URL", "The other server, such as https://git.example").required(true)),
        told("demo", "Run two servers on this machine and watch one catch up with the other")
            .arg(switch(EXIT).help("End as soon as they agree")),
        completions(),
    ]
}

pub(super) fn invocation(words: &[&str], matches: &ArgMatches) -> Option<Invocation> {
    let json = || matches.get_flag(JSON);
    let what = || matches.get_one::<String>(WHAT).cloned();
    let look = |question| Some(Invocation::Look(Look { question, json: json() }));
    match words {
        ["status"] => look(Question::Status),
        ["repos"] => look(Question::Repos(leaf(matches))),
        ["repo"] => look(Question::Repo(what().unwrap_or_default())),
        ["relays"] => look(Question::Relays(leaf(matches))),
        ["purgatory"] => look(Question::Purgatory(leaf(matches))),
        ["explain"] => look(Question::Explain(what())),
        ["sync", "now"] => {
            look(Question::SyncNow { what: what(), waits: !matches.get_flag(NO_WAIT) })
        }
        ["doctor"] => Some(Invocation::Doctor { json: json() }),
        ["diff"] => Some(Invocation::Diff { url: what().unwrap_or_default(), json: json() }),
        ["demo"] => Some(Invocation::Demo { exit: matches.get_flag(EXIT), json: json() }),
        ["completions"] => matches.get_one(SHELL).copied().map(Invocation::Completions),
        _ => None,
    }
}

/// A command that can speak to programs, too.
fn told(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(switch(JSON).help("Print JSON, for programs"))
}

fn sync() -> Command {
    let now =
        told("now", "Compare with others now, not when it would be due, and wait until it is done")
            .arg(what("WHAT", "A repository, or the URL of a relay; without it, everything"))
            .arg(switch(NO_WAIT).help("End as soon as it is started"));
    Command::new("sync")
        .about("Have the running server compare itself with others")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(now)
}

fn completions() -> Command {
    let shell = Arg::new(SHELL).value_name("SHELL").value_parser(value_parser!(Shell));
    Command::new("completions")
        .about("Print completions for a shell")
        .arg(shell.required(true).help("Which one"))
}

fn what(name: &'static str, help: &'static str) -> Arg {
    Arg::new(WHAT).value_name(name).help(help)
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

fn paging() -> [Arg; 2] {
    [
        Arg::new(LIMIT)
            .long(LIMIT)
            .value_name("N")
            .default_value(LIMIT_USUAL)
            .value_parser(value_parser!(u64).range(1..=LIMIT_MAX))
            .help("How many to tell"),
        Arg::new(AFTER)
            .long(AFTER)
            .value_name("NAME")
            .help("Go on after this one, as told at the end of the part before"),
    ]
}

fn leaf(matches: &ArgMatches) -> Leaf {
    let limit = matches.get_one::<u64>(LIMIT).copied().unwrap_or(LIMIT_MAX);
    Leaf {
        after: matches.get_one::<String>(AFTER).cloned(),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    }
}
