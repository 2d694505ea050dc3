//! Figures, each beside its floor and what is required of it.

use serde_json::{Value, json};
use std::fmt;

#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    figure: f64,
    unit: &'static str,
    floor: Option<(String, f64)>,
    required: Option<Required>,
}

#[derive(Debug)]
struct Required {
    text: String,
    met: bool,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, figure: f64, unit: &'static str) -> Self {
        Self { name: name.into(), figure, unit, floor: None, required: None }
    }

    pub(crate) fn beside(mut self, what: impl Into<String>, floor: f64) -> Self {
        self.floor = Some((what.into(), floor));
        self
    }

    pub(crate) fn below(mut self, limit: f64) -> Self {
        let met = self.figure < limit;
        self.required = Some(Required { text: format!("< {}", short(limit)), met });
        self
    }

    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        let met = self.figure <= limit;
        self.required = Some(Required { text: format!("<= {limit}"), met });
        self
    }

    pub(crate) fn at_least(mut self, limit: f64) -> Self {
        let met = self.figure >= limit;
        self.required = Some(Required { text: format!(">= {limit}"), met });
        self
    }

    /// Requirements on the figure as a share of its floor.
    pub(crate) fn at_most_share(mut self, share: f64) -> Self {
        let met = self.ratio().is_some_and(|ratio| ratio <= share);
        self.required = Some(Required { text: format!("ratio <= {share}"), met });
        self
    }

    pub(crate) fn at_least_share(mut self, share: f64) -> Self {
        let met = self.ratio().is_some_and(|ratio| ratio >= share);
        self.required = Some(Required { text: format!("ratio >= {share}"), met });
        self
    }

    fn ratio(&self) -> Option<f64> {
        self.floor.as_ref().map(|(_, floor)| self.figure / floor)
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "figure": self.figure,
            "unit": self.unit,
            "floor": self.floor.as_ref().map(|(what, figure)| json!({"what": what, "figure": figure})),
            "ratio": self.ratio(),
            "required": self.required.as_ref().map(|required| &required.text),
            "met": self.required.as_ref().map(|required| required.met),
        })
    }

    fn cells(&self) -> [String; 5] {
        let floor = self.floor.as_ref().map(|(what, floor)| format!("{what} {}", short(*floor)));
        let verdict = self.required.as_ref().map(|required| match required.met {
            true => format!("{}  ok", required.text),
            false => format!("{}  MISSED", required.text),
        });
        [
            self.name.clone(),
            format!("{} {}", short(self.figure), self.unit),
            floor.unwrap_or_default(),
            self.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            verdict.unwrap_or_default(),
        ]
    }
}

#[derive(Debug)]
pub(crate) struct Report {
    machine: String,
    judged: bool,
    rows: Vec<Row>,
    /// What a figure cannot say.
    notes: Vec<String>,
}

impl Report {
    /// Requirements are dropped from a report that is not judged.
    pub(crate) fn new(machine: String, judged: bool) -> Self {
        Self { machine, judged, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn add(&mut self, mut row: Row) {
        row.required = row.required.filter(|_| self.judged);
        let [name, figure, ..] = row.cells();
        eprintln!("  {name}: {figure}");
        self.rows.push(row);
    }

    pub(crate) fn note(&mut self, note: String) {
        eprintln!("  {note}");
        self.notes.push(note);
    }

    pub(crate) fn failed(&self) -> usize {
        let missed = |row: &&Row| row.required.as_ref().is_some_and(|required| !required.met);
        self.rows.iter().filter(missed).count()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "machine": self.machine,
            "judged": self.judged,
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "notes": self.notes,
            "missed": self.failed(),
        })
    }
}

const HEADINGS: [&str; 5] = ["measured", "figure", "floor", "ratio", "required"];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = vec![HEADINGS.map(str::to_owned)];
        table.extend(self.rows.iter().map(Row::cells));
        let mut widths = [0; 5];
        for row in &table {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        writeln!(f, "{}\n", self.machine)?;
        for row in &table {
            let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = padded.collect::<Vec<_>>().join("  ");
            writeln!(f, "{}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        match (self.judged, self.failed()) {
            (false, _) => writeln!(f, "\ntiny sizes: nothing here is judged"),
            (true, 0) => writeln!(f, "\nevery requirement is met"),
            (true, missed) => writeln!(f, "\n{missed} requirement(s) missed"),
        }
    }
}

/// Three digits or so, which is more than a repetition confirms.
fn short(figure: f64) -> String {
    match figure {
        _ if figure >= 100.0 => format!("{figure:.0}"),
        _ if figure >= 10.0 => format!("{figure:.1}"),
        _ if figure >= 1.0 => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_judged_and_counted() {
        let mut report = Report::new("here".into(), true);
        report.add(Row::new("fast", 10.0, "/s").beside("floor", 20.0).at_least_share(0.4));
        report.add(Row::new("slow", 10.0, "/s").beside("floor", 20.0).at_least_share(0.6));
        report.add(Row::new("small", 10.0, "MB").below(20.0));
        report.add(Row::new("large", 10.0, "MB").below(5.0));
        report.add(Row::new("brief", 10.0, "s").beside("floor", 5.0).at_most_share(2.0));
        report.add(Row::new("long", 11.0, "s").beside("floor", 5.0).at_most_share(2.0));
        report.add(Row::new("few", 3.0, "").at_most(3.0));
        report.add(Row::new("many", 4.0, "").at_most(3.0));
        assert_eq!(report.failed(), 4);
        let text = report.to_string();
        assert!(text.contains("4 requirement(s) missed"), "{text}");
    }

    #[test]
    fn tiny_sizes_are_never_judged() {
        let mut report = Report::new("here".into(), false);
        report.add(Row::new("slow", 1.0, "ms").below(0.5));
        assert_eq!(report.failed(), 0);
    }
}
