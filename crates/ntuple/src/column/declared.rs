//! What a file declares its columns to be. Files of one chain must agree in it, or be convertible without loss.

use super::Kind;
use parquet::{
    basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical},
    schema::types::ColumnDescriptor,
};
use std::fmt;

/// Step of a time, a timestamp or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

impl Unit {
    /// How many of them a second has.
    fn steps(self) -> u32 {
        match self {
            Self::S => 1,
            Self::Ms => 1_000,
            Self::Us => 1_000_000,
            Self::Ns => 1_000_000_000,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S => "s",
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Ns => "ns",
        })
    }
}

impl From<TimeUnit> for Unit {
    fn from(unit: TimeUnit) -> Self {
        match unit {
            TimeUnit::MILLIS => Self::Ms,
            TimeUnit::MICROS => Self::Us,
            TimeUnit::NANOS => Self::Ns,
        }
    }
}

/// What the values of a column are. Its text is what error messages call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Declared {
    /// Floating point of so many bits.
    Float(u8),
    /// Whole numbers of so many bits.
    Int { bits: u8, is_signed: bool },
    /// Truth values.
    Bool,
    /// Days since 1970.
    Date,
    /// Time since midnight; in UTC or wherever it was written.
    Time(Unit, bool),
    /// Time since 1970; in UTC or wherever it was written.
    Timestamp(Unit, bool),
    /// Length of time.
    Duration(Unit),
    /// Decimals of so many digits, so many of them behind the point.
    Decimal { precision: i64, scale: i64 },
    /// Time of 96 bits, as written before there were timestamps of 64.
    Int96,
    /// Nothing but missing values.
    Null,
    /// What kernels cannot use: its name, and why.
    Other(String, &'static str),
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = |is_utc: bool| if is_utc { ", UTC" } else { "" };
        match self {
            Self::Float(bits) => write!(f, "float{bits}"),
            Self::Int { bits, is_signed } => write!(f, "{}int{bits}", if *is_signed { "" } else { "u" }),
            Self::Bool => f.write_str("bool"),
            Self::Date => f.write_str("date"),
            Self::Time(unit, is_utc) => write!(f, "time[{unit}{}]", zone(*is_utc)),
            Self::Timestamp(unit, is_utc) => write!(f, "timestamp[{unit}{}]", zone(*is_utc)),
            Self::Duration(unit) => write!(f, "duration[{unit}]"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision}, {scale})"),
            Self::Int96 => f.write_str("a 96-bit timestamp"),
            Self::Null => f.write_str("null"),
            Self::Other(name, _) => f.write_str(name),
        }
    }
}

/// How a column of a file is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    /// Two bytes, kept as 32-bit floats.
    F16,
    F32,
    F64,
    I32,
    I64,
    /// Unsigned 32-bit, kept as signed 64-bit.
    U32,
    /// Unsigned 64-bit, kept as signed; larger values are refused.
    U64,
    Bool,
    /// Decimals with so many digits behind the point, kept as 64-bit floats.
    Decimal(u32),
    /// Times, kept as 64-bit floats: how many seconds a step has, and how many steps a second.
    Seconds(u32, u32),
    /// Days and nanoseconds, kept as seconds in 64-bit floats.
    Int96,
    /// Nothing is stored that would have to be read.
    Null,
}

impl Storage {
    /// How the values are kept in memory. Those of a [`Storage::Null`] can be kept as anything.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::F16 | Self::F32 => Kind::F32,
            Self::F64 | Self::Decimal(_) | Self::Seconds(..) | Self::Int96 => Kind::F64,
            Self::I32 => Kind::I32,
            Self::I64 | Self::U32 | Self::U64 => Kind::I64,
            Self::Bool | Self::Null => Kind::Bool,
        }
    }

    pub(super) fn is_decimal(self) -> bool {
        matches!(self, Self::Decimal(_))
    }

    /// The float that a stored whole number stands for.
    pub(super) fn float(self, value: i128) -> f64 {
        // Whole numbers and powers of ten up to these are exact as floats, and so is the quotient but for its one rounding.
        const INT_MAX: u128 = 1 << 53;
        const POWER_MAX: u32 = 22;
        match self {
            Self::Decimal(scale) if value.unsigned_abs() <= INT_MAX && scale <= POWER_MAX => {
                value as f64 / 10f64.powi(scale as i32)
            }
            Self::Decimal(scale) => format!("{value}e-{scale}").parse().unwrap_or(f64::NAN),
            Self::Seconds(length, steps) => value as f64 * f64::from(length) / f64::from(steps),
            _ => value as f64,
        }
    }
}

