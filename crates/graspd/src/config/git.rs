//! The limits of the git host as plain numbers, and where its program is. Nothing is enforced here
//! beyond their making sense together; nobody's `PATH` is read, it is handed in.

use super::reader::Reader;
use super::table::*;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitLimits {
    /// `None`: to be found on `PATH`, see [`GitLimits::program`].
    pub binary: Option<PathBuf>,
    pub pack_bytes_max: u64,
    /// Also the bound of one object in such a pack.
    pub proposal_pack_bytes_max: u64,
    pub object_bytes_max: u64,
    pub objects_max: u32,
    /// Commands of one push.
    pub refs_max: usize,
    /// Of a fetch, inflated.
    pub request_bytes_max: usize,
    pub timeout: Duration,
    /// `None`: by the number of cores.
    pub uploads_max: Option<usize>,
    pub pushes_max: Option<usize>,
    pub uploads_per_ip_max: u32,
    pub pushes_per_ip_max: u32,
    pub requests_per_minute_per_ip: u32,
    pub queue_wait: Duration,
    pub unclaimed: UnclaimedLimits,
    /// Zero: packs are never refused for want of space.
    pub free_bytes_min: u64,
}

/// Uploads below `refs/nostr` whose event is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclaimedLimits {
    pub bytes_per_ip_max: u64,
    pub bytes_per_repository_max: u64,
    pub bytes_total_max: u64,
    pub per_repository_max: u64,
    pub per_ip_per_hour: u32,
    pub kept: Duration,
}

impl GitLimits {
    pub(super) fn read(from: &mut Reader<'_>, binary: Option<PathBuf>) -> Self {
        from.at_most(&NGIT_GIT_MAX_PROPOSAL_PACK_BYTES, &NGIT_GIT_MAX_PACK_BYTES);
        from.at_most(&NGIT_GIT_MAX_UNCLAIMED_BYTES_PER_IP, &NGIT_GIT_MAX_UNCLAIMED_BYTES_TOTAL);
        let per_repository = &NGIT_GIT_MAX_UNCLAIMED_BYTES_PER_REPOSITORY;
        from.at_most(per_repository, &NGIT_GIT_MAX_UNCLAIMED_BYTES_TOTAL);
        Self {
            binary,
            pack_bytes_max: from.number(&NGIT_GIT_MAX_PACK_BYTES),
            proposal_pack_bytes_max: from.number(&NGIT_GIT_MAX_PROPOSAL_PACK_BYTES),
            object_bytes_max: from.number(&NGIT_GIT_MAX_OBJECT_BYTES),
            objects_max: from.small(&NGIT_GIT_MAX_OBJECTS),
            refs_max: from.count(&NGIT_GIT_MAX_REFS),
            request_bytes_max: from.count(&NGIT_GIT_MAX_REQUEST_BYTES),
            timeout: from.duration(&NGIT_GIT_TIMEOUT_SECS),
            uploads_max: from.count_if_set(&NGIT_GIT_MAX_UPLOADS),
            pushes_max: from.count_if_set(&NGIT_GIT_MAX_PUSHES),
            uploads_per_ip_max: from.small(&NGIT_GIT_MAX_UPLOADS_PER_IP),
            pushes_per_ip_max: from.small(&NGIT_GIT_MAX_PUSHES_PER_IP),
            requests_per_minute_per_ip: from.small(&NGIT_GIT_REQUESTS_PER_MINUTE_PER_IP),
            queue_wait: from.duration(&NGIT_GIT_QUEUE_SECS),
            unclaimed: UnclaimedLimits {
                bytes_per_ip_max: from.number(&NGIT_GIT_MAX_UNCLAIMED_BYTES_PER_IP),
                bytes_per_repository_max: from.number(per_repository),
                bytes_total_max: from.number(&NGIT_GIT_MAX_UNCLAIMED_BYTES_TOTAL),
                per_repository_max: from.number(&NGIT_GIT_MAX_UNCLAIMED_PER_REPOSITORY),
                per_ip_per_hour: from.small(&NGIT_GIT_MAX_UNCLAIMED_PER_IP_PER_HOUR),
                kept: from.duration(&NGIT_GIT_UNCLAIMED_SECS),
            },
            free_bytes_min: from.number(&NGIT_GIT_MIN_FREE_BYTES),
        }
    }

    /// The program to run, as an absolute path. Relative entries of `PATH` are passed over: they
    /// mean something else in every working directory.
    pub fn program(
        &self,
        search_path: Option<&OsStr>,
        exists: impl Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        if let Some(binary) = &self.binary {
            return Some(binary.clone());
        }
        let directories = search_path.map(std::env::split_paths).into_iter().flatten();
        let usual = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
        let absolute = directories.chain(usual).filter(|directory| directory.is_absolute());
        absolute.map(|directory| directory.join("git")).find(|program| exists(program))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, RawConfig, Sources};
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};

    #[test]
    fn git_is_found_once_and_by_an_absolute_path() {
        let git = Config::build(&RawConfig::default()).unwrap().git;
        let at = |path: &str, there: &'static str| {
            git.program(Some(OsStr::new(path)), |program| program == Path::new(there))
        };
        assert_eq!(at("/a:/b:/usr/bin", "/b/git"), Some(PathBuf::from("/b/git")));
        assert_eq!(at("bin:.:", "/usr/bin/git"), Some(PathBuf::from("/usr/bin/git")));
        assert_eq!(at("bin", "bin/git"), None, "a relative entry is nobody's");
        assert_eq!(git.program(None, |_| false), None);
    }

    #[test]
    fn a_configured_git_goes_before_path_and_must_be_absolute() {
        let with = |value: &str| {
            let flags = vec![(&super::NGIT_GIT_BINARY, value.to_owned())];
            Config::build(&RawConfig::gather(Sources { flags, ..Sources::default() }))
        };
        let git = with("/opt/git/bin/git").unwrap().git;
        let program = git.program(Some(OsStr::new("/usr/bin")), |_| true);
        assert_eq!(program, Some(PathBuf::from("/opt/git/bin/git")));
        let complaints = with("bin/git").unwrap_err();
        assert!(complaints.iter().any(|it| it.to_string().contains("absolute")), "{complaints:?}");
    }
}
