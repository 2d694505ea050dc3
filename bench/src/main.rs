//! A load generator and its report: `cargo run --release -p bench -- relay`. It starts the real
//! server as a process of its own and measures each figure beside what the same machine could do
//! at best in the same run, so that a report means something on any machine.

mod cli;
mod events;
mod filling;
mod floors;
mod plan;
mod process;
mod relay;
mod report;
mod server;
mod spent;
mod stats;
mod wire;
mod work;

use cli::{Command, Settings};
use std::process::ExitCode;

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
    match command {
        Command::Relay(settings) => runtime.block_on(report(settings)),
        Command::Echo => runtime.block_on(floors::echo::serve()).map(|()| ExitCode::SUCCESS),
        Command::Idle { address, count } => {
            runtime.block_on(work::idle::sit(address, *count)).map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn report(settings: &Settings) -> anyhow::Result<ExitCode> {
    let report = relay::measure(settings).await?;
    match settings.json {
        true => println!("{}", report.to_json()),
        false => print!("{report}"),
    }
    let failed = settings.check && report.failed() > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
