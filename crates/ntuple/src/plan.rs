//! What to compute in one pass: typed, checked, without repetition.

use crate::{
    column::Schema,
    expr::{self, Graph, Id, Op, Scope, Type},
    fill::{Axis, Histogram},
};
use base::{Failure, Result};
use std::collections::BTreeSet;

/// Histograms of one pass.
pub const HISTOGRAMS_MAX: usize = 4096;

/// One histogram to fill.
#[derive(Debug, Clone)]
pub struct HistogramSpec {
    /// What is filled, an expression for each axis.
    pub axes: Vec<(String, Axis)>,
    /// Which entries; all if `None`.
    pub cut: Option<String>,
    /// Weight of an entry; with it the bins hold sums of weights and of their squares.
    pub weight: Option<String>,
}

/// A histogram of checked values.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    pub(crate) values: Vec<Id>,
    pub(crate) cut: Option<Id>,
    pub(crate) weight: Option<Id>,
    pub(crate) empty: Histogram,
}

/// Columns, variables, a cut, and what to make of the entries that pass it.
#[derive(Debug)]
pub struct Plan {
    pub(crate) graph: Graph,
    pub(crate) filter: Option<Id>,
    pub(crate) fills: Vec<Fill>,
    pub(crate) arrays: Vec<Id>,
    pub(crate) schema: Schema,
    scope: Scope,
}

