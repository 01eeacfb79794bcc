//! Aligned columns that fit the terminal.

use crate::output::Tone;
use base::shown;
use unicode_width::UnicodeWidthChar;

/// Space between columns.
const GAP: usize = 2;
/// A column of paths or texts is not made narrower than this as long as there are others.
const SHRUNK_MIN: usize = 12;
/// No column is made narrower than this: two, so that every letter has room.
const CELL_MIN: usize = 2;
/// Narrower terminals break lines themselves.
const WIDTH_MIN: usize = 60;
/// Before a text that stands below its row.
const INDENT: usize = 4;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Words.
    Left(&'static str),
    /// Numbers.
    Right(&'static str),
    /// Long text: it goes on below when room is short.
    Text(&'static str),
    /// Long paths: they are broken behind a slash when room is short.
    Path(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Left(title) | Self::Right(title) | Self::Text(title) | Self::Path(title) => title,
        }
    }

    fn is_elastic(self) -> bool {
        matches!(self, Self::Text(_) | Self::Path(_))
    }
}

/// A text and its colour.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// `text` in colour.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        // A row is one line; what else a terminal would obey is spelled out before it is measured.
        let text = text.into().replace(['\n', '\t'], " ");
        Self { text: shown(&text).into_owned(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// Rows under titles.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// What to do about rows that say what is wrong.
    next: Vec<String>,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new(), next: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Adds what to do about some of the rows, once. It is told beside the table: programs read the rows.
    pub(crate) fn next_step(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.next.contains(&text) {
            self.next.push(text);
        }
    }

    pub(crate) fn next_steps(&self) -> &[String] {
        &self.next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text; at most `width` columns wide if that is asked for. Nothing is cut off: what does not fit goes on in the
    /// next line, and a last column of text stands below its row.
    pub(crate) fn render(&self, width: Option<usize>, is_colour: bool) -> String {
        let width = width.map(|width| width.max(WIDTH_MIN));
        let natural = self.widths(self.columns.len());
        let fits = width.is_none_or(|width| total(&natural) <= width);
        let has_text_below =
            !fits && matches!(self.columns.last(), Some(Column::Text(_))) && self.columns.len() > 1;
        let len = self.columns.len() - usize::from(has_text_below);
        let mut widths = self.widths(len);
        if let Some(width) = width {
            self.shrink(&mut widths, width);
        }
        let titles: Vec<Cell> =
            self.columns.iter().map(|column| Cell::toned(column.title(), Tone::Faint)).collect();
        let mut text = String::new();
        for (index, row) in std::iter::once(&titles).chain(&self.rows).enumerate() {
            self.set_row(&mut text, &row[..len], &widths, is_colour);
            if has_text_below && index > 0 {
                let below = &row[len];
                let room = width.unwrap_or(WIDTH_MIN).saturating_sub(INDENT);
                for line in wrap(&below.text, room).iter().filter(|line| !line.is_empty()) {
                    text.push_str(&" ".repeat(INDENT));
                    text.push_str(&below.tone.paint(line, is_colour));
                    text.push('\n');
                }
            }
        }
        text
    }

    /// Sets one row, in as many lines as its longest cell needs.
    fn set_row(&self, text: &mut String, row: &[Cell], widths: &[usize], is_colour: bool) {
        let cells: Vec<Vec<String>> =
            row.iter().zip(widths).map(|(cell, width)| wrap(&cell.text, *width)).collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..lines {
            let mut line = String::new();
            for (((cell, parts), column), width) in row.iter().zip(&cells).zip(&self.columns).zip(widths) {
                let part = parts.get(at).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(length(part)));
                let painted = cell.tone.paint(part, is_colour);
                match column {
                    Column::Right(_) => line.extend([&*padding, &painted]),
                    _ => line.extend([&*painted, &padding]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }

    /// What the first columns need.
    fn widths(&self, len: usize) -> Vec<usize> {
        let natural = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| length(&row[index].text));
            cells.chain([length(column.title())]).max().unwrap_or(0)
        };
        self.columns[..len].iter().enumerate().map(natural).collect()
    }

    /// The widest elastic column gives way until the rows fit, then the widest of all.
    fn shrink(&self, widths: &mut [usize], width: usize) {
        while total(widths) > width {
            let elastic =
                (0..widths.len()).filter(|at| self.columns[*at].is_elastic() && widths[*at] > SHRUNK_MIN);
            let widest = elastic.max_by_key(|at| widths[*at]);
            let widest = widest.or_else(|| (0..widths.len()).max_by_key(|at| widths[*at]));
            match widest {
                Some(at) if widths[at] > CELL_MIN => widths[at] -= 1,
                _ => return,
            }
        }
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Columns of a terminal that a text takes; some letters take two.
fn length(text: &str) -> usize {
    text.chars().map(letter).sum()
}

fn letter(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// `text` in lines of at most `width` columns: broken at a space or behind a slash if there is one, else anywhere.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while length(rest) > width {
        let mut taken = 0;
        let end = rest.char_indices().find(|(_, c)| {
            taken += letter(*c);
            taken > width
        });
        // A letter that is wider than the column stands alone.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = end.map_or(rest.len(), |(at, _)| at).max(first);
        let at = match rest[..end].rfind([' ', '/']) {
            Some(at) if at > 0 => at + 1,
            _ => end,
        };
        lines.push(rest[..at].trim_end().to_owned());
        rest = &rest[at..];
    }
    lines.push(rest.to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Table {
        let mut table = Table::new([Column::Right("id"), Column::Path("file"), Column::Text("why")]);
        table.row([Cell::from("7"), "/data/a".into(), Cell::toned("ok", Tone::Good)]);
        table.row([
            Cell::from("1234"),
            "/data/a/long/way/down.parquet".into(),
            "waits for a drive\nand a volume".into(),
        ]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "  id  file                           why\n   7  /data/a                        ok\n1234  \
                        /data/a/long/way/down.parquet  waits for a drive and a volume\n";
        assert_eq!(example().render(None, false), expected);
    }

    #[test]
    fn what_does_not_fit_goes_on_below() {
        let mut table = example();
        table.row([
            Cell::from("8"),
            "/data/b".into(),
            "volume BP0001 is in drive drv4, which is out of use".into(),
        ]);
        let text = table.render(Some(60), false);
        let expected = "  id  file\n   7  /data/a\n    ok\n1234  /data/a/long/way/down.parquet\n    waits for a drive and a \
                        volume\n   8  /data/b\n    volume BP0001 is in drive drv4, which is out of use\n";
        assert_eq!(text, expected);
    }

    fn columns() -> impl Strategy<Value = Vec<Column>> {
        let column = prop_oneof![
            Just(Column::Left("name")),
            Just(Column::Right("number")),
            Just(Column::Path("file")),
            Just(Column::Text("why")),
        ];
        prop::collection::vec(column, 1..12)
    }

    proptest! {
        #[test]
        fn every_table_fits_eighty_columns_and_nothing_is_lost(
            columns in columns(),
            texts in prop::collection::vec(prop_oneof![".{0,90}", "(/[a-z]{1,40}){1,6}", "[0-9]{1,30}", "[漢字é ]{0,60}"], 36),
            width in 80usize..200,
        ) {
            let mut table = Table::new(columns.clone());
            for row in texts.chunks_exact(columns.len()) {
                table.row(row.iter().map(|text| Cell::from(text.as_str())).collect::<Vec<_>>());
            }
            let text = table.render(Some(width), false);
            for line in text.lines() {
                prop_assert!(length(line) <= width, "{} of {width}: {line}", length(line));
            }
            let letters = |text: &str| {
                let mut letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
                letters.sort_unstable();
                letters
            };
            let shown: String = table.rows.iter().flatten().map(|cell| cell.text.as_str()).collect();
            let found = letters(&text);
            prop_assert!(letters(&shown).iter().all(|c| found.binary_search(c).is_ok()));
        }
    }

    #[test]
    fn colour_does_not_shift_columns() {
        let text = example().render(None, true);
        assert!(text.contains("\x1b[32mok\x1b[0m"));
        assert!(text.lines().nth(1).unwrap().starts_with("   7  /data/a  "));
    }
}
