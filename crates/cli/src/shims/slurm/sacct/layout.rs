//! How `sacct` lays out its lines: `--format=JobID%-20,State`, `--parsable2`.

use super::fields::{FIELDS, Field, Row};
use crate::shims::slurm::site::Site;

/// The columns if nobody asks for others.
const DEFAULT: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
const BRIEF: &str = "JobID,State,ExitCode";
/// Of `--long`, those that are known here.
const LONG: &str = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,AveVMSize,MaxRSS,MaxRSSNode,AveRSS,MinCPU,AveCPU,NTasks,AllocCPUS,\
                    Elapsed,State,ExitCode,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskWrite,AllocTRES";
/// Widest column: a format may come from elsewhere.
const WIDTH_MAX: u16 = 4096;

/// What parts the cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parted {
    /// Cells of fixed width, a blank behind each.
    Padded,
    /// This text between them; behind the last, too, if so asked.
    By { text: String, also_last: bool },
}

/// The layout of a line.
pub(super) struct Layout {
    columns: Vec<(&'static Field, i16)>,
    parted: Parted,
}

impl Layout {
    /// Reads a format; the refusal is that of the original.
    pub(super) fn read(
        format: Option<&str>,
        is_brief: bool,
        is_long: bool,
        parted: Parted,
    ) -> Result<Self, String> {
        let format = format.unwrap_or(match (is_brief, is_long) {
            (true, _) => BRIEF,
            (_, true) => LONG,
            _ => DEFAULT,
        });
        let mut columns = Vec::new();
        for word in format.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if word.eq_ignore_ascii_case("ALL") {
                columns.extend(FIELDS.iter().map(|field| (field, field.width)));
                continue;
            }
            let (name, width) = word.split_once('%').unwrap_or((word, ""));
            let field = found(name).ok_or_else(|| format!("Invalid field requested: \"{name}\""))?;
            columns.push((field, width_of(width).unwrap_or(field.width)));
        }
        Ok(Self { columns, parted })
    }

    /// The lines above the table.
    pub(super) fn headings(&self) -> Vec<String> {
        if self.parted != Parted::Padded {
            return vec![self.line(|field| field.name.to_owned())];
        }
        // A heading is cut without the sign that a cell has.
        let cut = |name: &str, width: i16| name.chars().take(width.unsigned_abs().into()).collect::<String>();
        let names: String = self
            .columns
            .iter()
            .map(|(field, width)| format!("{} ", padded(&cut(field.name, *width), *width)))
            .collect();
        let dashes: String = self
            .columns
            .iter()
            .map(|(_, width)| format!("{} ", "-".repeat(width.unsigned_abs().into())))
            .collect();
        vec![names, dashes]
    }

    /// The line of a job or step.
    pub(super) fn row(&self, row: Row<'_>, site: &Site) -> String {
        self.line(|field| (field.value)(row, site))
    }

    fn line(&self, value: impl Fn(&Field) -> String) -> String {
        let cells = self.columns.iter().map(|(field, width)| (value(field), *width));
        match &self.parted {
            Parted::Padded => cells.map(|(cell, width)| format!("{} ", padded(&cell, width))).collect(),
            Parted::By { text, also_last } => {
                let joined = cells.map(|(cell, _)| cell).collect::<Vec<_>>().join(text);
                if *also_last { joined + text } else { joined }
            }
        }
    }
}

/// A field by its name; a beginning is enough, as with the original.
fn found(name: &str) -> Option<&'static Field> {
    let is = |field: &&Field| field.name.eq_ignore_ascii_case(name);
    let begins = |field: &&Field| {
        !name.is_empty() && field.name.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
    };
    FIELDS.iter().find(is).or_else(|| FIELDS.iter().find(begins))
}

fn width_of(text: &str) -> Option<i16> {
    let width: i16 = text.parse().ok()?;
    (width != 0 && width.unsigned_abs() <= WIDTH_MAX).then_some(width)
}

/// A cell of fixed width; a `+` says that something is missing.
fn padded(text: &str, width: i16) -> String {
    let size = usize::from(width.unsigned_abs());
    let mut cell: String = text.chars().take(size).collect();
    if text.chars().count() > size {
        cell.pop();
        cell.push('+');
    }
    if width < 0 { format!("{cell:<size$}") } else { format!("{cell:>size$}") }
}

/// `--helpformat`: four names a line.
pub(super) fn help() -> Vec<String> {
    FIELDS
        .chunks(4)
        .map(|names| names.iter().map(|field| format!("{:<19}", field.name)).collect::<Vec<_>>().join(" "))
        .collect()
}
