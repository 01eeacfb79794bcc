//! A histogram as lines of text, a bar for each bin.

use super::{Plot, label};

/// Eighths of a character, from none to seven.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// Shortest bar that is worth drawing, and longest that is looked at.
const BAR_COLUMNS: (usize, usize) = (10, 120);

/// One line for each bin: where it begins, its content, and a bar.
pub(crate) fn lines(plot: &Plot, columns: usize) -> Vec<String> {
    let begins: Vec<String> = plot.edges.iter().take(plot.values.len()).map(|edge| label(*edge)).collect();
    let contents: Vec<String> = plot.values.iter().map(|value| label(*value)).collect();
    let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let (before, middle) = (widest(&begins), widest(&contents));
    let width = columns.saturating_sub(before + middle + 4).clamp(BAR_COLUMNS.0, BAR_COLUMNS.1);
    let bars = plot.values.iter().map(|value| bar(*value / plot.top(), width));
    let rows = begins.iter().zip(&contents).zip(bars);
    rows.map(|((begin, content), bar)| {
        format!("{begin:>before$}  {content:>middle$}  {bar}").trim_end().to_owned()
    })
    .collect()
}

/// A bar that fills this share of `width` columns.
fn bar(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (8 * width) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let plot =
            Plot { title: String::new(), edges: vec![0.0, 0.5, 10.0, 20.0], values: vec![5.0, 10.0, 0.0] };
        assert_eq!(lines(&plot, 19), ["  0   5  █████", "0.5  10  ██████████", " 10   0"]);
        assert_eq!(bar(0.0625, 10), "▋");
        assert_eq!(bar(f64::NAN, 10), "");
    }
}
