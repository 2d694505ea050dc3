//! The data directories: ours alone, marked as ours, and locked while we run. Nothing found there
//! that is not ours is touched, and a missing key beside existing data is never replaced.

use anyhow::{Context, Result, bail};
use grasp_core::id::{Signature, decode_bech32, encode_bech32};
use grasp_core::{Event, EventId, Kind, PubKey, Tag, Timestamp};
use rustix::fs::{FlockOperation, flock};
use secp256k1::{Keypair, SecretKey};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const MARKER: &str = "GRASPD_FORMAT";
pub(crate) const LOCK: &str = "graspd.lock";
pub(crate) const KEY: &str = "relay-owner.nsec";
/// What may be found where a first start was cut short, and the two roots inside one another.
const FIRST_FILES: [&str; 6] =
    [LOCK, KEY, "relay-owner.partial", "GRASPD_FORMAT.partial", "git", "relay"];

/// What a data root holds; each has a format of its own.
#[derive(Debug, Clone, Copy)]
pub enum Root {
    Events,
    Git,
}

impl Root {
    pub(crate) const fn marker(self) -> &'static str {
        match self {
            Root::Events => "graspd events 1\n",
            Root::Git => "graspd git 1\n",
        }
    }
}

/// A claimed data root; the lock lasts as long as this value.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    root: Root,
    /// Nothing but our own first files was here.
    is_new: bool,
    _lock: File,
}

impl DataDir {
    /// Creates or opens a data root, refusing what is not ours or is in use.
    pub fn claim(path: &Path, root: Root) -> Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot create the data directory {}", path.display()))?;
        let is_new = check_marker(path, root)?;
        Ok(Self { path: path.to_owned(), root, is_new, _lock: lock(path)? })
    }

    /// Makes the directory ours for good. Comes after the key, so that a first start that is cut
    /// short can simply be repeated, and before any data.
    pub fn mark(&self) -> Result<()> {
        if self.is_new {
            write_durably(&self.path.join(MARKER), self.root.marker().as_bytes(), 0o644)?;
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The relay's own key: as configured, as stored, or created with a new directory.
    pub fn relay_key(&self, configured: Option<[u8; 32]>) -> Result<RelayKey> {
        if let Some(secret) = configured {
            return RelayKey::from_secret(secret);
        }
        let path = self.path.join(KEY);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let secret = decode_bech32("nsec", text.trim());
                let secret = secret.with_context(|| {
                    format!("{} does not hold an nsec; restore it from a backup", path.display())
                })?;
                RelayKey::from_secret(secret)
            }
            Err(why) if self.is_new && why.kind() == io::ErrorKind::NotFound => {
                let key = RelayKey::generate()?;
                let line = format!("{}\n", encode_bech32("nsec", &key.keypair.to_secret_bytes()));
                write_durably(&path, line.as_bytes(), 0o600)?;
                Ok(key)
            }
            Err(why) => bail!(
                "the relay key {} cannot be read ({why}), but there is data beside it. \
                 Restore the key from a backup, or set NGIT_RELAY_OWNER_NSEC to it; \
                 a new key would make this another relay",
                path.display()
            ),
        }
    }
}

/// The key this relay signs with and shows in NIP-11.
#[derive(Clone)]
pub struct RelayKey {
    keypair: Keypair,
    pub public: PubKey,
}

impl std::fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl RelayKey {
    pub fn generate() -> Result<Self> {
        let mut secret = [0; 32];
        File::open("/dev/urandom")
            .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut secret))
            .context("cannot read random bytes for a new relay key")?;
        Self::from_secret(secret)
    }

    /// The answer to another relay's challenge (NIP-42), and the only thing this key signs.
    pub fn answers(&self, relay: &str, challenge: &str, now: Timestamp) -> Event {
        let tag = |name: &str, value: &str| Tag(vec![name.to_owned(), value.to_owned()]);
        let mut event = Event {
            id: EventId::from_bytes([0; 32]),
            pubkey: self.public,
            created_at: now,
            kind: Kind::AUTH,
            tags: vec![tag("relay", relay), tag("challenge", challenge)],
            content: String::new(),
            sig: Signature::from_bytes([0; 64]),
        };
        event.id = event.hash();
        let sig = secp256k1::schnorr::sign_no_aux_rand(event.id.as_bytes(), &self.keypair);
        event.sig = Signature::from_bytes(sig.to_byte_array());
        event
    }

    pub fn from_secret(secret: [u8; 32]) -> Result<Self> {
        let secret = SecretKey::from_secret_bytes(secret).context("the relay key is not valid")?;
        let keypair = Keypair::from_secret_key(&secret);
        let public = PubKey::from_bytes(keypair.x_only_public_key().0.to_byte_array());
        Ok(Self { keypair, public })
    }
}

