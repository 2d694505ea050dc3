//! Reads the command line and does what it says.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

use graspd::cli::{self, FAILED, Invocation, UNUSABLE};
use graspd::config::{self, Config, RawConfig};
use graspd::ops::failure::{complain, plain_words};
use graspd::ops::terminal::{is_output_closed, print_line, print_note, print_text};
use graspd::ops::{demo, diff, doctor, look};
use graspd::{events, serve};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let (invocation, raw) = match cli::process() {
        Ok(parsed) => parsed,
        Err(error) => error.exit(),
    };
    match run(&invocation, &raw) {
        Ok(code) => code,
        Err(error) if is_output_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(FAILED)
        }
    }
}

fn run(invocation: &Invocation, raw: &RawConfig) -> anyhow::Result<ExitCode> {
    if let Some(done) = unconfigured(invocation, raw) {
        return done;
    }
    let config = match Config::build(raw) {
        Ok(config) => config,
        Err(complaints) => {
            let count = complaints.len();
            print_note(&format!("graspd: the configuration has {count} problem(s):"));
            for complaint in complaints {
                print_note(&plain_words(&format!("  - {complaint}")));
            }
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    match invocation {
        Invocation::ConfigCheck => {
            config.notes.iter().for_each(|note| print_note(&format!("note: {note}")));
            print_line("the configuration is sound")?;
        }
        Invocation::ConfigPrint => print_text(&config::print(raw, Some(&config)))?,
        Invocation::EventsImport { path } => events::import(&config, path)?,
        Invocation::EventsExport { path, filters } => events::export(&config, path, filters)?,
        Invocation::EventsHeld => events::held(&config)?,
        Invocation::Look(look) => return look::run(&config, look),
        Invocation::Diff { url, json } => return diff::run(&config, url, *json),
        // These were answered above.
        Invocation::ConfigDocs
        | Invocation::Completions(_)
        | Invocation::Doctor { .. }
        | Invocation::Demo { .. } => {}
        Invocation::Serve => serve(config)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What needs no sound configuration.
fn unconfigured(invocation: &Invocation, raw: &RawConfig) -> Option<anyhow::Result<ExitCode>> {
    let printed = match invocation {
        Invocation::ConfigDocs => print_text(&config::markdown()),
        Invocation::Completions(shell) => print_text(&cli::completions(*shell)),
        // A configuration that cannot be used is what it is there to find.
        Invocation::Doctor { json } => return Some(doctor::run(raw, *json)),
        // Its servers have a configuration of their own.
        Invocation::Demo { exit, json } => return Some(demo::run(*exit, *json)),
        _ => return None,
    };
    Some(printed.map(|()| ExitCode::SUCCESS))
}

fn serve(config: Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log_filter)?;
    let is_terminal = std::io::stdout().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(is_terminal).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve::run(config));
    // A name that is still being looked up keeps nobody from leaving.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    served
}
