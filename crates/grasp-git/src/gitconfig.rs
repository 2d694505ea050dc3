//! The settings every git child gets, whatever repository it works on: one generated file, named by
//! `GIT_CONFIG_GLOBAL`, so that arguments stay short. Nothing in it comes from a client.

use crate::durable;
use crate::layout::Layout;
use crate::process::Version;
use std::io;

/// From here on `safe.directory` understands `/*`; before, it is one directory or all.
const SAFE_BELOW: Version = Version { major: 2, minor: 46, patch: 0 };

/// Names are asserted by behaviour in `tests/process.rs`: git ignores a setting it does not know.
const SETTINGS: &str = r#"
	bareRepository = explicit
[core]
	hooksPath = /dev/null
	fsmonitor = false
	sshCommand = /bin/false
	askPass = /bin/false
	gitProxy =
	alternateRefsCommand = "exit 0 #"
	logAllRefUpdates = false
	useReplaceRefs = false
	precomposeUnicode = false
	protectHFS = true
	protectNTFS = true
	fsync = objects,derived-metadata,reference
	fsyncMethod = fsync
	multiPackIndex = true
	bigFileThreshold = 32m
	packedGitLimit = 256m
	packedGitWindowSize = 32m
	deltaBaseCacheLimit = 64m
[protocol]
	allow = never
[credential]
	helper =
[gc]
	auto = 0
	autoDetach = false
[maintenance]
	auto = false
[init]
	templateDir =
[fsck]
	badTimezone = ignore
	missingSpaceBeforeDate = ignore
	zeroPaddedFilemode = ignore
[transfer]
	fsckObjects = true
	credentialsInUrl = die
	bundleURI = false
	advertiseSID = false
	advertiseObjectInfo = false
[uploadpack]
	allowFilter = true
	allowTipSHA1InWant = true
	allowReachableSHA1InWant = true
	keepAlive = 5
	hideRefs = refs/internal
[uploadpackfilter]
	allow = false
[uploadpackfilter "blob:none"]
	allow = true
[uploadpackfilter "blob:limit"]
	allow = true
[uploadpackfilter "tree"]
	allow = true
	maxDepth = 0
[lsrefs]
	unborn = ignore
[pack]
	threads = 1
	window = 5
	windowMemory = 64m
	deltaCacheSize = 32m
	allowPackReuse = true
	writeReverseIndex = true
	writeBitmapLookupTable = true
[repack]
	updateServerInfo = false
"#;

/// Written anew at every start, so that a file someone changed does not stay.
pub(crate) fn write(layout: &Layout, version: Version) -> io::Result<()> {
    let beside = layout.tmp().join("gitconfig");
    durable::replace(&layout.gitconfig(), &beside, text(layout, version).as_bytes(), 0o444)
}

fn text(layout: &Layout, version: Version) -> String {
    // Children are only ever sent to directories of the layout.
    let safe = if version < SAFE_BELOW {
        "*".to_owned()
    } else {
        format!("{}/*", layout.root().display())
    };
    format!("[safe]\n\tdirectory = {}{SETTINGS}", quoted(&safe))
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_with_quotes_stays_one_value() {
        let layout = Layout::new("/srv/a\"b\\c #d".into());
        let text = text(&layout, SAFE_BELOW);
        assert!(text.starts_with("[safe]\n\tdirectory = \"/srv/a\\\"b\\\\c #d/*\"\n\tbare"));
    }
}
