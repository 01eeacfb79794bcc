//! `sinfo`: shows partitions and nodes.

mod fields;

use super::{
    columns::Layout,
    help, hostlist,
    nodes::{Nodes, state},
    site::Site,
};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::{Order, Parsed},
    },
};
use fields::{APART, FIELDS, Group, OF_PARTITION, Row};
use wire::control::WorkerInfo;

const OPTIONS: &str = "\
    a/all d/dead e/exact federation F/future h/noheader help hide i/iterate= json? l/long local M/clusters= \
    cluster= n/nodes= N/Node noconvert o/format= O/Format= p/partition= r/responding R/list-reasons s/summarize \
    S/sort= t/states= T/reservation usage v/verbose V/version yaml?";

const DEFAULT: &str = "%#P %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
const SUMMARY: &str = "%#P %.5a %.10l %.16F %N";
const BY_NODE: &str = "%#N %.6D %.#P %6t";
const BY_NODE_LONG: &str = "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
const REASONS: &str = "%20E %9u %19H %N";

/// The least width of a name in the tables above.
const NAME_WIDTH: usize = 9;

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let parsed = match help::read(shim, "[options]", OPTIONS, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    if ["json", "yaml", "iterate"].iter().any(|key| parsed.has(key)) {
        return shim.refuse("--json, --yaml and --iterate are not supported here", 1);
    }
    let names = match hostlist::given(&parsed, "nodes") {
        Ok(names) => names,
        Err(refusal) => return shim.refuse(&refusal, 1),
    };
    let nodes = Nodes::ask(shim)?;
    let (layout, letters) = match layout(&parsed, &nodes) {
        Ok(found) => found,
        Err(name) => return shim.refuse(&format!("Invalid node format specification: {name}"), 1),
    };
    let site = Site::here();
    for letter in &layout.unknown {
        shim.error(&format!("Invalid node format specification: {letter}"));
    }
    if !parsed.has("noheader") {
        if parsed.has("long") {
            shim.line(site.calendar.heading(site.now))?;
        }
        shim.line(layout.heading())?;
    }
    for group in groups(&nodes, &parsed, &names, &letters) {
        shim.line(layout.row(&Row::from(&group), &site))?;
    }
    Ok(0)
}

/// A width that no name of a node or partition exceeds, where a format says `#`: tools take cut names for others.
fn with_widths(format: &str, nodes: &Nodes) -> String {
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0).max(NAME_WIDTH);
    let node = longest(&mut nodes.workers.iter().map(|worker| worker.name.chars().count()));
    // A star behind the default one.
    let partition = longest(&mut nodes.queues.iter().map(|queue| queue.name.chars().count() + 1));
    format.replace("#N", &format!("{node}N")).replace("#P", &format!("{partition}P"))
}

/// The layout, and the letters of its fields.
fn layout(parsed: &Parsed, nodes: &Nodes) -> Result<(Layout<Row, Site>, String), String> {
    if let Some(names) = parsed.last("Format") {
        let letters = FIELDS
            .iter()
            .filter(|field| {
                names.split(',').any(|one| {
                    one.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case(field.name))
                })
            })
            .map(|field| field.code)
            .collect();
        return Ok((Layout::named(FIELDS, names)?, letters));
    }
    let inherited = std::env::var("SINFO_FORMAT").ok().filter(|format| !format.is_empty());
    let format = match parsed.last("format").map(str::to_owned) {
        Some(format) => format,
        None if parsed.has("list-reasons") => REASONS.to_owned(),
        None if parsed.has("summarize") => SUMMARY.to_owned(),
        None if parsed.has("Node") && parsed.has("long") => BY_NODE_LONG.to_owned(),
        None if parsed.has("Node") => BY_NODE.to_owned(),
        None if parsed.has("long") => LONG.to_owned(),
        None => inherited.unwrap_or_else(|| DEFAULT.to_owned()),
    };
    if format == "%all" {
        return Ok((Layout::all(FIELDS), FIELDS.iter().map(|field| field.code).collect()));
    }
    let format = with_widths(&format, nodes);
    // A letter counts if it stands behind a percent sign, a point and a width.
    let letters = format
        .split('%')
        .skip(1)
        .filter_map(|part| part.chars().find(|c| !(c.is_ascii_digit() || *c == '.')))
        .collect();
    Ok((Layout::percent(FIELDS, &format), letters))
}

