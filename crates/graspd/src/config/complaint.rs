//! Where a value came from, and what is wrong with it. A complaint names the setting as the operator
//! wrote it, so that it can be found; it never repeats a secret.

use super::setting::Setting;
use std::fmt;
use std::path::PathBuf;

/// The five layers, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    Flag,
    Environment,
    DotEnv { path: PathBuf, line: usize },
    File(PathBuf),
    Default,
}

impl Layer {
    /// The setting, spelled as in that place.
    pub fn spelling(&self, setting: &Setting) -> String {
        match self {
            Self::Flag => format!("--{}", setting.flag),
            Self::File(_) => setting.key.to_owned(),
            Self::Environment | Self::DotEnv { .. } | Self::Default => setting.name.to_owned(),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("command line"),
            Self::Environment => f.write_str("environment"),
            Self::DotEnv { path, line } => write!(f, "{} line {line}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} ({layer}): {problem}; {fix}")]
pub struct Complaint {
    /// As written: a variable, a flag or a key; `line 7` where no name could be read.
    pub setting: String,
    pub layer: Layer,
    pub problem: String,
    pub fix: String,
}

impl Complaint {
    pub fn about(setting: &Setting, layer: &Layer, problem: String, fix: String) -> Self {
        Self { setting: layer.spelling(setting), layer: layer.clone(), problem, fix }
    }
}
