//! What to compute in one pass: typed, checked, without repetition.

use crate::{
    column::Schema,
    expr::{self, Domain, Graph, Id, Jagged, Op, Plain, Rows, Scope, Type, Value},
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

/// A histogram of checked values, all of one domain.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    pub(crate) values: Vec<Id>,
    pub(crate) cut: Option<Id>,
    pub(crate) weight: Option<Id>,
    pub(crate) empty: Histogram,
}

/// Values of the entries that pass, or of selected elements of their lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collected {
    pub(crate) id: Id,
    pub(crate) selection: Option<Id>,
}

/// Columns, variables, a cut, and what to make of the entries that pass it.
#[derive(Debug)]
pub struct Plan {
    pub(crate) graph: Graph,
    /// Cuts on entries, in the order in which they were made.
    pub(crate) filters: Vec<Id>,
    pub(crate) fills: Vec<Fill>,
    pub(crate) arrays: Vec<Collected>,
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
            let domain = match &column.collection {
                Some(collection) => scope.collection(collection, &mut graph),
                None => Domain::ENTRIES,
            };
            let id = graph.column(index, column.ty, column.is_optional, domain);
            scope.add_column(&column.name, id, &graph);
        }
        for (name, why) in &schema.refused {
            scope.add_refused(name, why);
        }
        Self {
            graph,
            filters: Vec::new(),
            fills: Vec::new(),
            arrays: Vec::new(),
            schema: schema.clone(),
            scope,
        }
    }

    /// Gives the value of `expr` a name. It may use columns and variables that were defined before.
    pub fn define(&mut self, name: &str, expr: &str) -> Result<()> {
        if name.is_empty() || name.contains('`') {
            return Err(Failure::invalid(format!("{name:?} cannot be the name of a variable")));
        }
        let value = self.value(expr, &format!("define {name}"))?;
        self.scope.define(name, value)
    }

    /// Keeps only entries for which `expr` holds, and all earlier cuts.
    pub fn filter(&mut self, expr: &str) -> Result<()> {
        let cut = self.truth(expr, "where")?;
        if self.graph.domain(cut.id) != Domain::ENTRIES {
            return Err(Failure::invalid(format!(
                "where: {expr:?} is a list[bool], not one bool for each entry"
            ))
            .hint("make one of it with any(…) or all(…), or select elements: Jet.pt[Jet.pt > 30]"));
        }
        self.filters.push(cut.id);
        Ok(())
    }

    /// Adds a histogram and returns its number.
    pub fn histogram(&mut self, spec: HistogramSpec) -> Result<usize> {
        if self.fills.len() == HISTOGRAMS_MAX {
            return Err(Failure::invalid(format!("more than {HISTOGRAMS_MAX} histograms in one pass")));
        }
        let mut values = Vec::new();
        let mut axes = Vec::new();
        for (expr, axis) in &spec.axes {
            values.push(self.number(expr, "hist")?);
            axes.push(axis.clone());
        }
        let names: Vec<&str> = spec.axes.iter().map(|(expr, _)| expr.as_str()).collect();
        let what = names.join(", ");
        let filled = self.align(&values, &what)?;
        let cut = spec.cut.as_deref().map(|cut| self.truth(cut, "where")).transpose()?;
        let weight = spec.weight.as_deref().map(|weight| self.number(weight, "weight")).transpose()?;
        let all: Vec<Plain> = values.iter().copied().chain(cut).chain(weight).collect();
        let (ids, selection) = self.align(&all, &what)?;
        let domain = self.domain_of(&ids);
        if domain != self.domain_of(&filled.0) {
            let which = if weight.is_some_and(|weight| self.graph.domain(weight.id) == domain) {
                "weight"
            } else {
                "where"
            };
            return Err(Failure::invalid(format!(
                "{which} of {what} is a list, the variable has one value for each entry"
            ))
            .hint("make one value of the list, as with any(…) or sum(…)"));
        }
        let mut ids = ids.into_iter();
        let values = ids.by_ref().take(axes.len()).map(|id| self.graph.float(id)).collect();
        let cut = cut.and_then(|_| ids.next());
        let cut = self.graph.both(selection, cut);
        let weight = weight.and_then(|_| ids.next()).map(|id| self.graph.float(id));
        self.fills.push(Fill { values, cut, weight, empty: Histogram::new(axes, weight.is_some())? });
        Ok(self.fills.len() - 1)
    }

    fn align(&mut self, values: &[Plain], what: &str) -> Result<(Vec<Id>, Option<Id>)> {
        expr::align_result(values, &mut self.graph, &self.scope, what)
    }

    /// The domain of aligned values: constants stand in all.
    fn domain_of(&self, ids: &[Id]) -> Domain {
        ids.iter().map(|id| self.graph.domain(*id)).max().unwrap_or(Domain::ENTRIES)
    }

    /// Adds the values of `expr` for all entries that pass the cut, and returns their number.
    pub fn array(&mut self, expr: &str) -> Result<usize> {
        let Plain { id, selection } = self.number(expr, "array")?;
        self.arrays.push(Collected { id, selection });
        Ok(self.arrays.len() - 1)
    }

    /// Type of an expression: `float`, or `list[float]`.
    pub fn type_of(&mut self, expr: &str) -> Result<String> {
        let value = self.value(expr, "expression")?;
        Ok(value.describe(&self.graph))
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
        let mut lists = BTreeSet::new();
        // Arguments have smaller numbers, so one pass downwards reaches everything.
        for index in (0..needed.len()).rev() {
            if !needed[index] {
                continue;
            }
            let id = Id(index as u32);
            lists.insert(self.graph.domain(id));
            match self.graph.node(id).op {
                Op::Column(column) | Op::Present(column) => drop(columns.insert(column)),
                Op::Jagged(Jagged::At(list, _)) => drop(lists.insert(self.graph.domain(list))),
                Op::Jagged(op) => lists.extend(op.source()),
                _ => {}
            }
            for argument in self.graph.arguments(id) {
                needed[argument.index()] = true;
            }
        }
        self.add_lengths(lists, &mut columns);
        columns
    }

    /// Names of the collections of lists, by their number in the graph.
    pub(crate) fn collections(&self) -> &[String] {
        self.scope.collections()
    }

    /// Adds a column for each collection of which only the lengths of the lists matter.
    fn add_lengths(&self, mut lists: BTreeSet<Domain>, columns: &mut BTreeSet<usize>) {
        while let Some(domain) = lists.pop_last() {
            match self.graph.rows(domain) {
                Rows::Entries => {}
                Rows::Joined(a, b) => lists.extend([*a, *b]),
                Rows::Combination(_, parts) => lists.extend(parts.iter().map(|(domain, _)| *domain)),
                Rows::Collection(number) => {
                    let name = Some(&self.scope.collections()[*number]);
                    let of = |column: &usize| self.schema.columns[*column].collection.as_ref() == name;
                    if !columns.iter().any(of) {
                        columns.extend((0..self.schema.columns.len()).find(of));
                    }
                }
            }
        }
    }

    fn roots(&self) -> impl Iterator<Item = Id> + '_ {
        let fills =
            self.fills.iter().flat_map(|fill| fill.values.iter().copied().chain(fill.cut).chain(fill.weight));
        let arrays = self.arrays.iter().flat_map(|array| {
            [array.id].into_iter().chain(self.graph.present(array.id)).chain(array.selection)
        });
        fills.chain(self.filters.iter().copied()).chain(arrays)
    }

    fn value(&mut self, text: &str, context: &str) -> Result<Value> {
        let checked = expr::parse(text).and_then(|expr| expr::check(&expr, &mut self.graph, &self.scope));
        checked.map_err(|failure| expr::point(text, failure).during(context))
    }

    fn number(&mut self, text: &str, context: &str) -> Result<Plain> {
        let value = self.value(text, context)?;
        expr::number(value, &mut self.graph, &self.scope, 1)
            .map_err(|failure| expr::point(text, failure).during(context))
    }

    /// A cut: false where its truth is not known.
    fn truth(&mut self, text: &str, context: &str) -> Result<Plain> {
        let plain = self.number(text, context)?;
        match self.graph.ty(plain.id) {
            Type::Bool => Ok(Plain { id: self.graph.is_true(plain.id), ..plain }),
            ty => Err(Failure::invalid(format!("{context}: {text:?} is {}, not bool", ty.name()))
                .hint("compare it with something, as in x != 0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;

    /// The first line of a message: the others show the place.
    fn said<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().what.lines().next().unwrap_or_default().to_owned()
    }

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
        assert_eq!(said(plan.filter("1 + ptt")), "where: unknown column \"ptt\" at 5; columns are px, py, n");
        assert_eq!(said(plan.filter("px")), "where: \"px\" is float, not bool");
        assert_eq!(said(plan.array("tag")), "array: column \"tag\" at 1 is text");
        assert_eq!(
            said(plan.define("a", "a + 1")).split(';').next(),
            Some("define a: unknown column \"a\" at 1")
        );
        assert_eq!(plan.define("px", "1").unwrap_err().kind, base::ErrorKind::Exists);
    }

    fn jets() -> Plan {
        let list = |name: &str, ty| Column {
            collection: Some(crate::column::collection_of(name).to_owned()),
            ..Column::of(name, ty)
        };
        let columns = vec![
            Column::of("MET_pt", Type::Float),
            list("Jet_pt", Type::Float),
            list("Jet_eta", Type::Float),
            list("Muon_pt", Type::Float),
            list("Muon_jet", Type::Int),
        ];
        Plan::new(&Schema { columns, refused: Vec::new() })
    }

    #[test]
    fn lists_have_types_of_their_own() {
        for (text, ty) in [
            ("Jet.pt", "list[float]"),
            ("Jet_pt > 30", "list[bool]"),
            ("Jet", "list[object]"),
            ("Jet[0]", "object"),
            ("pairs(Jet)", "list[object]"),
            ("pairs(Jet).a.pt", "list[float]"),
            ("sum(Jet_pt > 40) >= 2", "bool"),
            ("argmax(Jet.pt)", "place"),
            ("Jet.pt[argmax(Jet.pt)]", "float"),
            ("count(Jet)", "int"),
            ("Jet.pt[Muon.jet]", "list[float]"),
            ("any(cross(Jet, Muon).a.pt < cross(Jet, Muon).b.pt)", "list[bool]"),
            ("MET.pt", "float"),
        ] {
            assert_eq!(jets().type_of(text).unwrap(), ty, "{text}");
        }
    }

    #[test]
    fn lists_that_do_not_belong_together_are_refused_by_name() {
        let what = |text: &str| said(jets().type_of(text));
        assert_eq!(
            what("Jet_pt > Muon_pt"),
            "expression: `>` at 8 takes values of Jet together with values of Muon"
        );
        assert_eq!(
            what("Jet_pt[Muon_pt > 3]"),
            "expression: `[` at 7 selects from Jet by a condition on Muon"
        );
        assert_eq!(
            what("Jet_pt[Jet_pt > 3] + Jet_eta"),
            "expression: `+` at 20 takes two different selections of Jet together"
        );
        assert_eq!(what("Muon.pt[argmax(Jet.pt)]"), "expression: `[` at 8 takes from Muon a place in Jet");
        assert_eq!(what("any(MET_pt > 3)"), "expression: any at 1 needs a list, found bool at 12");
        assert_eq!(what("pairs(pairs(Jet))"), "expression: pairs at 1 takes lists, found a combination at 7");
        assert_eq!(what("Jet + 1"), "expression: expected a number at 1, found an object");
        assert!(what("Jet.ptt").starts_with("expression: unknown variable of Jet \"ptt\" at 1;"));
        assert!(what("(Jet[0] + Jet[1]).pt").contains("unknown variable of Jet \"phi\""));
    }

    #[test]
    fn variables_of_a_collection_have_its_elements() {
        let mut plan = jets();
        plan.define("Jet_hard", "Jet.pt[Jet.pt > 30]").unwrap();
        plan.define("Jet_muon", "Muon.pt").unwrap();
        plan.define("Jet_double", "2 * Jet.pt").unwrap();
        plan.define("Jet_sum", "sum(Jet.pt)").unwrap();
        assert_eq!(
            said(plan.type_of("pairs(Jet).a.hard")),
            "expression: variable \"hard\" at 11 has values of a selection of Jet, not one for each element of Jet"
        );
        assert_eq!(
            said(plan.type_of("Jet[Jet.pt > 3].muon")),
            "expression: variable \"muon\" at 16 has values of Muon, not one for each element of Jet"
        );
        for (text, ty) in [
            ("Jet.hard", "list[float]"),
            ("Jet.sum", "float"),
            ("Jet[Jet.pt > 3].sum", "list[float]"),
            ("pairs(Jet).a.double + pairs(Jet).b.sum", "list[float]"),
            ("first(Jet).sum", "float"),
        ] {
            assert_eq!(plan.type_of(text).unwrap(), ty, "{text}");
        }
    }

    #[test]
    fn objects_are_bound() {
        let mut plan = jets();
        plan.define("c0", "concat(Jet, Muon)").unwrap();
        plan.define("c1", "concat(c0, c0, c0, c0)").unwrap();
        assert_eq!(
            said(plan.define("c2", "concat(c1, Jet)")),
            "define c2: concat at 1 joins more than 8 lists"
        );
        plan.define("n0", "Jet[Muon.jet]").unwrap();
        let failure = (0..300)
            .find_map(|level| plan.define(&format!("n{}", level + 1), &format!("n{level}[Muon.jet]")).err());
        assert!(failure.unwrap().what.ends_with("object is made of more than 256 others"));
        assert!(plan.type_of("argmin(deltar(Jet, Muon))[Jet.pt > 3]").is_err());
    }

    #[test]
    fn one_element_may_be_taken_in_several_ways() {
        let mut plan = jets();
        plan.array("Muon.jet[argmin(cross(Jet, Muon).b.pt)]").unwrap();
        plan.array("cross(Jet, Muon).b.jet[argmin(cross(Jet, Muon).b.pt)]").unwrap();
    }

    #[test]
    fn a_cut_is_one_for_each_entry_and_a_result_has_one_domain() {
        let mut plan = jets();
        assert_eq!(
            said(plan.filter("Jet_pt > 30")),
            "where: \"Jet_pt > 30\" is a list[bool], not one bool for each entry"
        );
        let mut fill = |variable: &str, cut: &str| {
            let axes = vec![(variable.to_owned(), Axis::regular(1, 0.0, 1.0).unwrap())];
            plan.histogram(HistogramSpec { axes, cut: Some(cut.to_owned()), weight: None })
        };
        assert_eq!(
            fill("MET_pt", "Jet_pt > 30").unwrap_err().what,
            "where of MET_pt is a list, the variable has one value for each entry"
        );
        assert!(fill("Jet_pt", "Muon_pt > 30").unwrap_err().what.contains("values of Muon"));
        fill("Jet_pt", "MET_pt > 30").unwrap();
        fill("Jet_pt", "Jet_eta > 1").unwrap();
    }

    #[test]
    fn lengths_alone_need_a_column() {
        let mut plan = jets();
        plan.filter("count(Muon) > 1").unwrap();
        assert_eq!(plan.columns(), ["Muon_pt"]);
        let mut plan = jets();
        plan.filter("any(deltaphi(Jet.pt, MET_pt) > 1)").unwrap();
        plan.array("count(pairs(Muon))").unwrap();
        assert_eq!(plan.columns(), ["MET_pt", "Jet_pt", "Muon_pt"]);
    }
}
