//! The server under test: always the one that this workspace builds now, in a process of its own.

use crate::cli::Settings;
use anyhow::{Context, Result, ensure};
use grasp_testkit::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The binary to measure. A stale one would be measured without anybody noticing, so Cargo, which
/// started us, is asked to bring it up to date; that costs nothing when it is.
pub(crate) fn binary(settings: &Settings) -> Result<PathBuf> {
    if let Some(path) = &settings.graspd {
        return std::path::absolute(path).context("--graspd");
    }
    let here = std::env::current_exe()?;
    let directory = here.parent().context("this program lies in no directory")?;
    let path = directory.join("graspd");
    match std::env::var_os("CARGO") {
        Some(cargo) => build(Path::new(&cargo), directory)?,
        None => {
            ensure!(path.exists(), "{} is missing; run this through cargo", path.display());
        }
    }
    Ok(path)
}

/// Builds into the directory this program lies in. The whole workspace is named so that features,
/// and with them the artifacts, are those of every other build.
fn build(cargo: &Path, directory: &Path) -> Result<()> {
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--workspace", "--bin", "graspd"]);
    build.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    build.args(
        directory
            .parent()
            .into_iter()
            .flat_map(|target| ["--target-dir".into(), target.as_os_str().to_owned()]),
    );
    if directory.ends_with("release") {
        build.arg("--release");
    }
    let status = build.stdout(Stdio::null()).status().context("cargo does not run")?;
    ensure!(status.success(), "graspd does not build");
    Ok(())
}

/// Starts a server whose store was filled before by `fill`, which gets its directory.
pub(crate) async fn started_on<T>(
    binary: &Path,
    settings: &[(&str, &str)],
    fill: impl FnOnce(&Path) -> Result<T>,
) -> Result<(Server, T)> {
    let mut server = Server::start(binary, settings).await;
    // The first start makes the directory the server's own; it is filled while nobody serves it.
    ensure!(server.stop().await, "the server does not stop in order");
    let filled = fill(&server.data_path().join("relay"))?;
    server.restart().await;
    Ok((server, filled))
}
