//! `bp hist`: fills a histogram from n-tuples and draws it.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    plot::{self, Plot},
    transfer, waiting, words,
};
use base::{Failure, FilePath, Result};
use clap::ValueHint;
use client::xrd::{PinnedFile, XrdUrl};
use ntuple::{
    Array, Axis, Bins, Chain, Defaults, FileSource, Histogram, HistogramSpec, OpenOptions, Plan, Progress,
    RunOptions, Source, changed, column,
};
use serde::Serialize;
use std::{ops::ControlFlow, path::PathBuf, sync::Arc};
use wire::control::Want;

/// Columns of output that is no terminal.
const COLUMNS: usize = 80;
/// Bins of a picture and of the terminal, which has less room.
const BINS_PICTURE: usize = 100;
const BINS_TERMINAL: usize = 25;

/// Draw a histogram of n-tuples
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A file is a path in the facility, which begins with a slash and may have wildcards; \
    a root:// URL; or, without a slash in front (x.parquet, ./x.parquet), a file of this host.\n\n\
    EXPR and CUT are written as in Python: 'sqrt(px**2 + py**2)', 'abs(eta) < 2.4 and n > 1'."
)]
pub(crate) struct Args {
    /// Parquet or ROOT files, then the expression that is filled
    #[arg(required = true, num_args = 2.., value_names = ["FILE", "EXPR"], value_hint = ValueHint::AnyPath)]
    words: Vec<String>,
    /// RNTuple of ROOT files, by its path [default: the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Fill only entries for which this holds
    #[arg(long = "where", value_name = "CUT")]
    cut: Option<String>,
    /// Weight of an entry
    #[arg(long, value_name = "EXPR")]
    weight: Option<String>,
    /// Number of bins [default: 25, in a picture 100]
    #[arg(long, value_name = "N")]
    bins: Option<usize>,
    /// Lower and upper edge [default: those of the first 262,144 entries or so]
    #[arg(long, value_name = "A:B", allow_hyphen_values = true, value_parser = range)]
    range: Option<(f64, f64)>,
    /// Draw a picture into a PNG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    png: Option<PathBuf>,
    /// Draw a picture into an SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    svg: Option<PathBuf>,
}

fn range(text: &str) -> Result<(f64, f64)> {
    let pair = text.split_once(':').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    pair.ok_or_else(|| {
        Failure::invalid(format!("{text:?} is no range")).hint("write two numbers, as in 0:100")
    })
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Reply<'a> {
    expression: &'a str,
    entries: u64,
    edges: &'a [f64],
    values: &'a [f64],
    underflow: f64,
    overflow: f64,
}

