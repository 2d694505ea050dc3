//! The relay owner's secret key, as far as it is configured: its spelling, and which place goes
//! first. A key that was given but cannot be used is an error, never a reason to look further: a
//! server must not change its identity because of a typing mistake. The key file is not known here.

use super::build::Config;
use grasp_core::id::{decode_bech32, hex_decode};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Order of secp256k1: secret keys are below it and not zero.
const CURVE_ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];

/// Name of the systemd credential.
const CREDENTIAL: &str = "relay_owner_nsec";

/// A usable secret key. Prints as nothing at all.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerSecret([u8; 32]);

impl OwnerSecret {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for OwnerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerSecret(hidden)")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a secret key")]
pub struct NotASecret;

impl FromStr for OwnerSecret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        let text = text.trim();
        let bytes = decode_bech32("nsec", text).or_else(|| hex_decode(&text.to_ascii_lowercase()));
        let usable = |bytes: &[u8; 32]| *bytes != [0; 32] && *bytes < CURVE_ORDER;
        bytes.filter(usable).map(Self).ok_or(NotASecret)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BadOwnerKey {
    #[error("{} holds no usable secret key; put an nsec or 64 hex characters there", .0.display())]
    Unusable(PathBuf),
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
}

/// The systemd credential, else `NGIT_RELAY_OWNER_NSEC`, else nothing: then the key file in the data
/// directory counts. `read` answers `None` for a file that does not exist.
pub fn configured_owner_key(
    config: &Config,
    read: impl Fn(&Path) -> io::Result<Option<String>>,
) -> Result<Option<OwnerSecret>, BadOwnerKey> {
    let Some(directory) = &config.credentials_directory else {
        return Ok(config.owner_secret.clone());
    };
    let path = directory.join(CREDENTIAL);
    match read(&path) {
        Ok(Some(text)) => match text.parse() {
            Ok(secret) => Ok(Some(secret)),
            Err(NotASecret) => Err(BadOwnerKey::Unusable(path)),
        },
        Ok(None) => Ok(config.owner_secret.clone()),
        Err(error) => Err(BadOwnerKey::Unreadable { path, error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RawConfig, Sources};

    fn config(variables: &[(&str, &str)]) -> Config {
        let env = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Config::build(&RawConfig::gather(Sources { env, ..Sources::default() })).unwrap()
    }

    /// The first byte of the key found, with this in the credential's file.
    fn found(config: &Config, credential: Option<&str>) -> Result<Option<u8>, BadOwnerKey> {
        let read = |path: &Path| {
            assert_eq!(path, Path::new("/run/cred/relay_owner_nsec"));
            Ok(credential.map(str::to_owned))
        };
        Ok(configured_owner_key(config, read)?.map(|secret| secret.as_bytes()[0]))
    }

    #[test]
    fn the_credential_goes_before_the_variable() {
        let (ones, twos) = ("11".repeat(32), "22".repeat(32));
        let systemd = ("CREDENTIALS_DIRECTORY", "/run/cred");
        let variable = ("NGIT_RELAY_OWNER_NSEC", twos.as_str());
        assert_eq!(found(&config(&[systemd, variable]), Some(&ones)).unwrap(), Some(0x11));
        assert_eq!(found(&config(&[systemd, variable]), None).unwrap(), Some(0x22));
        assert_eq!(found(&config(&[variable]), Some(&ones)).unwrap(), Some(0x22));
        assert_eq!(found(&config(&[systemd]), None).unwrap(), None);
    }

    #[test]
    fn an_unusable_credential_stops_instead_of_falling_through() {
        let twos = "22".repeat(32);
        let variables =
            [("CREDENTIALS_DIRECTORY", "/run/cred"), ("NGIT_RELAY_OWNER_NSEC", twos.as_str())];
        let error = found(&config(&variables), Some("")).unwrap_err().to_string();
        assert!(error.contains("/run/cred/relay_owner_nsec"), "{error}");
    }

    #[test]
    fn a_secret_is_an_nsec_or_hex_within_the_curve() {
        let nsec = grasp_core::id::encode_bech32("nsec", &[7; 32]);
        assert_eq!(nsec.parse::<OwnerSecret>(), Ok(OwnerSecret([7; 32])));
        assert_eq!(format!("{}\n", "aB".repeat(32)).parse(), Ok(OwnerSecret([0xab; 32])));
        for bad in ["", "nsec1", &"00".repeat(32), &"ff".repeat(32), &"11".repeat(31)] {
            assert!(bad.parse::<OwnerSecret>().is_err(), "{bad}");
        }
        assert!(!format!("{:?}", OwnerSecret([7; 32])).contains('7'));
    }
}