impl Declared {
    /// What the schema of a file says of a leaf; `duration` is its unit in the Arrow schema, which alone tells durations
    /// from plain integers.
    pub(super) fn new(leaf: &ColumnDescriptor, duration: Option<Unit>) -> Self {
        let declared = match leaf.logical_type_ref() {
            Some(logical) => logical_type(logical),
            None => converted_type(leaf),
        };
        declared.unwrap_or_else(|| physical_type(leaf, duration))
    }

    /// How its values are decoded, or why they cannot be used.
    pub(super) fn storage(&self, physical: Physical) -> Result<Storage, &'static str> {
        const MISFIT: &str = "is stored as what its type does not allow";
        match (self, physical) {
            (Self::Other(_, why), _) => Err(why),
            (Self::Decimal { .. }, _) => Err("is decimal; numbers=[…] reads it as a float"),
            (Self::Int96, _) => Err("is an old 96-bit timestamp; numbers=[…] reads it as seconds"),
            (Self::Null, _) => Ok(Storage::Null),
            (Self::Float(16), Physical::FIXED_LEN_BYTE_ARRAY) => Ok(Storage::F16),
            (Self::Float(32), Physical::FLOAT) => Ok(Storage::F32),
            (Self::Float(64), Physical::DOUBLE) => Ok(Storage::F64),
            (Self::Bool, Physical::BOOLEAN) => Ok(Storage::Bool),
            (Self::Int { is_signed: false, .. }, Physical::INT32) => Ok(Storage::U32),
            (Self::Int { is_signed: false, .. }, Physical::INT64) => Ok(Storage::U64),
            (Self::Float(_) | Self::Bool, _) => Err(MISFIT),
            (_, Physical::INT32) => Ok(Storage::I32),
            (_, Physical::INT64) => Ok(Storage::I64),
            _ => Err(MISFIT),
        }
    }

    /// How its values are decoded as floats; `None` if they are plain numbers, or no numbers at all.
    pub(super) fn number(&self) -> Option<Storage> {
        match self {
            Self::Decimal { scale, .. } => u32::try_from(*scale).ok().map(Storage::Decimal),
            Self::Date => Some(Storage::Seconds(86_400, 1)),
            Self::Time(unit, _) | Self::Timestamp(unit, _) | Self::Duration(unit) => {
                Some(Storage::Seconds(1, unit.steps()))
            }
            Self::Int96 => Some(Storage::Int96),
            _ => None,
        }
    }

    /// Whether no file has it as numbers that kernels can use.
    fn is_unusable(&self) -> bool {
        matches!(self, Self::Other(..) | Self::Decimal { .. } | Self::Int96)
    }

    /// Whether values of both can stand in one column: numbers of one sort fit into the wider of the two without a change
    /// of value, everything else must be the same. Times of other units are not converted: a number that an expression
    /// compares them with would mean something else.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(_), Self::Float(_))
            | (Self::Int { .. }, Self::Int { .. })
            | (Self::Null, _)
            | (_, Self::Null) => true,
            (a, b) => a == b || (a.is_unusable() && b.is_unusable()),
        }
    }
}

/// `None` if the physical type says it all.
fn logical_type(logical: &LogicalType) -> Option<Declared> {
    let other = |name: &str, why| Some(Declared::Other(name.to_owned(), why));
    match logical {
        LogicalType::Integer(int) => {
            Some(Declared::Int { bits: int.bit_width.unsigned_abs(), is_signed: int.is_signed })
        }
        LogicalType::Date => Some(Declared::Date),
        LogicalType::Time(time) => Some(Declared::Time(time.unit.into(), time.is_adjusted_to_u_t_c)),
        LogicalType::Timestamp(time) => {
            Some(Declared::Timestamp(time.unit.into(), time.is_adjusted_to_u_t_c))
        }
        LogicalType::Decimal(decimal) => {
            Some(decimal_type(i64::from(decimal.precision), i64::from(decimal.scale)))
        }
        LogicalType::Float16 => Some(Declared::Float(16)),
        LogicalType::Unknown => Some(Declared::Null),
        LogicalType::Uuid => other("UUID", BYTES),
        LogicalType::String | LogicalType::Enum | LogicalType::Json => other("text", BYTES),
        LogicalType::Bson => other("bytes", BYTES),
        // On these physical types nothing else stands; a type that is yet to be defined may.
        LogicalType::Map | LogicalType::List => None,
        _ => other("of an unknown logical type", "is of a logical type that is not known"),
    }
}

const BYTES: &str = "is text or bytes, not numbers";

fn decimal_type(precision: i64, scale: i64) -> Declared {
    Declared::Decimal { precision, scale }
}

