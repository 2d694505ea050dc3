//! Reads typed values out of a raw configuration and collects what is wrong with them. Every setting
//! is parsed exactly once, built or not. After a complaint a placeholder is handed out; it is never
//! used, because one complaint is enough for `Config::build` to fail.

use super::complaint::{Complaint, Layer};
use super::raw::{RawConfig, RawValue};
use super::setting::{Fallback, Form, Part, Setting, Unit};
use super::table::SETTINGS;
use super::value::{self, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Reader<'raw> {
    raw: &'raw RawConfig,
    values: BTreeMap<&'static str, Value>,
    /// Built settings nobody has asked for yet. None must be left at the end.
    unread: BTreeSet<&'static str>,
    complaints: Vec<Complaint>,
}

impl<'raw> Reader<'raw> {
    pub(super) fn new(raw: &'raw RawConfig) -> Self {
        let built = SETTINGS.iter().filter(|setting| setting.part == Part::Built);
        let mut reader = Self {
            raw,
            values: BTreeMap::new(),
            unread: built.map(|setting| setting.name).collect(),
            complaints: raw.complaints.clone(),
        };
        SETTINGS.iter().for_each(|setting| reader.parse(setting));
        reader
    }

    fn parse(&mut self, setting: &'static Setting) {
        let RawValue { text, layer } = self.raw.get(setting);
        match value_of(setting, &text, &layer) {
            Ok(value) => {
                self.refuse_unless_built(setting, &value, &layer);
                self.values.insert(setting.name, value);
            }
            Err(problem) => {
                let fix = setting.form.advice();
                self.complaints.push(Complaint::about(setting, &layer, problem, fix));
            }
        }
    }

    fn refuse_unless_built(&mut self, setting: &Setting, value: &Value, layer: &Layer) {
        let Part::NotBuilt(part) = setting.part else { return };
        let default = value_of(setting, setting.default.text(), &Layer::Default);
        if default.as_ref() == Ok(value) {
            return;
        }
        let problem = format!("asks for {part}, which this version does not have");
        let fix = match setting.default.text() {
            "" => "remove it".to_owned(),
            default => format!("remove it or leave it at `{default}`"),
        };
        self.complaints.push(Complaint::about(setting, layer, problem, fix));
    }

    pub(super) fn complain(&mut self, setting: &Setting, problem: String, fix: String) {
        let layer = self.raw.get(setting).layer;
        self.complaints.push(Complaint::about(setting, &layer, problem, fix));
    }

    /// Two numbers that only make sense in this order.
    pub(super) fn at_most(&mut self, small: &'static Setting, large: &'static Setting) {
        let (Some(Value::Number(low)), Some(Value::Number(high))) =
            (self.values.get(small.name), self.values.get(large.name))
        else {
            return;
        };
        if low > high {
            let problem = format!("`{low}` is more than {} allows (`{high}`)", large.name);
            let fix = format!("lower it or raise {}", large.name);
            self.complain(small, problem, fix);
        }
    }

    /// The value if it was given and is sound.
    pub(super) fn given<T>(
        &mut self,
        setting: &'static Setting,
        pick: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        self.unread.remove(setting.name);
        match self.values.get(setting.name)? {
            Value::Unset => None,
            value => {
                let picked = pick(value);
                if picked.is_none() {
                    let (problem, fix) = ("is read as another form", "report this defect");
                    self.complain(setting, problem.to_owned(), fix.to_owned());
                }
                picked
            }
        }
    }

    pub(super) fn number(&mut self, setting: &'static Setting) -> u64 {
        self.given(setting, as_number).unwrap_or_default()
    }

    pub(super) fn count(&mut self, setting: &'static Setting) -> usize {
        self.count_if_set(setting).unwrap_or_default()
    }

    pub(super) fn count_if_set(&mut self, setting: &'static Setting) -> Option<usize> {
        self.given(setting, as_number).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// For settings whose range fits.
    pub(super) fn small(&mut self, setting: &'static Setting) -> u32 {
        u32::try_from(self.number(setting)).unwrap_or(u32::MAX)
    }

    /// In the unit the setting is named after.
    pub(super) fn duration(&mut self, setting: &'static Setting) -> Duration {
        let number = self.number(setting);
        match setting.form {
            Form::Number { unit: Unit::Millis, .. } => Duration::from_millis(number),
            Form::Number { unit: Unit::Hours, .. } => {
                Duration::from_secs(number.saturating_mul(3_600))
            }
            _ => Duration::from_secs(number),
        }
    }

    pub(super) fn flag(&mut self, setting: &'static Setting) -> bool {
        let pick = |value: &Value| if let Value::Bool(flag) = value { Some(*flag) } else { None };
        self.given(setting, pick).unwrap_or_default()
    }

    pub(super) fn text(&mut self, setting: &'static Setting) -> String {
        self.text_if_set(setting).unwrap_or_default()
    }

    pub(super) fn text_if_set(&mut self, setting: &'static Setting) -> Option<String> {
        self.given(setting, |value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    #[cfg(test)]
    pub(super) fn unread(&self) -> impl Iterator<Item = &'static str> {
        self.unread.iter().copied()
    }

    pub(super) fn finish(self) -> Vec<Complaint> {
        self.complaints
    }
}

/// An empty text means "not set" where that is the default; a secret, once given, must be one.
fn value_of(setting: &Setting, text: &str, layer: &Layer) -> Result<Value, String> {
    let unset = matches!(setting.default, Fallback::Unset(_)) && text.trim().is_empty();
    let given = *layer != Layer::Default;
    if unset && !(setting.is_secret() && given) {
        return Ok(Value::Unset);
    }
    value::parse(setting.form, text)
}

fn as_number(value: &Value) -> Option<u64> {
    if let Value::Number(number) = value { Some(*number) } else { None }
}