impl Plan {
    /// An empty plan for n-tuples of `schema`.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let mut graph = Graph::default();
        let mut scope = Scope::default();
        for (index, column) in schema.columns.iter().enumerate() {
            scope.add_column(&column.name, graph.column(index, column.ty, column.is_optional));
        }
        for (name, why) in &schema.refused {
            scope.add_refused(name, why);
        }
        Self { graph, filter: None, fills: Vec::new(), arrays: Vec::new(), schema: schema.clone(), scope }
    }

    /// Gives the value of `expr` a name. It may use columns and variables that were defined before.
    pub fn define(&mut self, name: &str, expr: &str) -> Result<()> {
        if name.is_empty() || name.contains('`') {
            return Err(Failure::invalid(format!("{name:?} cannot be the name of a variable")));
        }
        let id = self.value(expr, &format!("define {name}"))?;
        self.scope.define(name, id)
    }

    /// Keeps only entries for which `expr` holds, and all earlier cuts.
    pub fn filter(&mut self, expr: &str) -> Result<()> {
        let id = self.truth(expr, "where")?;
        self.filter = Some(match self.filter {
            Some(before) => self.graph.both_true(before, id),
            None => id,
        });
        Ok(())
    }

    /// Adds a histogram and returns its number.
    pub fn histogram(&mut self, spec: HistogramSpec) -> Result<usize> {
        if self.fills.len() == HISTOGRAMS_MAX {
            return Err(Failure::invalid(format!("more than {HISTOGRAMS_MAX} histograms in one pass")));
        }
        let mut values = Vec::new();
        let mut axes = Vec::new();
        for (expr, axis) in spec.axes {
            let id = self.value(&expr, "hist")?;
            values.push(self.graph.float(id));
            axes.push(axis);
        }
        let cut = spec.cut.map(|cut| self.truth(&cut, "where")).transpose()?;
        let weight = spec.weight.map(|weight| self.value(&weight, "weight")).transpose()?;
        let weight = weight.map(|id| self.graph.float(id));
        self.fills.push(Fill { values, cut, weight, empty: Histogram::new(axes, weight.is_some())? });
        Ok(self.fills.len() - 1)
    }

    /// Adds the values of `expr` for all entries that pass the cut, and returns their number.
    pub fn array(&mut self, expr: &str) -> Result<usize> {
        let id = self.value(expr, "array")?;
        self.arrays.push(id);
        Ok(self.arrays.len() - 1)
    }

    /// Type of an expression; its errors are those of filling it.
    pub fn type_of(&mut self, expr: &str) -> Result<Type> {
        let id = self.value(expr, "expression")?;
        Ok(self.graph.ty(id))
    }

    /// Names of the columns that are read.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        self.column_indices().into_iter().map(|column| self.schema.columns[column].name.as_str()).collect()
    }

    /// Columns that are read, as indices of the schema.
    pub(crate) fn column_indices(&self) -> BTreeSet<usize> {
        let mut needed = vec![false; self.graph.len()];
        for root in self.roots() {
            needed[root.index()] = true;
        }
        let mut columns = BTreeSet::new();
        // Arguments have smaller numbers, so one pass downwards reaches everything.
        for index in (0..needed.len()).rev() {
            if !needed[index] {
                continue;
            }
            let arguments: &[Id] = match self.graph.node(Id(index as u32)).op {
                Op::Const(_) => &[],
                Op::Column(column) | Op::Present(column) => {
                    columns.insert(column);
                    &[]
                }
                Op::Unary(_, a) => &[a],
                Op::Binary(_, a, b) | Op::Compare(_, a, b) => &[a, b],
                Op::Select(a, b, c) => &[a, b, c],
            };
            for argument in arguments {
                needed[argument.index()] = true;
            }
        }
        columns
    }

    fn roots(&self) -> impl Iterator<Item = Id> + '_ {
        let fills =
            self.fills.iter().flat_map(|fill| fill.values.iter().copied().chain(fill.cut).chain(fill.weight));
        let arrays = self.arrays.iter().flat_map(|id| [*id].into_iter().chain(self.graph.present(*id)));
        fills.chain(self.filter).chain(arrays)
    }

    fn value(&mut self, text: &str, context: &str) -> Result<Id> {
        let checked = expr::parse(text).and_then(|expr| expr::check(&expr, &mut self.graph, &self.scope));
        checked.map_err(|failure| failure.during(context))
    }

    /// A cut: false where its truth is not known.
    fn truth(&mut self, text: &str, context: &str) -> Result<Id> {
        let id = self.value(text, context)?;
        match self.graph.ty(id) {
            Type::Bool => Ok(self.graph.is_true(id)),
            ty => Err(Failure::invalid(format!("{context}: {text:?} is {}, not bool", ty.name()))
                .hint("compare it with something, as in x != 0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;

    fn plan() -> Plan {
        let columns = [("px", Type::Float), ("py", Type::Float), ("n", Type::Int)];
        let columns = columns.map(|(name, ty)| Column::of(name, ty));
        Plan::new(&Schema {
            columns: columns.into(),
            refused: vec![("tag".to_owned(), "is text".to_owned())],
        })
    }

    #[test]
    fn only_the_columns_of_the_results_are_read() {
        let mut plan = plan();
        plan.define("pt", "sqrt(px*px + py*py)").unwrap();
        plan.define("unused", "n + 1").unwrap();
        assert!(plan.columns().is_empty());
        plan.filter("pt > 1").unwrap();
        assert_eq!(plan.columns(), ["px", "py"]);
        plan.array("unused").unwrap();
        assert_eq!(plan.columns(), ["px", "py", "n"]);
    }

    #[test]
    fn errors_say_which_part_is_wrong() {
        let mut plan = plan();
        assert_eq!(
            plan.filter("1 + ptt").unwrap_err().what,
            "where: unknown column \"ptt\" at 5; columns are px, py, n"
        );
        assert_eq!(plan.filter("px").unwrap_err().what, "where: \"px\" is float, not bool");
        assert_eq!(plan.array("tag").unwrap_err().what, "array: column \"tag\" at 1 is text");
        assert_eq!(
            plan.define("a", "a + 1").unwrap_err().what.split(';').next(),
            Some("define a: unknown column \"a\" at 1")
        );
        assert_eq!(plan.define("px", "1").unwrap_err().kind, base::ErrorKind::Exists);
    }
}
