//! What pages of reference share: text for Markdown, lines that fit, the comparison with `docs/reference`. Only tests use it.

use std::path::Path;

/// Longest line of prose on a page.
const LINE_MAX: usize = 120;

/// Compares a page with `docs/reference/NAME`; `UPDATE_SNAPSHOTS=1` writes it instead.
pub(crate) fn is_current(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == written, "{} is not current; UPDATE_SNAPSHOTS=1 makes it anew", path.display());
}

/// Text in which nothing but what stands between backquotes means anything to Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(number, piece)| {
        let piece = piece.replace('|', "\\|");
        if number % 2 == 1 { piece } else { piece.replace('<', "\\<").replace('*', "\\*") }
    });
    pieces.collect::<Vec<_>>().join("`")
}

/// A paragraph in lines that fit.
pub(crate) fn paragraph(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in escaped(text).split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LINE_MAX {
            lines.push_str(&std::mem::take(&mut line));
            lines.push('\n');
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}
