//! Somebody with a key and a small repository, who does what `ngit` would do: announce it, sign its state,
//! and push. It uses the git of this machine, cut off from whatever its user has configured.

use super::servers::Server;
use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use grasp_core::id::Signature;
use grasp_core::{Event, EventId, Kind, PubKey, RepoId, Tag, Timestamp};
use grasp_relay::RelayMessage;
use secp256k1::{Keypair, SecretKey};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

pub(super) struct Project {
    pub(super) repo: RepoId,
    announcement: Event,
    state: Event,
    tree: PathBuf,
}

const NAME: &str = "hello";
const BRANCH: &str = "main";
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const GIT_TIME_MAX: Duration = Duration::from_secs(30);
const README: &str =
    "# Hello\n\nThis repository was pushed to one server. The other one fetched it.\n";

impl Project {
    pub(super) async fn make(place: &Path, servers: &[Server; 2]) -> Result<Self> {
        let person = Person::new()?;
        let repo = RepoId { owner: person.key, identifier: NAME.parse()? };
        let tree = place.join("tree");
        let tip = commit(&tree).await?;
        let now = crate::clock::Clock::default().now().timestamp();
        let clones = servers.each_ref().map(|server| server.clone_url(&repo));
        let relays = servers.each_ref().map(Server::relay);
        let announcement = person.signs(
            Kind::ANNOUNCEMENT,
            now,
            vec![
                tag(&["d", NAME]),
                tag(&["name", "Hello"]),
                tag(&["description", "A repository that two servers agree about"]),
                tag(&["clone", &clones[0], &clones[1]]),
                tag(&["relays", &relays[0], &relays[1]]),
            ],
        );
        let head = format!("ref: refs/heads/{BRANCH}");
        let branch = format!("refs/heads/{BRANCH}");
        let tags = vec![tag(&["d", NAME]), tag(&[&branch, &tip]), tag(&["HEAD", &head])];
        let state = person.signs(Kind::STATE, now, tags);
        Ok(Self { repo, announcement, state, tree })
    }

    pub(super) async fn publish(&self, to: &Server) -> Result<()> {
        for event in [&self.announcement, &self.state] {
            published(to, event).await?;
        }
        let url = to.clone_url(&self.repo);
        git(&self.tree, &["push", "-q", &url, BRANCH]).await.map(drop)
    }
}

fn tag(values: &[&str]) -> Tag {
    Tag(values.iter().map(|value| (*value).to_owned()).collect())
}

async fn published(to: &Server, event: &Event) -> Result<()> {
    let mut socket = to.client().relay().await?;
    socket.send(Message::text(format!("[\"EVENT\",{}]", event.to_json()))).await?;
    let answer = async {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            if let Ok(RelayMessage::Ok { id, ok, text }) = RelayMessage::parse(&text)
                && id == event.id
            {
                return if ok { Ok(()) } else { Err(anyhow::anyhow!(text)) };
            }
        }
        bail!("it hung up")
    };
    timeout(ANSWER_TIME_MAX, answer).await.context("it does not answer")?
}

/// A key for the length of a demonstration.
struct Person {
    keypair: Keypair,
    key: PubKey,
}

impl Person {
    fn new() -> Result<Self> {
        let mut secret = [0; 32];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())?;
        let keypair = Keypair::from_secret_key(&SecretKey::from_secret_bytes(secret)?);
        let key = PubKey::from_bytes(keypair.x_only_public_key().0.to_byte_array());
        Ok(Self { keypair, key })
    }

    fn signs(&self, kind: Kind, created_at: Timestamp, tags: Vec<Tag>) -> Event {
        let mut event = Event {
            id: EventId::from_bytes([0; 32]),
            pubkey: self.key,
            created_at,
            kind,
            tags,
            content: String::new(),
            sig: Signature::from_bytes([0; 64]),
        };
        event.id = event.hash();
        let sig = secp256k1::schnorr::sign_no_aux_rand(event.id.as_bytes(), &self.keypair);
        event.sig = Signature::from_bytes(sig.to_byte_array());
        event
    }
}

/// One commit on one branch; the id of it.
async fn commit(tree: &Path) -> Result<String> {
    std::fs::create_dir_all(tree)?;
    git(tree, &["init", "-q"]).await?;
    git(tree, &["symbolic-ref", "HEAD", &format!("refs/heads/{BRANCH}")]).await?;
    std::fs::write(tree.join("README.md"), README)?;
    git(tree, &["add", "README.md"]).await?;
    git(tree, &["commit", "-q", "-m", "Say hello"]).await?;
    git(tree, &["rev-parse", "HEAD"]).await
}

async fn git(tree: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(args).current_dir(tree).env_clear().kill_on_drop(true).stdin(Stdio::null());
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let home = tree.display().to_string();
    for (name, value) in [
        ("HOME", home.as_str()),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_AUTHOR_NAME", "Demo"),
        ("GIT_AUTHOR_EMAIL", "demo@localhost"),
        ("GIT_COMMITTER_NAME", "Demo"),
        ("GIT_COMMITTER_EMAIL", "demo@localhost"),
    ] {
        command.env(name, value);
    }
    let ran = timeout(GIT_TIME_MAX, command.output()).await.context("git does not end")?;
    let ran = ran.context("the demonstration needs git; install it first")?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("git {} failed: {}", args.first().unwrap_or(&""), said.trim());
    }
    Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}
