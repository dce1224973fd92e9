//! What the commands print with: aligned tables, sizes in words, JSON, colour only where a person reads.

use std::io::{self, IsTerminal, Write};

/// Which side of a column its text touches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of text in aligned columns, two spaces apart.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings; all headings empty: none is printed.
    pub fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, a cell a column.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Writes the table, each line after `indent` spaces; trailing spaces are dropped.
    pub fn write(&self, out: &mut dyn Write, indent: usize) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| {
                let cells = self.rows.iter().map(|r| r[c].chars().count());
                cells.chain([self.columns[c].0.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let line = |out: &mut dyn Write, cells: &mut dyn Iterator<Item = &str>| {
            let mut text = " ".repeat(indent);
            for ((cell, &width), (_, align)) in cells.zip(&widths).zip(&self.columns) {
                let gap = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => text.extend([cell, &gap, "  "]),
                    Align::Right => text.extend([&gap, cell, "  "]),
                }
            }
            writeln!(out, "{}", text.trim_end())
        };
        if self.columns.iter().any(|(heading, _)| !heading.is_empty()) {
            line(out, &mut self.columns.iter().map(|c| c.0))?;
        }
        for row in &self.rows {
            line(out, &mut row.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

/// Bytes in words: `512 B`, `1.50 KiB`, `3.20 GiB`.
pub fn bytes(n: u64) -> String {
    scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A count in words: `512`, `1.50 K`, `494.03 M`, `8.19 B`.
pub fn count(n: u64) -> String {
    scaled(n, 1000.0, &["", "K", "M", "B", "T", "P", "E"]).trim_end().to_string()
}

fn scaled(n: u64, step: f64, units: &[&str]) -> String {
    let mut value = n as f64;
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    if unit == 0 { format!("{n} {}", units[0]) } else { format!("{value:.2} {}", units[unit]) }
}

/// Writes a value as indented JSON and a newline.
pub fn json(out: &mut dyn Write, value: &serde_json::Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// A plural where there is not exactly one: `1 tensor`, `3 tensors`.
pub fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Whether colour may go to standard error: a terminal, and `NO_COLOR` empty or unset.
pub fn colour_on_stderr() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && io::stderr().is_terminal()
}

/// Text for standard error, dimmed where colour is allowed.
pub fn dim(text: &str) -> String {
    if colour_on_stderr() { format!("\x1b[2m{text}\x1b[0m") } else { text.to_string() }
}

/// Shows control characters as escapes, so that nothing from a file reaches the terminal as a command.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_words() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 29), "1.50 GiB");
        assert_eq!(count(999), "999");
        assert_eq!(count(494_032_768), "494.03 M");
        assert_eq!(bytes(u64::MAX), "16.00 EiB");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.row(["a".into(), "10".into()]);
        table.row(["long name".into(), "7".into()]);
        let mut out = Vec::new();
        table.write(&mut out, 1).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " name        n\n a          10\n long name   7\n");
    }
}
