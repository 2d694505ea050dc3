//! Findings for a person, or for a program.

use super::{Check, Outcome};
use crate::ops::print::{Sheet, Tone, toned};
use crate::ops::terminal::print_line;
use crate::report::text::shown;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    check: &'static str,
    /// `null` where it could not be looked at.
    ok: Option<bool>,
    said: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

const WORDS_MAX: usize = 1_000;

pub(super) fn print(checks: &[Check], json: bool) -> Result<()> {
    if json {
        let checks: Vec<Line> = checks.iter().map(line).collect();
        let ok = checks.iter().all(|check| check.ok != Some(false));
        return print_line(&serde_json::to_string(&Report { ok, checks })?);
    }
    let mut sheet = Sheet::for_stdout();
    checks.iter().for_each(|check| lay_out(&mut sheet, check));
    let wrong = checks.iter().filter(|it| matches!(it.outcome, Outcome::Wrong { .. })).count();
    match wrong {
        0 => sheet.toned_line("nothing is wrong", Tone::Good),
        1 => sheet.toned_line("1 thing is wrong", Tone::Bad),
        more => sheet.toned_line(&format!("{more} things are wrong"), Tone::Bad),
    }
    sheet.print()
}

fn line(check: &Check) -> Line {
    let clean = |text: &String| shown(text, WORDS_MAX);
    let (ok, said, advice) = match &check.outcome {
        Outcome::Fine(said) => (Some(true), said, None),
        Outcome::Skipped(said) => (None, said, None),
        Outcome::Wrong { wrong, why, fix } => (Some(false), wrong, Some((why, fix))),
    };
    Line {
        check: check.name,
        ok,
        said: clean(said),
        why: advice.map(|(why, _)| clean(why)),
        fix: advice.map(|(_, fix)| clean(fix)),
    }
}

fn lay_out(sheet: &mut Sheet, check: &Check) {
    let (mark, tone, said) = match &check.outcome {
        Outcome::Fine(said) => ("ok", Tone::Good, said),
        Outcome::Skipped(said) => ("not checked", Tone::Unsure, said),
        Outcome::Wrong { wrong, .. } => ("wrong", Tone::Bad, wrong),
    };
    sheet.toned_pair(mark, &toned(format!("{}: {said}", check.name), tone));
    if let Outcome::Wrong { why, fix, .. } = &check.outcome {
        sheet.pair("  matters as", why);
        sheet.pair("  do this", fix);
    }
}
