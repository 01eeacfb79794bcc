//! The text format: families with their samples.

use std::fmt::{self, Write as _};

/// Whether a figure may go down.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Gauge,
    Counter,
    Histogram,
}

/// The text so far. A family's samples follow its head without another family in between, as the format demands.
pub(super) struct Exposition {
    text: String,
    /// The family that samples belong to.
    name: String,
}

impl Exposition {
    pub(super) fn new() -> Self {
        Self { text: String::with_capacity(16 << 10), name: String::new() }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn family(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Type::Gauge => "gauge",
            Type::Counter => "counter",
            Type::Histogram => "histogram",
        };
        self.write(format_args!("# HELP backplane_{name} {help}\n# TYPE backplane_{name} {kind}\n"));
        name.clone_into(&mut self.name);
    }

    pub(super) fn one(&mut self, name: &str, kind: Type, help: &str, value: impl fmt::Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a string cannot fail");
    }

    /// Distributions over the same steps, each with its labels.
    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        all: &[([(&str, &str); 1], &base::Histogram)],
    ) {
        self.family(name, Type::Histogram, help);
        for ([label], histogram) in all {
            for (bound, count) in histogram.up_to() {
                self.sample_of("_bucket", &[*label, ("le", &bound.to_string())], count);
            }
            // Read once, so that it agrees with itself while others count on.
            let total = histogram.total();
            self.sample_of("_bucket", &[*label, ("le", "+Inf")], total);
            self.sample_of("_sum", &[*label], histogram.seconds());
            self.sample_of("_count", &[*label], total);
        }
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.sample_of("", labels, value);
    }

    fn sample_of(&mut self, end: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.text.push_str("backplane_");
        self.text.push_str(&self.name);
        self.text.push_str(end);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            self.write(format_args!("{before}{name}=\"{}\"", escape(value)));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.write(format_args!(" {value}\n"));
    }
}

/// A label's value: backslash, quote and line feed are escaped.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
