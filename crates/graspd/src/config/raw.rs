//! The textual configuration: for each setting the strongest value and where it came from. It judges
//! names, not values. What could not be read at all is kept as a complaint, so that one start
//! reports it together with everything `Config::build` finds.

use super::complaint::{Complaint, Layer};
use super::dotenv;
use super::names::{Meaning, meaning, nearest};
use super::setting::Setting;
use super::table::by_key;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::Value as Toml;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue {
    pub text: String,
    pub layer: Layer,
}

/// Everything that was read, before anything is made of it.
#[derive(Debug, Default)]
pub struct Sources {
    pub flags: Vec<(&'static Setting, String)>,
    pub env: Vec<(OsString, OsString)>,
    /// A file and its text, or why it could not be read.
    pub dotenv: Option<(PathBuf, Result<String, String>)>,
    pub file: Option<(PathBuf, Result<String, String>)>,
}

// Not `Debug`: an owner's key may be among the values.
#[derive(Clone, Default)]
pub struct RawConfig {
    values: BTreeMap<&'static str, RawValue>,
    pub(super) complaints: Vec<Complaint>,
    /// For the log: old and unknown names that were ignored.
    pub(super) notes: Vec<String>,
    pub(super) credentials_directory: Option<PathBuf>,
}

impl std::fmt::Debug for RawConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.values.keys().collect();
        f.debug_struct("RawConfig").field("set", &names).finish_non_exhaustive()
    }
}

impl RawConfig {
    /// Weakest first: each layer overwrites what lies below it.
    pub fn gather(sources: Sources) -> Self {
        let mut raw = Self::default();
        if let Some((path, text)) = sources.file {
            match text {
                Ok(text) => raw.read_file(&path, &text),
                Err(error) => raw.unreadable(path, error),
            }
        }
        if let Some((path, text)) = sources.dotenv {
            match text {
                Ok(text) => raw.read_dotenv(&path, &text),
                Err(error) => raw.unreadable(path, error),
            }
        }
        for (name, value) in sources.env {
            raw.read_variable(&name, value);
        }
        for (setting, text) in sources.flags {
            raw.values.insert(setting.name, RawValue { text, layer: Layer::Flag });
        }
        raw
    }

    /// The effective text, be it given or the default.
    pub fn get(&self, setting: &Setting) -> RawValue {
        let default =
            || RawValue { text: setting.default.text().to_owned(), layer: Layer::Default };
        self.values.get(setting.name).cloned().unwrap_or_else(default)
    }

    fn unreadable(&mut self, path: PathBuf, error: String) {
        let (setting, layer) = ("configuration".to_owned(), Layer::File(path));
        let fix = "make it a readable text file, or do without it".to_owned();
        self.complaints.push(Complaint { setting, layer, problem: error, fix });
    }

    fn read_variable(&mut self, name: &OsString, value: OsString) {
        let Some(name) = name.to_str() else { return };
        if name == "CREDENTIALS_DIRECTORY" {
            self.credentials_directory = Some(PathBuf::from(value));
        } else if name.starts_with(PREFIX) {
            match value.into_string() {
                Ok(text) => self.assign(name, text, Layer::Environment),
                Err(_) => self.complaints.push(Complaint {
                    setting: name.to_owned(),
                    layer: Layer::Environment,
                    problem: "is not valid UTF-8".to_owned(),
                    fix: "write it as plain text".to_owned(),
                }),
            }
        }
    }

    fn read_dotenv(&mut self, path: &Path, text: &str) {
        // The file may serve other programs too: only our own names are our business.
        let lines = dotenv::parse(text).into_iter().filter(|line| line.name.starts_with(PREFIX));
        let mut seen = BTreeMap::new();
        for line in lines {
            let layer = Layer::DotEnv { path: path.to_owned(), line: line.number };
            let earlier = seen.insert(line.name.clone(), line.number);
            let value = match earlier {
                Some(_) => Err("was set already by a line above"),
                None => line.value,
            };
            match value {
                Ok(text) => self.assign(&line.name, text, layer),
                Err(problem) => self.complaints.push(Complaint {
                    setting: line.name,
                    layer,
                    problem: problem.to_owned(),
                    fix: "write one `NAME=value` line, quoted if it contains ` #`".to_owned(),
                }),
            }
        }
    }

    /// A variable, from either environment.
    fn assign(&mut self, name: &str, text: String, layer: Layer) {
        match meaning(name) {
            Meaning::Known(setting) => {
                self.values.insert(setting.name, RawValue { text, layer });
            }
            Meaning::Dead => self.notes.push(format!(
                "{name} ({layer}) is a setting of older servers and has no effect any more"
            )),
            Meaning::Misspelt(meant) => self.complaints.push(Complaint {
                setting: name.to_owned(),
                layer,
                problem: "is not a setting".to_owned(),
                fix: format!("did you mean {}?", meant.name),
            }),
            Meaning::Foreign => {
                self.notes.push(format!("{name} ({layer}) is not a setting and is ignored"));
            }
        }
    }

    fn read_file(&mut self, path: &Path, text: &str) {
        let layer = Layer::File(path.to_owned());
        match text.parse::<toml::Table>() {
            Ok(table) => table.iter().for_each(|(key, value)| self.read_key(key, value, &layer)),
            // Not the error's own display: that quotes the line, and with it perhaps a secret.
            Err(error) => {
                let start = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
                self.complaints.push(Complaint {
                    setting: format!("line {}", start.matches('\n').count() + 1),
                    layer,
                    problem: format!("is not TOML: {}", error.message()),
                    fix: "write `key = value` lines, with text in quotes".to_owned(),
                });
            }
        }
    }

    fn read_key(&mut self, key: &str, value: &Toml, layer: &Layer) {
        let refuse = |problem: &str, fix: String| Complaint {
            setting: key.to_owned(),
            layer: layer.clone(),
            problem: problem.to_owned(),
            fix,
        };
        let Some(setting) = by_key(key) else {
            let fix = match nearest(key, |setting| setting.key) {
                Some(meant) => format!("did you mean `{}`?", meant.key),
                None => "see docs/configuration.md for the keys there are".to_owned(),
            };
            return self.complaints.push(refuse("is not a setting", fix));
        };
        if setting.is_secret() {
            let fix = format!("use the environment variable {} instead", setting.name);
            return self.complaints.push(refuse("is a secret and may not stand in a file", fix));
        }
        match toml_text(value, setting.form.is_list()) {
            Some(text) => {
                self.values.insert(setting.name, RawValue { text, layer: layer.clone() });
            }
            None => self
                .complaints
                .push(refuse("has a type that is not used here", setting.form.advice())),
        }
    }
}

const PREFIX: &str = "NGIT_";

/// A list becomes the comma form that every other layer uses, which is why no item may contain one.
fn toml_text(value: &Toml, list: bool) -> Option<String> {
    match value {
        Toml::String(text) => Some(text.clone()),
        Toml::Integer(number) => Some(number.to_string()),
        Toml::Boolean(flag) => Some(flag.to_string()),
        Toml::Array(items) if list => {
            let items = items.iter().map(Toml::as_str).collect::<Option<Vec<_>>>()?;
            let sound = items.iter().all(|item| !item.contains(','));
            sound.then(|| items.join(","))
        }
        Toml::Array(_) | Toml::Float(_) | Toml::Datetime(_) | Toml::Table(_) => None,
    }
}
