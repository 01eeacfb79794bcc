//! What operators yield for given values.

use super::{Binary, Cmp, Scalar, Unary};

/// `op` of one value. The checker gives every operation the type that it takes.
pub(crate) fn apply_unary(op: Unary, a: Scalar) -> Scalar {
    match (op, a) {
        (Unary::Not, Scalar::Bool(a)) => Scalar::Bool(!a),
        (Unary::ToInt, Scalar::Bool(a)) => Scalar::Int(i64::from(a)),
        (Unary::ToFloat, Scalar::Bool(a)) => Scalar::Float(f64::from(u8::from(a))),
        (Unary::ToFloat, Scalar::Int(a)) => Scalar::Float(a as f64),
        (Unary::Neg, Scalar::Int(a)) => Scalar::Int(a.wrapping_neg()),
        (Unary::Abs, Scalar::Int(a)) => Scalar::Int(a.wrapping_abs()),
        (Unary::IsNan, Scalar::Float(a)) => Scalar::Bool(a.is_nan()),
        (op, Scalar::Float(a)) => Scalar::Float(float_unary(op, a)),
        (op, a) => unreachable!("the checker never makes {op:?} of {a:?}"),
    }
}

/// Float functions of one argument; the vector kernels call the same.
#[inline(always)]
pub(crate) fn float_unary(op: Unary, a: f64) -> f64 {
    match op {
        Unary::Sqrt => a.sqrt(),
        Unary::Exp => a.exp(),
        Unary::Expm1 => a.exp_m1(),
        Unary::Log => a.ln(),
        Unary::Log1p => a.ln_1p(),
        Unary::Log10 => a.log10(),
        Unary::Log2 => a.log2(),
        Unary::Sin => a.sin(),
        Unary::Cos => a.cos(),
        Unary::Tan => a.tan(),
        Unary::Asin => a.asin(),
        Unary::Acos => a.acos(),
        Unary::Atan => a.atan(),
        Unary::Sinh => a.sinh(),
        Unary::Cosh => a.cosh(),
        Unary::Tanh => a.tanh(),
        Unary::Asinh => a.asinh(),
        Unary::Acosh => a.acosh(),
        Unary::Atanh => a.atanh(),
        Unary::SignedSqrt => a.abs().sqrt().copysign(a),
        Unary::Floor => a.floor(),
        Unary::Ceil => a.ceil(),
        Unary::Round => a.round_ties_even(),
        Unary::Neg => -a,
        Unary::Abs => a.abs(),
        Unary::IsNan | Unary::Not | Unary::ToFloat | Unary::ToInt => a,
    }
}

/// `op` of two values of one type.
pub(crate) fn apply_binary(op: Binary, a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(if op == Binary::And { a && b } else { a || b }),
        (Scalar::Int(a), Scalar::Int(b)) => Scalar::Int(int_binary(op, a, b)),
        (Scalar::Float(a), Scalar::Float(b)) => Scalar::Float(float_binary(op, a, b)),
        (a, b) => unreachable!("the checker never makes {op:?} of {a:?} and {b:?}"),
    }
}

/// Float functions of two arguments; the vector kernels call the same.
#[inline(always)]
pub(crate) fn float_binary(op: Binary, a: f64, b: f64) -> f64 {
    match op {
        Binary::Add | Binary::Or => a + b,
        Binary::Sub => a - b,
        Binary::Mul | Binary::And => a * b,
        Binary::Div => a / b,
        Binary::Mod => float_modulo(a, b),
        // NaN on either side gives NaN, as NumPy's minimum and maximum.
        Binary::Min => {
            if a.is_nan() || a < b {
                a
            } else {
                b
            }
        }
        Binary::Max => {
            if a.is_nan() || a > b {
                a
            } else {
                b
            }
        }
        Binary::Pow => a.powf(b),
        Binary::Atan2 => a.atan2(b),
        Binary::Hypot => hypot(a, b),
    }
}

/// Integer functions of two arguments.
#[inline(always)]
pub(crate) fn int_binary(op: Binary, a: i64, b: i64) -> i64 {
    match op {
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Mod => int_modulo(a, b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        _ => a.wrapping_add(b),
    }
}

/// Whether `radius`, the root of a sum of two squares, is as good as the two squares can make it: neither of them that
/// counts was too small for a normal number, and none too large for a number. NaN and infinity are never certain.
#[inline(always)]
pub(crate) fn is_sure_radius(radius: f64) -> bool {
    /// 2⁻⁴⁸⁴: what is lost of a square below the normal numbers is less than 2⁻¹⁰⁷ of the sum.
    const LEAST: f64 = f64::from_bits((1023 - 484) << 52);
    (LEAST..=f64::MAX).contains(&radius)
}

/// `sqrt(a² + b²)` without overflow or underflow on the way; infinite if either is, even beside NaN.
#[inline(always)]
fn hypot(a: f64, b: f64) -> f64 {
    let radius = (a * a + b * b).sqrt();
    if is_sure_radius(radius) { radius } else { a.hypot(b) }
}

/// Remainder with the sign of `b`, also if it is 0, as NumPy.
#[inline(always)]
fn float_modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    match () {
        () if rest == 0.0 => rest.copysign(b),
        () if (rest < 0.0) != (b < 0.0) => rest + b,
        () => rest,
    }
}

/// Remainder with the sign of `b`; 0 if `b` is 0, as NumPy.
#[inline(always)]
fn int_modulo(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

/// Whether `a` stands in the relation `op` to `b`.
pub(crate) fn compare(op: Cmp, a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => holds(op, a, b),
        (Scalar::Int(a), Scalar::Int(b)) => holds(op, a, b),
        (Scalar::Bool(a), Scalar::Bool(b)) => holds(op, a, b),
        (a, b) => unreachable!("the checker never compares {a:?} with {b:?}"),
    }
}

/// Whether `a` stands in the relation `op` to `b`.
#[inline(always)]
pub(crate) fn holds<T: PartialOrd>(op: Cmp, a: T, b: T) -> bool {
    match op {
        Cmp::Less => a < b,
        Cmp::LessEqual => a <= b,
        Cmp::Equal => a == b,
        Cmp::NotEqual => a != b,
    }
}