/// Nodes that are alike, by partition.
fn groups<'a>(nodes: &'a Nodes, parsed: &Parsed, names: &[String], letters: &str) -> Vec<Group<'a>> {
    let states = parsed.list("states");
    let is_meant = |worker: &&WorkerInfo| {
        (names.is_empty() || names.contains(&worker.name))
            && (states.is_empty() || states.iter().any(|word| is_in_state(worker, word)))
            && (!parsed.has("dead") || !worker.is_available)
            && (!parsed.has("responding") || worker.is_available)
            && (!parsed.has("list-reasons") || !worker.is_available)
    };
    let partitions = parsed.list("partition");
    let by_node = parsed.has("Node");
    let has_partition = by_node || letters.chars().any(|letter| OF_PARTITION.contains(letter));
    // `%N` alone does not part nodes: it lists them.
    let apart: Vec<char> =
        APART.chars().filter(|letter| letters.contains(*letter) && !"N".contains(*letter)).collect();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for queue in
        nodes.queues.iter().filter(|queue| partitions.is_empty() || partitions.contains(&queue.name.as_str()))
    {
        let first = groups.len();
        for worker in nodes.of(queue).into_iter().filter(is_meant) {
            if !has_partition
                && groups.iter().any(|group| group.workers.iter().any(|one| one.name == worker.name))
            {
                continue;
            }
            let from = if has_partition { first } else { 0 };
            let like =
                groups[from..].iter_mut().find(|group| !by_node && is_like(group.workers[0], worker, &apart));
            match like {
                Some(group) => group.workers.push(worker),
                None => groups.push(Group { queue, workers: vec![worker] }),
            }
        }
        let is_unasked = names.is_empty() && states.is_empty() && !by_node && !parsed.has("list-reasons");
        if groups.len() == first && is_unasked && has_partition {
            groups.push(Group { queue, workers: Vec::new() });
        }
    }
    if by_node {
        groups.sort_by(|a, b| a.workers[0].name.cmp(&b.workers[0].name));
    }
    groups
}

/// Whether two nodes may stand in one line.
fn is_like(a: &WorkerInfo, b: &WorkerInfo, apart: &[char]) -> bool {
    apart.iter().all(|letter| match letter {
        't' | 'T' => state(a) == state(b),
        'c' => a.cpus == b.cpus,
        'm' => a.memory_bytes == b.memory_bytes,
        'n' | 'o' => a.host == b.host,
        _ => true,
    })
}

fn is_in_state(worker: &WorkerInfo, word: &str) -> bool {
    let (long, short) = state(worker);
    let is = |name: &str| name.trim_end_matches('*').eq_ignore_ascii_case(word.trim_end_matches('*'));
    is(long) || is(short) || word.eq_ignore_ascii_case("all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::{
        getopt::parse,
        slurm::{
            nodes::tests::{queue, worker},
            sample,
        },
    };
    use base::Millis;
    use wire::control::{QueueResources, QueueSettings};

    fn output(line: &str) -> String {
        let words = line.split_whitespace().map(|word| word.replace('_', " "));
        let parsed = parse(OPTIONS, Order::Permuted, words).unwrap();
        let ceilings = QueueResources { wall: Some(Millis::from_seconds(600)), ..QueueResources::default() };
        let short = QueueSettings { workers: vec!["n1".to_owned()], ceilings, ..QueueSettings::default() };
        let nodes = Nodes {
            workers: vec![worker("n1", 2), worker("n2", 0)],
            queues: vec![queue("batch", QueueSettings::default()), queue("short", short)],
        };
        let (layout, letters) = layout(&parsed, &nodes).unwrap();
        let rows = groups(&nodes, &parsed, &hostlist::given(&parsed, "nodes").unwrap(), &letters);
        let lines = rows.iter().map(|group| layout.row(&Row::from(group), &sample::site()));
        std::iter::once(layout.heading()).chain(lines).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn tables_are_those_of_slurm() {
        assert_eq!(
            output(""),
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nbatch*       up   infinite      1    mix n1\n\
             batch*       up   infinite      1   idle n2\nshort        up      10:00      1    mix n1"
        );
        assert_eq!(
            output("-s"),
            "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\nbatch*       up   infinite          1/1/0/2 n[1-2]\n\
             short        up      10:00          1/0/0/1 n1"
        );
        assert_eq!(
            output("-N"),
            "NODELIST   NODES PARTITION STATE \nn1             1    batch* mix   \n\
             n1             1     short mix   \nn2             1    batch* idle  "
        );
    }

    #[test]
    fn formats_that_tools_use() {
        assert_eq!(output("-o %C").lines().nth(1).unwrap(), "2/6/0/8");
        assert_eq!(output("-o %P|%c|%m").lines().nth(1).unwrap(), "batch*|4|4000");
        assert_eq!(output("-t idle -o %n").lines().skip(1).collect::<Vec<_>>(), ["n2"]);
        assert_eq!(
            output("-p short -O partition:8,nodes:6,cpus:4").lines().nth(1).unwrap(),
            "short   1     4   "
        );
    }
}