pub(crate) fn run(mut args: Args, context: &mut Context) -> Run {
    let expr = args.words.pop().unwrap_or_default();
    let options = OpenOptions { tree: args.tree.as_deref(), ..OpenOptions::default() };
    let files = sources(&args.words, context)?.into_iter().map(|source| column::open(source, options));
    let chain = Chain::join(files.collect::<Result<_>>()?, &Defaults::new())?;
    let has_picture = args.png.is_some() || args.svg.is_some();
    let bins = args.bins.unwrap_or(if has_picture { BINS_PICTURE } else { BINS_TERMINAL });
    let (low, high) = match args.range {
        Some(range) => range,
        None => first_range(&chain, &expr, args.cut.as_deref())?,
    };
    let axis = Axis::regular(bins, low, high)?;
    let mut plan = Plan::new(chain.schema());
    plan.histogram(HistogramSpec {
        axes: vec![(expr.clone(), axis)],
        cut: args.cut.clone(),
        weight: args.weight.clone(),
    })?;
    let bar = crate::progress::entries(&context.output, chain.entries());
    let outcome = chain.run(plan, &RunOptions::default(), |Progress { done, .. }| {
        bar.set_position(done);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    show(&args, &expr, (low, high), &outcome?.histograms[0], chain.entries(), context)
}

/// Where a file is.
enum Place {
    Facility(FilePath),
    Url(XrdUrl),
    Here(PathBuf),
}

/// The files: those of the facility are brought to disk first, all at once.
fn sources(files: &[String], context: &mut Context) -> Run<Vec<Arc<dyn Source>>> {
    let mut places = Vec::new();
    for file in files {
        if file.starts_with('/') {
            // Once: a file that comes meanwhile would be read without having been staged.
            let paths = glob::expand(context, &[file.parse()?], Match::Files)?;
            places.extend(paths.into_iter().map(Place::Facility));
        } else if file.contains("://") && !file.starts_with("file://") {
            places.push(Place::Url(file.parse()?));
        } else {
            places.push(Place::Here(file.strip_prefix("file://").unwrap_or(file).into()));
        }
    }
    let staged = places.iter().filter_map(|place| match place {
        Place::Facility(path) => Some(path.clone()),
        Place::Url(_) | Place::Here(_) => None,
    });
    let staged: Vec<FilePath> = staged.collect();
    if !staged.is_empty() {
        transfer::stage(context, &staged)?;
        waiting::files(context, &staged, Want::Online, waiting::PATIENCE_DEFAULT)?;
    }
    places.into_iter().map(|place| open(place, context)).collect()
}

fn open(place: Place, context: &mut Context) -> Run<Arc<dyn Source>> {
    let url = match place {
        Place::Here(path) => return Ok(Arc::new(FileSource::open(&path)?)),
        Place::Facility(path) => context.url(&path)?,
        Place::Url(url) => url,
    };
    Ok(Arc::new(Remote(PinnedFile::open(url, context.xrd_options())?)))
}

/// A file behind a data door.
struct Remote(PinnedFile);

impl Source for Remote {
    fn len(&self) -> u64 {
        self.0.size()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        if self.0.is_unchanged()? { Ok(()) } else { Err(changed(self.0.name())) }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if self.0.read_at(offset, buffer)? { Ok(()) } else { Err(changed(self.0.name())) }
    }

    fn identity(&self) -> String {
        self.0.identity().to_owned()
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// A range for the values of the first packet: reading all files twice would take twice as long.
fn first_range(chain: &Chain, expr: &str, cut: Option<&str>) -> Result<(f64, f64)> {
    let mut plan = Plan::new(chain.schema());
    if let Some(cut) = cut {
        plan.filter(cut)?;
    }
    // Errors are about what was typed.
    plan.type_of(expr)?;
    // As a float, so that whole numbers and truth values need no rules of their own.
    plan.array(&format!("1.0 * ({expr})"))?;
    let groups: Vec<_> = chain.packets().into_iter().take_while(|groups| groups.packet == 0).collect();
    let part = chain.run_packets(plan, &groups, &RunOptions::default(), |_| ControlFlow::Continue(()))?;
    let Some(Array::F64(values)) = part.arrays.first().map(|values| &values.array) else {
        return Err(Failure::internal("an expression of floats has floats"));
    };
    let finite = values.iter().copied().filter(|x| x.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if low > high {
        return Err(Failure::invalid(format!(
            "no entry at the beginning of the files has a value of {expr:?}"
        ))
        .hint("give the range, as in --range 0:100"));
    }
    // The largest value has a place, too: upper edges belong to the next bin.
    let width = if low < high { high - low } else { 1.0 };
    Ok((low, high + 1e-6 * width))
}

fn show(
    args: &Args,
    expr: &str,
    (low, high): (f64, f64),
    filled: &Histogram,
    entries: u64,
    context: &mut Context,
) -> Run {
    let all: Vec<f64> = match &filled.bins {
        Bins::Counts(bins) => bins.iter().map(|count| *count as f64).collect(),
        Bins::Weights(bins) => bins.iter().map(|[sum, _]| *sum).collect(),
    };
    let bins = all.len() - 2;
    let edges: Vec<f64> = (0..=bins).map(|bin| low + (high - low) * bin as f64 / bins as f64).collect();
    let (underflow, overflow) = (all[0], all[bins + 1]);
    let title = args.cut.as_ref().map_or_else(|| expr.to_owned(), |cut| format!("{expr}  where {cut}"));
    let plot = Plot { title, edges, values: all[1..=bins].to_vec() };
    if context.output.is_json() {
        let reply = Reply {
            expression: expr,
            entries,
            edges: &plot.edges,
            values: &plot.values,
            underflow,
            overflow,
        };
        context.output.json(&reply)?;
    }
    context.restore_umask();
    for (place, bytes) in
        [(&args.png, plot::png as fn(&Plot) -> Vec<u8>), (&args.svg, |plot| plot::svg(plot).into())]
    {
        if let Some(place) = place {
            let failed = |cause| Failure::io(format!("write {}", place.display()), &cause);
            std::fs::write(place, bytes(&plot)).map_err(failed)?;
        }
    }
    if args.png.is_none() && args.svg.is_none() && !context.output.is_json() {
        print(&plot, entries, (underflow, overflow), context)?;
    }
    Ok(0)
}

fn print(plot: &Plot, entries: u64, (underflow, overflow): (f64, f64), context: &mut Context) -> Run<()> {
    context.output.line(&plot.title)?;
    let columns = context.output.columns().unwrap_or(COLUMNS);
    for line in plot::lines(plot, columns) {
        context.output.line(line)?;
    }
    let inside: f64 = plot.values.iter().sum();
    context.output.line(format!(
        "{}; {inside} in the range, {underflow} below, {overflow} above or no number",
        words::counted(entries, "entry", "entries"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_two_numbers() {
        assert_eq!(range("-1:2.5").unwrap(), (-1.0, 2.5));
        assert!(["", "1", "1:", "a:b", "1:2:3"].into_iter().all(|text| range(text).is_err()));
    }
}
