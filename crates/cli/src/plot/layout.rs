//! Where everything stands in a picture.

use super::{Plot, label, ticks};

/// Size of the picture.
pub(super) const SIZE: (f64, f64) = (800.0, 500.0);
/// Left, top, right and bottom of the plot in it.
const FRAME: (f64, f64, f64, f64) = (90.0, 50.0, 775.0, 450.0);
/// Air above the highest bin.
const AIR: f64 = 1.05;
/// Longest title; a longer one would leave the picture.
const TITLE_CHARACTERS: usize = 60;

/// Colours of a picture; there are no others, so that it needs few bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// The ground.
    White,
    /// Lines and letters.
    Black,
    /// Lines behind the bins.
    Grey,
    /// The bins.
    Blue,
}

impl Ink {
    pub(super) fn rgb(self) -> [u8; 3] {
        match self {
            Self::White => [255, 255, 255],
            Self::Black => [34, 34, 34],
            Self::Grey => [221, 221, 221],
            Self::Blue => [78, 121, 167],
        }
    }
}

/// Which part of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A part of a picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Left, top, right, bottom.
    Box(f64, f64, f64, f64, Ink),
    /// Place of its lower edge.
    Text(f64, f64, Anchor, String),
}

/// The parts of a picture, each painted over those before it.
pub(super) fn shapes(plot: &Plot) -> Vec<Shape> {
    let (left, top, right, bottom) = FRAME;
    let mut shapes = vec![Shape::Box(0.0, 0.0, SIZE.0, SIZE.1, Ink::White)];
    let (low, high) = (plot.bottom(), AIR * plot.top());
    let height = |value: f64| bottom - (bottom - top) * ((value - low) / (high - low)).clamp(0.0, 1.0);
    for tick in ticks(low, high, 6) {
        let y = height(tick);
        shapes.push(Shape::Box(left, y - 0.5, right, y + 0.5, Ink::Grey));
        shapes.push(Shape::Text(left - 8.0, y + 5.0, Anchor::End, label(tick)));
    }
    bins(plot, height, &mut shapes);
    axis(plot, &mut shapes);
    shapes.push(Shape::Box(left - 1.0, top, left, bottom, Ink::Black));
    shapes.push(Shape::Box(left - 1.0, bottom, right, bottom + 1.0, Ink::Black));
    let title: String = plot.title.chars().take(TITLE_CHARACTERS).collect();
    shapes.push(Shape::Text(left, top - 16.0, Anchor::Start, title));
    shapes
}

/// Where an edge stands; edges that are no numbers of this world stand at the left.
fn across(plot: &Plot, x: f64) -> f64 {
    let (left, _, right, _) = FRAME;
    let (first, last) =
        (plot.edges.first().copied().unwrap_or(0.0), plot.edges.last().copied().unwrap_or(1.0));
    let share = (x - first) / (last - first);
    left + (right - left) * if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

fn bins(plot: &Plot, height: impl Fn(f64) -> f64, shapes: &mut Vec<Shape>) {
    for (pair, value) in plot.edges.windows(2).zip(&plot.values) {
        if *value != 0.0 && value.is_finite() {
            let (at, ground) = (height(*value), height(0.0));
            let (from, to) = (across(plot, pair[0]), across(plot, pair[1]));
            shapes.push(Shape::Box(from, at.min(ground), to, at.max(ground), Ink::Blue));
        }
    }
}

fn axis(plot: &Plot, shapes: &mut Vec<Shape>) {
    let (_, _, _, bottom) = FRAME;
    let (first, last) =
        (plot.edges.first().copied().unwrap_or(0.0), plot.edges.last().copied().unwrap_or(1.0));
    for tick in ticks(first.min(last), first.max(last), 8) {
        let x = across(plot, tick);
        shapes.push(Shape::Box(x - 0.5, bottom, x + 0.5, bottom + 6.0, Ink::Black));
        shapes.push(Shape::Text(x, bottom + 24.0, Anchor::Middle, label(tick)));
    }
}
