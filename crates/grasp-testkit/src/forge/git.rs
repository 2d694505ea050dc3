//! What a forge lets a real git do.

use super::house::House;
use super::packets::line;
use grasp_core::Oid;
use std::io;
use std::path::Path;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The body of `info/refs`.
pub(super) async fn info_refs(house: &House, dir: &Path, protocol: &str) -> Vec<u8> {
    let mut body = Vec::new();
    if protocol != "version=2" {
        body = [line("# service=git-upload-pack"), b"0000".to_vec()].concat();
    }
    body.extend(upload_pack(house, dir, protocol, &["--http-backend-info-refs"], b"").await);
    body
}

/// The answer to a POST. It may be cut short by git's own failure: that is an answer, too.
pub(super) async fn answer(house: &House, dir: &Path, protocol: &str, body: &[u8]) -> Vec<u8> {
    upload_pack(house, dir, protocol, &[], body).await
}

async fn upload_pack(
    house: &House,
    dir: &Path,
    protocol: &str,
    options: &[&str],
    input: &[u8],
) -> Vec<u8> {
    let mut command = house.git.command(house.home.path());
    command.args(["upload-pack", "--stateless-rpc"]).args(options).arg(dir);
    command.env("GIT_PROTOCOL", protocol);
    fed(command, input).await.expect("git runs")
}

/// The objects that refs are at.
pub(super) async fn tips(house: &House, dir: &Path) -> Vec<String> {
    let listed = runs(house, dir, &["for-each-ref", "--format=%(objectname)"], b"").await;
    String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect()
}

/// A pack of a repository that nobody knows.
pub(super) async fn unrelated_pack(house: &House) -> Vec<u8> {
    let dir = house.home.path().join("unrelated.git");
    makes(house, &dir).await;
    pack_with_unrelated(house, &dir, &[]).await
}

/// A pack of these objects, and of something that has nothing to do with them.
pub(super) async fn pack_with_unrelated(house: &House, dir: &Path, oids: &[Oid]) -> Vec<u8> {
    let blob = says(house, dir, &["hash-object", "-w", "--stdin"], b"unrelated").await;
    let listing = format!("100644 blob {blob}\tfile\n");
    let tree = says(house, dir, &["mktree"], listing.as_bytes()).await;
    let commit = says(house, dir, &["commit-tree", "-m", "unrelated", &tree], b"").await;
    let wanted = oids.iter().map(|oid| oid.to_hex()).chain([commit]).collect::<Vec<_>>().join("\n");
    runs(house, dir, &["pack-objects", "--revs", "--stdout", "-q"], wanted.as_bytes()).await
}

/// An empty bare repository, if there is none yet.
pub(super) async fn makes(house: &House, dir: &Path) {
    let mut command = house.git.command(house.home.path());
    command.args(["init", "-q", "--bare", "-b", "main"]).arg(dir);
    fed(command, b"").await.expect("git runs");
}

async fn says(house: &House, dir: &Path, args: &[&str], input: &[u8]) -> String {
    let said = runs(house, dir, args, input).await;
    String::from_utf8_lossy(&said).trim_end().to_owned()
}

async fn runs(house: &House, dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = house.git.command(house.home.path());
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.com"]);
    command.arg("--git-dir").arg(dir).args(args);
    fed(command, input).await.expect("git runs")
}

/// What a command says about its input, however it ends.
pub(super) async fn fed(mut command: Command, input: &[u8]) -> io::Result<Vec<u8>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().expect("its input is piped");
    let feeding = async move {
        // One that needs no more input may be gone before it read all of it.
        let _ = stdin.write_all(input).await;
    };
    let ((), ended) = tokio::join!(feeding, child.wait_with_output());
    Ok(ended?.stdout)
}
