//! What a column is in the files of a chain that lack it.

use super::{Array, Kind, Values, decode::missing};
use std::{collections::BTreeMap, fmt};

/// One value for all entries of the files that lack a column, and for all elements of their lists.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DefaultValue {
    /// No value.
    Missing,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number; never NaN, see [`DefaultValue::float`].
    Float(f64),
}

/// Defaults by the names of their columns.
pub type Defaults = BTreeMap<String, DefaultValue>;

impl fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("None"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}

impl DefaultValue {
    /// A float; NaN is no value.
    #[must_use]
    pub fn float(value: f64) -> Self {
        if value.is_nan() { Self::Missing } else { Self::Float(value) }
    }

    /// The kind that holds it together with values of `kind`; `None` if it is of another type. As NumPy does, it is rounded
    /// to the floats of the column unless that makes it infinite.
    pub(crate) fn widen(self, kind: Kind) -> Option<Kind> {
        match (self, kind) {
            (Self::Missing, kind) => Some(kind),
            (Self::Bool(_), Kind::Bool) => Some(Kind::Bool),
            (Self::Int(value), Kind::I32) if i32::try_from(value).is_err() => Some(Kind::I64),
            (Self::Int(_), Kind::I32 | Kind::I64 | Kind::F64) => Some(kind),
            (Self::Int(value), Kind::F32) => Some(narrowest(value as f64)),
            (Self::Float(value), Kind::F32) => Some(narrowest(value)),
            (Self::Float(_), Kind::F64) => Some(kind),
            _ => None,
        }
    }

    /// `count` times this value. The kind is one that [`DefaultValue::widen`] gave.
    pub(crate) fn repeat(self, kind: Kind, count: usize) -> Values {
        let (int, float) = match self {
            Self::Missing => return missing(kind, count),
            Self::Bool(value) => (i64::from(value), f64::from(value)),
            Self::Int(value) => (value, value as f64),
            Self::Float(value) => (value as i64, value),
        };
        Values::from(match kind {
            Kind::F32 => Array::F32(vec![float as f32; count]),
            Kind::F64 => Array::F64(vec![float; count]),
            Kind::I32 => Array::I32(vec![int as i32; count]),
            Kind::I64 => Array::I64(vec![int; count]),
            Kind::Bool => Array::Bool(vec![int as u8; count]),
        })
    }
}

fn narrowest(value: f64) -> Kind {
    if value.is_finite() && (value as f32).is_infinite() { Kind::F64 } else { Kind::F32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_of_the_type_of_its_column() {
        use DefaultValue::{Bool, Float, Int, Missing};
        for (default, kind, widened) in [
            (Bool(true), Kind::Bool, Some(Kind::Bool)),
            (Bool(true), Kind::I32, None),
            (Int(1), Kind::Bool, None),
            (Int(1 << 31), Kind::I32, Some(Kind::I64)),
            (Int(-7), Kind::F32, Some(Kind::F32)),
            (Float(0.5), Kind::I64, None),
            (Float(0.1), Kind::F32, Some(Kind::F32)),
            (Float(1e300), Kind::F32, Some(Kind::F64)),
            (Float(f64::INFINITY), Kind::F32, Some(Kind::F32)),
            (Missing, Kind::Bool, Some(Kind::Bool)),
        ] {
            assert_eq!(default.widen(kind), widened, "{default} {kind:?}");
        }
        assert_eq!(DefaultValue::float(f64::NAN), Missing);
        assert_eq!(Int(-7).repeat(Kind::F32, 2).array, Array::F32(vec![-7.0; 2]));
        assert_eq!(Bool(true).repeat(Kind::Bool, 1).array, Array::Bool(vec![1]));
        assert_eq!(Missing.repeat(Kind::I64, 2).present, Some(vec![0; 2]));
    }
}
