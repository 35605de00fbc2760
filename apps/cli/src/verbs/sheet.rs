//! Columns for people.
//!
//! Invariant: text that others wrote cannot steer the terminal
//! (`a_control_character_is_shown_and_not_obeyed`).

use std::fmt::{self, Write};

/// Spaces between two columns.
const GAP: usize = 2;

/// Rows under a head, in aligned columns. Without rows it prints nothing, not even its head.
pub(super) struct Sheet {
    title: Option<&'static str>,
    head: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    /// An empty sheet with these column heads.
    pub(super) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|&word| word.to_owned()).collect();
        Self { title: None, head: Some(head), rows: Vec::new() }
    }

    /// An empty sheet of facts: a name and a value a row.
    pub(super) fn facts() -> Self {
        Self { title: None, head: None, rows: Vec::new() }
    }

    /// Puts a title above and moves every row to the right.
    pub(super) fn titled(self, title: &'static str) -> Self {
        Self { title: Some(title), ..self }
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [&str; N]) -> &mut Self {
        self.rows.push(cells.map(printable).to_vec());
        self
    }

    /// Adds a fact that may be missing.
    pub(super) fn fact(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.row([name, value]),
            None => self,
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in self.head.iter().chain(&self.rows) {
            widths.resize(std::cmp::max(widths.len(), row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = std::cmp::max(*width, cell.chars().count());
            }
        }
        widths
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        if let Some(title) = self.title {
            writeln!(f, "{title}")?;
        }
        let indent = self.title.map_or(0, |_| GAP);
        let widths = self.widths();
        for row in self.head.iter().chain(&self.rows) {
            let mut line = " ".repeat(indent);
            for (width, cell) in widths.iter().zip(row) {
                write!(line, "{cell:<width$}{:GAP$}", "")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text as it can be shown: control characters as their escapes.
pub(super) fn printable(text: &str) -> String {
    let shown = text.chars().map(|letter| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut sheet = Sheet::new(&["ID", "STATUS", "WHY"]);
        sheet.row(["1", "unknown", "a"]).row(["10000", "open", ""]);
        assert_eq!(sheet.to_string(), "ID     STATUS   WHY\n1      unknown  a\n10000  open\n");
    }

    #[test]
    fn a_sheet_without_rows_has_no_head_and_no_title() {
        let mut sheet = Sheet::new(&["ID"]).titled("history");
        assert_eq!(sheet.to_string(), "");
        assert_eq!(sheet.row(["1"]).to_string(), "history\n  ID\n  1\n");
    }

    #[test]
    fn a_control_character_is_shown_and_not_obeyed() {
        assert_eq!(printable("a\u{1b}[2J\nb\tc é 金"), "a\\u{1b}[2J\\nb\\tc é 金");
    }
}
