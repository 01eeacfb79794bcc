//! Sizes of memory as Slurm writes them.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Reads a size: mebibytes, or with the unit K, M, G or T, behind which a B may stand. 0 means all that a host has.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].to_ascii_uppercase().as_str() {
        "K" | "KB" => KIB,
        "" | "M" | "MB" => MIB,
        "G" | "GB" => 1 << 30,
        "T" | "TB" => 1 << 40,
        _ => return None,
    };
    count.checked_mul(unit)
}

/// `4000M`, `1G`, `512K`, `0`: the largest unit that says it whole, from mebibytes on.
pub(crate) fn short(bytes: u64) -> String {
    for (unit, letter) in [(1 << 40, 'T'), (1 << 30, 'G'), (MIB, 'M')] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{letter}", bytes / unit);
        }
    }
    if bytes == 0 { "0".to_owned() } else { format!("{}M", bytes.div_ceil(MIB)) }
}

/// `123456K`: as `sacct` shows what was used.
pub(crate) fn used(bytes: u64) -> String {
    format!("{}K", bytes / KIB)
}

/// Mebibytes without a unit, rounded up.
pub(crate) fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown_as_slurm_does() {
        for (text, size, shown) in [
            ("100", 100 * MIB, "100M"),
            ("100M", 100 * MIB, "100M"),
            ("4GB", 4 << 30, "4G"),
            ("1024m", 1 << 30, "1G"),
            ("3T", 3 << 40, "3T"),
            ("512K", 512 * KIB, "1M"),
            ("0", 0, "0"),
        ] {
            assert_eq!(bytes(text), Some(size), "{text}");
            assert_eq!(short(size), shown, "{text}");
        }
        for text in ["", "10Q", "1.5G", "-1", "G", "99999999999T", "10 G"] {
            assert_eq!(bytes(text), None, "{text}");
        }
        assert_eq!((used(5 << 20), mebibytes(MIB + 1)), ("5120K".to_owned(), 2));
    }
}