/// True if the directory is new: empty but for files that a first start leaves when cut short.
fn check_marker(path: &Path, root: Root) -> Result<bool> {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(found) if found == root.marker() => return Ok(false),
        Ok(found) => bail!(
            "{} says it holds `{}`, but this program reads `{}`",
            path.join(MARKER).display(),
            found.trim(),
            root.marker().trim()
        ),
        Err(_) => {}
    }
    let stranger = stranger_in(path).with_context(|| format!("cannot list {}", path.display()))?;
    if let Some(name) = stranger {
        bail!(
            "{} is not empty and was not made by graspd (found `{name}`). \
             Choose an empty directory; graspd does not adopt another server's data",
            path.display(),
        );
    }
    Ok(true)
}

/// Something that no first start of ours leaves.
pub(crate) fn stranger_in(path: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !FIRST_FILES.iter().any(|ours| name == *ours) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// A git process that a killed server was about to start keeps the lock until it has started, so
/// the lock is tried again this often, with `LOCK_RETRY_GAP` between.
const LOCK_RETRIES_MAX: u32 = 100;
const LOCK_RETRY_GAP: Duration = Duration::from_millis(20);

fn lock(path: &Path) -> Result<File> {
    for _ in 0..LOCK_RETRIES_MAX {
        if let Ok(lock) = try_lock(path) {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_RETRY_GAP);
    }
    try_lock(path)
}

pub(crate) fn try_lock(path: &Path) -> Result<File> {
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join(LOCK))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!(
            "another graspd is already using {}. Stop it first, or give this one another \
             NGIT_RELAY_DATA_PATH",
            path.display()
        );
    }
    Ok(lock)
}

/// Whole or not at all, and on the disk when it returns.
fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let write = || -> io::Result<()> {
        let partial = path.with_extension("partial");
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_made_once_with_the_directory_and_never_replaced() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().join("relay");
        let first = DataDir::claim(&root, Root::Events).unwrap();
        let key = first.relay_key(None).unwrap().public;
        first.mark().unwrap();
        let mode = fs::metadata(root.join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(first);
        let again = DataDir::claim(&root, Root::Events).unwrap();
        assert!(!again.is_new);
        assert_eq!(again.relay_key(None).unwrap().public, key);
        fs::remove_file(root.join(KEY)).unwrap();
        let refusal = again.relay_key(None).unwrap_err().to_string();
        assert!(refusal.contains("Restore the key"), "{refusal}");
        assert!(!root.join(KEY).exists());
    }

    #[test]
    fn a_second_process_is_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let _first = DataDir::claim(tmp.path(), Root::Events).unwrap();
        let refusal = DataDir::claim(tmp.path(), Root::Events).unwrap_err().to_string();
        assert!(refusal.contains("another graspd is already using"), "{refusal}");
    }

    #[test]
    fn a_strangers_directory_is_left_alone() {
        let tmp = tempfile::tempdir().unwrap();
        fs::write(tmp.path().join("data.mdb"), "x").unwrap();
        let refusal = DataDir::claim(tmp.path(), Root::Events).unwrap_err().to_string();
        assert!(refusal.contains("not made by graspd"), "{refusal}");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_marker_tells_events_from_git_and_old_from_new() {
        let tmp = tempfile::tempdir().unwrap();
        DataDir::claim(tmp.path(), Root::Events).unwrap().mark().unwrap();
        let refusal = DataDir::claim(tmp.path(), Root::Git).unwrap_err().to_string();
        assert!(refusal.contains("graspd events 1"), "{refusal}");
    }
}
