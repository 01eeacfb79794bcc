//! Stored numbers that are not those of the processor: decimals, old timestamps, floats of 16 bits.

use parquet::{data_type::FixedLenByteArray, errors::ParquetError};

/// The whole number of a decimal: big-endian bytes with a sign.
pub(super) fn whole(bytes: &[u8]) -> Result<i128, ParquetError> {
    let Some(first) = bytes.first() else {
        return Err(ParquetError::General("decimal without a byte".to_owned()));
    };
    if bytes.len() > size_of::<i128>() {
        return Err(ParquetError::NYI(format!("decimal of {} bytes; 16 are possible", bytes.len())));
    }
    let sign = if *first < 0x80 { 0 } else { -1 };
    Ok(bytes.iter().fold(sign, |value, byte| value << 8 | i128::from(*byte)))
}

/// Seconds since 1970 of a timestamp of 96 bits: nanoseconds since midnight, and the Julian day.
pub(super) fn seconds(words: &[u32]) -> f64 {
    const DAY_OF_1970: i64 = 2_440_588;
    let [low, high, day] = [0, 1, 2].map(|word| words.get(word).copied().unwrap_or_default());
    let nanoseconds = (u64::from(high) << 32 | u64::from(low)).cast_signed();
    // Spark adds in microseconds and lets them overflow: times in 290,000 years have negative days.
    let days = (i64::from(day.cast_signed()) - DAY_OF_1970).wrapping_mul(86_400_000_000);
    let microseconds = days.wrapping_add(nanoseconds.div_euclid(1000));
    microseconds as f64 / 1e6 + nanoseconds.rem_euclid(1000) as f64 / 1e9
}

/// A 16-bit float with 32 bits, which hold each of its values.
pub(super) fn half(bytes: &FixedLenByteArray) -> Result<f32, ParquetError> {
    let bytes: [u8; 2] =
        bytes.data().try_into().map_err(|_| ParquetError::General("value is not of 2 bytes".to_owned()))?;
    Ok(half_bits(u16::from_le_bytes(bytes)))
}

/// The value of the bits of a 16-bit float.
pub(super) fn half_bits(bits: u16) -> f32 {
    let (exponent, fraction) = (u32::from(bits >> 10) & 0x1f, u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // 2⁻²⁴ is the smallest of all; the product is exact.
        0 => fraction as f32 * (1.0 / 16_777_216.0),
        31 => f32::from_bits(0xff << 23 | fraction << 13),
        _ => f32::from_bits((exponent + 127 - 15) << 23 | fraction << 13),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_float_is_exact() {
        let half = half_bits;
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3c00, 1.0),
            (0x3c01, 1.0 + 2f32.powi(-10)),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(half(bits), value);
            assert_eq!(half(bits | 0x8000).to_bits(), (-value).to_bits());
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn decimals_are_the_nearest_floats() {
        use super::super::declared::Storage;
        let of = |bytes: &[u8], scale| Storage::Decimal(scale).float(whole(bytes).unwrap());
        for (bytes, scale, value) in [
            (&[0x01][..], 1, 0.1),
            (&[0xff], 2, -0.01),
            (&[0x30, 0x39], 2, 123.45),
            (&[0xff, 0xcf, 0xc7], 0, -12345.0),
            (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 18, 9.223_372_036_854_776),
            (&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 38, -1.701_411_834_604_692_3),
        ] {
            assert_eq!(of(bytes, scale), value, "{bytes:?} {scale}");
        }
        assert!(whole(&[]).is_err() && whole(&[0; 17]).is_err());
        assert_eq!(Storage::Seconds(1, 1_000).float(1500), 1.5);
        assert_eq!(Storage::Seconds(86_400, 1).float(-1), -86_400.0);
        // Noon of the first day of 1970.
        assert_eq!(seconds(&[0x48a7_8000, 10_058, 2_440_588]), 43_200.0);
    }
}
