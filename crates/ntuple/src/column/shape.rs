//! Where the leaves of a Parquet schema stand: alone, in a structure, in a list.
//!
//! Lists are written in several ways (parquet-format, LogicalTypes.md, "Lists" and its rules for older files). All of them
//! come down to one thing: at which definition level an entry has an element. A leaf of a list of structures, `Jet` with
//! `pt`, is the column `Jet.pt`, as is the leaf of a structure, `MET` with `pt`.

use parquet::{
    basic::{ConvertedType, LogicalType, Repetition},
    schema::types::{SchemaDescriptor, Type},
};

/// Where one leaf stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Name of the column: the structures around the leaf and itself, without what lists put between.
    pub(super) name: String,
    /// For a list: the least definition level of an entry with an element. Below it the list is empty or missing.
    pub(super) element: Option<i16>,
    /// Why kernels cannot use it.
    pub(super) refused: Option<&'static str>,
}

/// The shapes of all leaves, in their order.
pub(super) fn shapes(schema: &SchemaDescriptor) -> Vec<Shape> {
    let mut found = Vec::new();
    for field in schema.root_schema().get_fields() {
        Place::default().walk(field, Some(field.name()), &mut found);
    }
    found
}

/// What was passed on the way to a node.
#[derive(Debug, Clone, Default)]
struct Place {
    name: String,
    level: i16,
    element: Option<i16>,
    refused: Option<&'static str>,
}

impl Place {
    /// Goes through `node`; `name` is what it adds to the name of its leaves.
    fn walk(&self, node: &Type, name: Option<&str>, found: &mut Vec<Shape>) {
        let mut here = self.clone();
        if let Some(name) = name {
            here.name = if here.name.is_empty() { name.to_owned() } else { format!("{}.{name}", here.name) };
        }
        match node.get_basic_info().repetition() {
            Repetition::REQUIRED => {}
            Repetition::OPTIONAL => here.level += 1,
            Repetition::REPEATED => {
                here.level += 1;
                if here.element.replace(here.level).is_some() {
                    here.refused = Some("is a list of lists; only lists of values can be used");
                }
            }
        }
        if node.is_primitive() {
            let Self { name, element, refused, .. } = here;
            found.push(Shape { name, element, refused });
            return;
        }
        if is_map(node) {
            here.refused = Some("is a map; only lists and structures of values can be used");
        }
        let fields = node.get_fields();
        if is_list(node)
            && let [repeated] = fields
        {
            here.repeated(repeated, node.name(), found);
            return;
        }
        for field in fields {
            here.walk(field, Some(field.name()), found);
        }
    }

    /// The repeated node of a list is its element, or has its element as the only field.
    fn repeated(&self, node: &Type, list: &str, found: &mut Vec<Shape>) {
        let has_element = !node.is_primitive()
            && node.get_fields().len() == 1
            && node.name() != "array"
            && node.name() != format!("{list}_tuple");
        if !has_element {
            return self.walk(node, None, found);
        }
        let mut inside = self.clone();
        if node.get_basic_info().repetition() == Repetition::REPEATED {
            inside.level += 1;
            if inside.element.replace(inside.level).is_some() {
                inside.refused = Some("is a list of lists; only lists of values can be used");
            }
        }
        inside.walk(&node.get_fields()[0], None, found);
    }
}

fn is_list(node: &Type) -> bool {
    let info = node.get_basic_info();
    matches!(info.logical_type_ref(), Some(LogicalType::List)) || info.converted_type() == ConvertedType::LIST
}

fn is_map(node: &Type) -> bool {
    let info = node.get_basic_info();
    matches!(info.logical_type_ref(), Some(LogicalType::Map))
        || matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    fn shape(declaration: &str) -> Vec<(String, Option<i16>, bool)> {
        let schema = parse_message_type(&format!("message m {{ {declaration} }}")).unwrap();
        let found = shapes(&SchemaDescriptor::new(Arc::new(schema)));
        found.into_iter().map(|shape| (shape.name, shape.element, shape.refused.is_some())).collect()
    }

    #[test]
    fn every_way_to_write_a_list_is_one() {
        let of = |name: &str, element| vec![(name.to_owned(), element, false)];
        assert_eq!(shape("required float a;"), of("a", None));
        assert_eq!(
            shape("required group a (LIST) { repeated group list { required float element; } }"),
            of("a", Some(1))
        );
        assert_eq!(
            shape("optional group a (LIST) { repeated group list { optional float element; } }"),
            of("a", Some(2))
        );
        assert_eq!(shape("optional group a (LIST) { repeated float array; }"), of("a", Some(2)));
        assert_eq!(shape("repeated float a;"), of("a", Some(1)));
        assert_eq!(
            shape("optional group a (LIST) { repeated group bag { optional float array_element; } }"),
            of("a", Some(2))
        );
        assert_eq!(
            shape("optional group a (LIST) { repeated group array { required float pt; } }"),
            of("a.pt", Some(2))
        );
    }

    #[test]
    fn structures_give_their_leaves_a_name() {
        assert_eq!(shape("required group MET { optional float pt; }"), [("MET.pt".to_owned(), None, false)]);
        let jets = "optional group Jet (LIST) { repeated group list { optional group element { \
                    optional float pt; optional float eta; } } }";
        let expected = ["Jet.pt", "Jet.eta"].map(|name| (name.to_owned(), Some(2), false));
        assert_eq!(shape(jets), expected);
    }

    #[test]
    fn deeper_lists_and_maps_are_refused() {
        let deep = "optional group a (LIST) { repeated group list { optional group element (LIST) { \
                    repeated group list { optional float element; } } } }";
        assert!(shape(deep)[0].2);
        let map = "optional group a (MAP) { repeated group key_value { required int32 key; optional float value; } }";
        assert!(shape(map).iter().all(|(_, _, refused)| *refused));
    }
}
