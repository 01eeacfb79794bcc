//! Aligned columns that fit the terminal.

use crate::output::Tone;
use base::shown;

/// Space between columns.
const GAP: usize = 2;
/// A column is not made narrower than this.
const SHRUNK_MIN: usize = 12;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Words.
    Left(&'static str),
    /// Numbers.
    Right(&'static str),
    /// Long text: its end is cut off when room is short.
    Text(&'static str),
    /// Long paths: their beginning is cut off when room is short.
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
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text; at most `width` columns wide if that is possible and asked for.
    pub(crate) fn render(&self, width: Option<usize>, is_colour: bool) -> String {
        let widths = self.widths(width);
        let mut text = String::new();
        let titles: Vec<Cell> =
            self.columns.iter().map(|column| Cell::toned(column.title(), Tone::Faint)).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), width) in row.iter().zip(&self.columns).zip(&widths) {
                let shown = fit(&cell.text, *width, matches!(column, Column::Path(_)));
                let padding = " ".repeat(width - length(&shown));
                let painted = cell.tone.paint(&shown, is_colour);
                match column {
                    Column::Right(_) => line.extend([&*padding, &painted]),
                    _ => line.extend([&*painted, &padding]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Natural widths, then the widest elastic column gives way until the rows fit.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let natural = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| length(&row[index].text));
            cells.chain([length(column.title())]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let Some(width) = width else { return widths };
        let mut excess =
            (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(width);
        while excess > 0 {
            let elastic =
                (0..widths.len()).filter(|at| self.columns[*at].is_elastic() && widths[*at] > SHRUNK_MIN);
            let Some(widest) = elastic.max_by_key(|at| widths[*at]) else {
                break;
            };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// `text` in at most `width` characters, with an ellipsis where something is missing.
fn fit(text: &str, width: usize, is_end_kept: bool) -> String {
    let long = length(text);
    if long <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    if is_end_kept {
        format!("…{}", text.chars().skip(long - kept).collect::<String>())
    } else {
        format!("{}…", text.chars().take(kept).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn long_columns_give_way() {
        let text = example().render(Some(40), false);
        assert!(text.lines().all(|line| length(line) <= 40), "{text}");
        assert!(text.contains("…/down.parquet") || text.contains("down.parquet"), "{text}");
        assert!(text.contains("waits for"), "{text}");
        // Narrower than possible: it stays readable instead.
        assert!(example().render(Some(5), false).contains("1234"));
    }

    #[test]
    fn colour_does_not_shift_columns() {
        let text = example().render(None, true);
        assert!(text.contains("\x1b[32mok\x1b[0m"));
        assert!(text.lines().nth(1).unwrap().starts_with("   7  /data/a  "));
    }
}
