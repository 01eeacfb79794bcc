//! A picture as SVG.

use super::{
    Plot,
    layout::{Anchor, Ink, SIZE, Shape, shapes},
};
use std::fmt::Write as _;

/// The picture of a histogram.
pub(crate) fn svg(plot: &Plot) -> String {
    let (width, height) = SIZE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"15\">\n"
    );
    for shape in shapes(plot) {
        // Writing to a string does not fail.
        let _ = match shape {
            Shape::Box(left, top, right, bottom, ink) => writeln!(
                out,
                "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\"/>",
                right - left,
                bottom - top,
                colour(ink)
            ),
            Shape::Text(x, y, anchor, text) => writeln!(
                out,
                "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{}\" fill=\"{}\">{}</text>",
                match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                },
                colour(Ink::Black),
                escaped(&text)
            ),
        };
    }
    out.push_str("</svg>\n");
    out
}

fn colour(ink: Ink) -> String {
    let [red, green, blue] = ink.rgb();
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Text that is nothing but text: it may be a name that others chose.
fn escaped(text: &str) -> String {
    let text = base::shown(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::plot, *};

    #[test]
    fn titles_are_text() {
        let text = svg(&plot());
        assert!(text.contains(">pt where a &lt; b &amp; &quot;c&quot;</text>"), "{text}");
        assert_eq!(text.matches("#4e79a7").count(), 20);
    }
}
