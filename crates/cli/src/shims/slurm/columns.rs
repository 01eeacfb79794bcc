//! Output formats of `squeue` and `sinfo`: `%.18i %.9P`, `JobID:10,Name:.8`.

/// Something that can be shown of a `T`.
#[derive(Debug)]
pub(crate) struct Field<T: ?Sized, S> {
    /// Its letter behind `%`; none: a blank.
    pub(crate) code: char,
    /// Its name in long formats, lower case.
    pub(crate) name: &'static str,
    /// Its heading.
    pub(crate) heading: &'static str,
    pub(crate) value: fn(&T, &S) -> String,
}

/// A field with how it is laid out.
#[derive(Debug)]
struct Column<T: ?Sized + 'static, S: 'static> {
    field: &'static Field<T, S>,
    width: Option<usize>,
    is_right: bool,
    /// Text behind it.
    after: String,
}

/// A line's layout.
#[derive(Debug)]
pub(crate) struct Layout<T: ?Sized + 'static, S: 'static> {
    before: String,
    columns: Vec<Column<T, S>>,
    /// What of the format means nothing; it is shown as it is.
    pub(crate) unknown: Vec<String>,
}

/// Columns that one line may have: no format of people has more, and a format may come from elsewhere.
const WIDTH_MAX: usize = 4096;
/// Width of a column of a long format.
const LONG_WIDTH: usize = 20;

impl<T: ?Sized + 'static, S: 'static> Layout<T, S> {
    /// Reads `%[[.]width]letter` with text between.
    pub(crate) fn percent(fields: &'static [Field<T, S>], format: &str) -> Self {
        let mut layout = Self { before: String::new(), columns: Vec::new(), unknown: Vec::new() };
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            layout.text(&rest[..at]);
            rest = &rest[at + 1..];
            let (is_right, body) = rest.strip_prefix('.').map_or((false, rest), |body| (true, body));
            let digits = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
            let (width, tail) = (width(&body[..digits]), &body[digits..]);
            let letter = tail.chars().next();
            match letter.and_then(|letter| fields.iter().find(|field| field.code == letter)) {
                Some(field) => {
                    layout.columns.push(Column { field, width, is_right, after: String::new() });
                    rest = &tail[field.code.len_utf8()..];
                }
                None => {
                    layout.unknown.push(letter.map(String::from).unwrap_or_default());
                    layout.text("%");
                }
            }
        }
        layout.text(rest);
        layout
    }

    /// Reads `name[:[.][width][text]]` with commas between; the refused name if there is no such field.
    pub(crate) fn named(fields: &'static [Field<T, S>], format: &str) -> Result<Self, String> {
        let mut layout = Self { before: String::new(), columns: Vec::new(), unknown: Vec::new() };
        for one in format.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (name, how) = one.split_once(':').unwrap_or((one, ""));
            let lower = name.to_ascii_lowercase();
            let field = fields.iter().find(|field| field.name == lower).ok_or_else(|| name.to_owned())?;
            let (is_right, how) = how.strip_prefix('.').map_or((false, how), |how| (true, how));
            let digits = how.find(|c: char| !c.is_ascii_digit()).unwrap_or(how.len());
            let width = width(&how[..digits]).or(Some(LONG_WIDTH));
            layout.columns.push(Column { field, width, is_right, after: how[digits..].to_owned() });
        }
        Ok(layout)
    }

    /// All fields that have a letter, with bars between.
    pub(crate) fn all(fields: &'static [Field<T, S>]) -> Self {
        let with_letter: Vec<&Field<T, S>> = fields.iter().filter(|field| field.code != ' ').collect();
        let last = with_letter.len().saturating_sub(1);
        let column = |(at, field)| Column {
            field,
            width: None,
            is_right: false,
            after: if at == last { String::new() } else { "|".to_owned() },
        };
        Self {
            before: String::new(),
            columns: with_letter.into_iter().enumerate().map(column).collect(),
            unknown: Vec::new(),
        }
    }

    fn text(&mut self, text: &str) {
        match self.columns.last_mut() {
            Some(column) => column.after.push_str(text),
            None => self.before.push_str(text),
        }
    }

    /// The line of headings.
    pub(crate) fn heading(&self) -> String {
        self.line(|field| field.heading.to_owned())
    }

    /// The line of one thing.
    pub(crate) fn row(&self, of: &T, site: &S) -> String {
        self.line(|field| (field.value)(of, site))
    }

    fn line(&self, value: impl Fn(&'static Field<T, S>) -> String) -> String {
        let mut line = self.before.clone();
        for column in &self.columns {
            line.push_str(&fitted(&value(column.field), column.width, column.is_right));
            line.push_str(&column.after);
        }
        line
    }
}

fn width(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|width| *width > 0).map(|width: usize| width.min(WIDTH_MAX))
}

/// The text in a column: cut behind its width, filled up to it.
fn fitted(text: &str, width: Option<usize>, is_right: bool) -> String {
    let Some(width) = width else { return text.to_owned() };
    let cut: String = text.chars().take(width).collect();
    if is_right { format!("{cut:>width$}") } else { format!("{cut:<width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIELDS: &[Field<str, ()>] = &[
        Field { code: 'i', name: "id", heading: "ID", value: |text, ()| text.to_owned() },
        Field { code: 'n', name: "name", heading: "NAME", value: |text, ()| text.to_uppercase() },
        Field { code: ' ', name: "long", heading: "LONG", value: |text, ()| text.repeat(2) },
    ];

    fn percent(format: &str) -> (String, String, String) {
        let layout = Layout::percent(FIELDS, format);
        (layout.heading(), layout.row("abc", &()), layout.unknown.join(","))
    }

    #[test]
    fn short_formats() {
        for (format, heading, row) in [
            ("%i|%n", "ID|NAME", "abc|ABC"),
            ("%.6i %2n.", "    ID NA.", "   abc AB."),
            ("<%4i>", "<ID  >", "<abc >"),
            ("", "", ""),
            ("x", "x", "x"),
        ] {
            assert_eq!(percent(format), (heading.into(), row.into(), String::new()), "{format}");
        }
        assert_eq!(percent("%i %q %"), ("ID %q %".into(), "abc %q %".into(), "q,".into()));
    }

    #[test]
    fn long_formats() {
        let layout = Layout::named(FIELDS, "ID:6,name:.5|,long").unwrap();
        assert_eq!(layout.heading(), "ID     NAME|LONG                ");
        assert_eq!(layout.row("abc", &()), "abc     ABC|abcabc              ");
        assert_eq!(Layout::named(FIELDS, "id,bogus").unwrap_err(), "bogus");
        assert_eq!(Layout::all(FIELDS).row("abc", &()), "abc|ABC");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(format in "[%.0-9inqä:, ]{0,30}") {
            let _ = percent(&format);
            let _ = Layout::named(FIELDS, &format).map(|layout| layout.row("a", &()));
        }
    }
}
