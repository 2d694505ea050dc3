//! Which git this is, and what is known to be wrong with it.

use std::fmt;

const OLDEST: Version = Version { major: 2, minor: 39, patch: 0 };
/// The first release of each series without the holes published up to July 2025.
const MENDED: [Version; 8] = [
    version(43, 7),
    version(44, 4),
    version(45, 4),
    version(46, 4),
    version(47, 3),
    version(48, 2),
    version(49, 1),
    version(50, 1),
];
const HOLES: &str = "CVE-2024-32002, CVE-2024-32004, CVE-2024-32465, CVE-2024-50349, \
                     CVE-2024-52006, CVE-2025-48384, CVE-2025-48385";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

const fn version(minor: u32, patch: u32) -> Version {
    Version { major: 2, minor, patch }
}

impl Version {
    /// From `git version 2.39.5 (Apple Git-154)` and its like.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let numbers = said.strip_prefix("git version ")?.split_whitespace().next()?;
        let mut parts = numbers.split(['.', '-']).map(str::parse);
        let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
        // A release candidate has no number here, and is older than the release.
        let patch = parts.next().and_then(Result::ok).unwrap_or(0);
        Some(Self { major, minor, patch })
    }

    pub(super) fn is_supported(self) -> bool {
        self >= OLDEST
    }

    /// A sentence for the operator, if this release has known holes.
    pub(super) fn warning(self) -> Option<String> {
        let series = |it: &&Self| (it.major, it.minor) == (self.major, self.minor);
        let mended = match MENDED.iter().find(series) {
            Some(mended) => *mended,
            None => MENDED.into_iter().min()?,
        };
        (self < mended).then(|| {
            format!(
                "git {self} is older than {mended} and has known holes ({HOLES}) unless your \
                 distribution mended them; this server keeps clear of them, but newer is better"
            )
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        for (said, expected) in [
            ("git version 2.39.5", Some(version(39, 5))),
            ("git version 2.39.5 (Apple Git-154)\n", Some(version(39, 5))),
            ("git version 2.47.3.windows.1", Some(version(47, 3))),
            ("git version 2.51.0-rc1", Some(version(51, 0))),
            ("git version 2.51-rc1", Some(version(51, 0))),
            ("hub version 2.14", None),
            ("git version two", None),
        ] {
            assert_eq!(Version::parse(said), expected, "{said}");
        }
    }

    #[test]
    fn releases_with_known_holes_are_named() {
        for (it, warned) in [
            (version(39, 5), true),
            (version(43, 6), true),
            (version(43, 7), false),
            (version(47, 2), true),
            (version(47, 3), false),
            (version(50, 0), true),
            (version(51, 0), false),
        ] {
            assert_eq!(it.warning().is_some(), warned, "{it}");
        }
        assert!(!version(38, 9).is_supported() && version(39, 0).is_supported());
    }
}
