//! A load generator and its report: `cargo run --release -p bench -- relay`, `git`, `sync`,
//! `coldsync` or `visible`.
//! It starts the real server as a process of its own and measures each figure beside what the same
//! machine could do at best in the same run, so that a report means something on any machine.

mod cli;
mod coldsync;
mod events;
mod filling;
mod floors;
mod git;
mod heap;
mod plan;
mod process;
mod relay;
mod report;
mod seedling;
mod server;
mod spent;
mod stats;
mod sync;
mod visible;
mod wire;
mod work;

use cli::{Command, Settings};
use report::Report;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: heap::Counted = heap::Counted;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match run(&command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Relay(settings) => Ok(shown(&relay::measure(settings).await?, settings)),
            Command::Git(settings) => Ok(shown(&git::measure(settings).await?, settings)),
            Command::Sync(settings) => Ok(shown(&sync::measure(settings).await?, settings)),
            Command::Coldsync(settings) => Ok(shown(&coldsync::measure(settings).await?, settings)),
            Command::Visible(settings) => Ok(shown(&visible::measure(settings).await?, settings)),
            Command::Engine(part, crowd) => {
                println!("{}", part.figures(crowd)?);
                Ok(ExitCode::SUCCESS)
            }
            Command::Echo => floors::echo::serve().await.map(|()| ExitCode::SUCCESS),
            Command::Cgi { backend, root } => {
                floors::cgi::serve(backend, root).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Idle { address, count } => {
                work::idle::sit(address, *count).await.map(|()| ExitCode::SUCCESS)
            }
        }
    })
}

fn shown(report: &Report, settings: &Settings) -> ExitCode {
    match settings.json {
        true => println!("{}", report.to_json()),
        false => print!("{report}"),
    }
    let failed = settings.check && report.failed() > 0;
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