/// What files of before 2018 say instead of a logical type. Their times are in UTC (parquet-format, LogicalTypes.md).
fn converted_type(leaf: &ColumnDescriptor) -> Option<Declared> {
    let int = |bits, is_signed| Some(Declared::Int { bits, is_signed });
    match leaf.converted_type() {
        ConvertedType::DECIMAL => {
            Some(decimal_type(i64::from(leaf.type_precision()), i64::from(leaf.type_scale())))
        }
        ConvertedType::DATE => Some(Declared::Date),
        ConvertedType::TIME_MILLIS => Some(Declared::Time(Unit::Ms, true)),
        ConvertedType::TIME_MICROS => Some(Declared::Time(Unit::Us, true)),
        ConvertedType::TIMESTAMP_MILLIS => Some(Declared::Timestamp(Unit::Ms, true)),
        ConvertedType::TIMESTAMP_MICROS => Some(Declared::Timestamp(Unit::Us, true)),
        ConvertedType::UINT_8 => int(8, false),
        ConvertedType::UINT_16 => int(16, false),
        ConvertedType::UINT_32 => int(32, false),
        ConvertedType::UINT_64 => int(64, false),
        ConvertedType::INT_8 => int(8, true),
        ConvertedType::INT_16 => int(16, true),
        ConvertedType::INT_32 => int(32, true),
        ConvertedType::INT_64 => int(64, true),
        ConvertedType::INTERVAL => Some(Declared::Other("interval".to_owned(), BYTES)),
        _ => None,
    }
}

fn physical_type(leaf: &ColumnDescriptor, duration: Option<Unit>) -> Declared {
    let other = |name: &str, why| Declared::Other(name.to_owned(), why);
    match (leaf.physical_type(), duration) {
        (Physical::FLOAT, _) => Declared::Float(32),
        (Physical::DOUBLE, _) => Declared::Float(64),
        (Physical::BOOLEAN, _) => Declared::Bool,
        (Physical::INT64, Some(unit)) => Declared::Duration(unit),
        (Physical::INT64, None) => Declared::Int { bits: 64, is_signed: true },
        (Physical::INT32, _) => Declared::Int { bits: 32, is_signed: true },
        (Physical::INT96, _) => Declared::Int96,
        (Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY, _) => other("text or bytes", BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::schema::{parser::parse_message_type, types::SchemaDescriptor};
    use std::sync::Arc;

    fn declared(declaration: &str, duration: Option<Unit>) -> Declared {
        let schema = parse_message_type(&format!("message m {{ optional {declaration}; }}")).unwrap();
        Declared::new(&SchemaDescriptor::new(Arc::new(schema)).column(0), duration)
    }

    #[test]
    fn every_declaration_has_its_name() {
        for (declaration, name) in [
            ("int32 a", "int32"),
            ("int64 a", "int64"),
            ("int32 a (INTEGER(8,false))", "uint8"),
            ("int64 a (INTEGER(64,false))", "uint64"),
            ("int32 a (UINT_16)", "uint16"),
            ("float a", "float32"),
            ("double a", "float64"),
            ("fixed_len_byte_array(2) a (FLOAT16)", "float16"),
            ("boolean a", "bool"),
            ("int32 a (DATE)", "date"),
            ("int32 a (TIME(MILLIS,false))", "time[ms]"),
            ("int64 a (TIME(NANOS,true))", "time[ns, UTC]"),
            ("int64 a (TIMESTAMP(MICROS,false))", "timestamp[us]"),
            ("int64 a (TIMESTAMP_MILLIS)", "timestamp[ms, UTC]"),
            ("int32 a (DECIMAL(9,2))", "decimal(9, 2)"),
            ("binary a (STRING)", "text"),
            ("binary a", "text or bytes"),
            ("int96 a", "a 96-bit timestamp"),
        ] {
            assert_eq!(declared(declaration, None).to_string(), name, "{declaration}");
        }
        assert_eq!(declared("int64 a", Some(Unit::S)).to_string(), "duration[s]");
        assert_eq!(
            declared("int64 a (TIMESTAMP(MICROS,true))", Some(Unit::S)).to_string(),
            "timestamp[us, UTC]"
        );
    }

    #[test]
    fn only_numbers_of_one_sort_fit() {
        let all = [
            Declared::Float(32),
            Declared::Int { bits: 32, is_signed: true },
            Declared::Bool,
            Declared::Date,
            Declared::Time(Unit::Us, false),
            Declared::Time(Unit::Us, true),
            Declared::Timestamp(Unit::Ms, true),
            Declared::Timestamp(Unit::Us, true),
            Declared::Timestamp(Unit::Us, false),
            Declared::Duration(Unit::Us),
            Declared::Duration(Unit::Ns),
            decimal_type(9, 2),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(a.fits(b), i == j, "{a} {b}");
            }
            assert!(a.fits(&Declared::Null) && Declared::Null.fits(a));
        }
        assert!(Declared::Float(16).fits(&Declared::Float(64)));
        assert!(
            Declared::Int { bits: 8, is_signed: false }.fits(&Declared::Int { bits: 64, is_signed: true })
        );
        assert!(decimal_type(9, 2).fits(&decimal_type(18, 3)));
    }
}
