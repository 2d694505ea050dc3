//! The server that has everything. Every repository was announced, signed for and pushed to it.

use super::projects::{Project, Projects};
use crate::filling;
use crate::git::hosted::push;
use crate::sync::proxy::Proxy;
use crate::wire::{Socket, connect, hear_until, publication, say, taken};
use crate::work::query;
use anyhow::{Result, ensure};
use grasp_core::VerifiedEvent;
use grasp_testkit::Server;
use std::path::Path;

/// Known to others by its door.
pub(super) async fn start(binary: &Path, projects: &Projects, door: &Proxy) -> Result<Server> {
    eprintln!("pushing {} repositories", projects.all.len());
    let settings = [("NGIT_DOMAIN_ALIASES", door.address.as_str())];
    let mut server = Server::start(binary, &settings).await;
    let mut socket = connect(&server.address).await?;
    for project in &projects.all {
        bring(&mut socket, &server, project, projects).await?;
    }
    ensure!(server.stop().await, "the server does not stop in order");
    filling::put_all(&server.home().relay_path(), &projects.threads())?;
    let mut home = server.into_home();
    // Somebody is trusted, so this machine is not: its budgets are those of any stranger.
    home.set("NGIT_TRUSTED_PROXY_CIDRS", "192.0.2.1/32");
    let server = home.serve().await;
    let (has, expected) = (query::count(&server.address).await?, projects.events().count());
    ensure!(has == expected, "the source has {has} of {expected} events");
    door.leads_to(&server.address);
    Ok(server)
}

async fn bring(
    socket: &mut Socket,
    server: &Server,
    project: &Project,
    projects: &Projects,
) -> Result<()> {
    publish(socket, &project.announcement).await?;
    publish(socket, &project.state).await?;
    let url = project.repository.clone_url(&server.address);
    push(&projects.tree, &url, &project.refspecs()).await
}

pub(super) async fn publish(socket: &mut Socket, event: &VerifiedEvent) -> Result<()> {
    say(socket, publication(std::str::from_utf8(event.json())?)).await?;
    taken(&hear_until(socket, "[\"OK\"").await?)
}
