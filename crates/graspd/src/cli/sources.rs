//! Reads the places a configuration comes from. A file that is not there is nothing to complain
//! about, unless it was asked for by name; everything else is left to `config` to judge.

use super::command::CONFIG;
use crate::config::{SETTINGS, Sources};
use clap::ArgMatches;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(super) fn read(
    matches: &ArgMatches,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    cwd: &Path,
) -> Sources {
    let flags = SETTINGS.iter().filter(|setting| setting.has_flag()).filter_map(|setting| {
        matches.get_one::<String>(setting.name).map(|text| (*setting, text.clone()))
    });
    Sources {
        flags: flags.collect(),
        env: env.into_iter().collect(),
        dotenv: read_if_present(cwd.join(".env")),
        file: match matches.get_one::<PathBuf>(CONFIG) {
            Some(path) => Some(read_file(cwd.join(path))),
            None => read_if_present(cwd.join("graspd.toml")),
        },
    }
}

type TextFile = (PathBuf, Result<String, String>);

fn read_file(path: PathBuf) -> TextFile {
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}"));
    (path, text)
}

fn read_if_present(path: PathBuf) -> Option<TextFile> {
    let absent = fs::metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    (!absent).then(|| read_file(path))
}
