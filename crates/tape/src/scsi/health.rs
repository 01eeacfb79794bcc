//! TapeAlert: what a drive says about its health and that of the medium.

use super::{command::Command, device::Device, transport::Transport};

/// The log page.
pub(super) const PAGE: u8 = 0x2e;
/// Bytes of it that are read: 64 parameters of 5 bytes.
const PAGE_BYTES: u16 = 4 + 64 * 5;

/// Flags that are set, by number. None if the drive does not offer them: nobody fails for that.
pub(super) fn alerts<T: Transport>(device: &mut Device<T>) -> Vec<u8> {
    let mut buffer = [0; PAGE_BYTES as usize];
    match device.ask(&Command::log_sense(PAGE, PAGE_BYTES), &mut buffer) {
        Ok(page) if page.first().is_some_and(|code| code & 0x3f == PAGE) => flags(page),
        _ => Vec::new(),
    }
}

fn flags(page: &[u8]) -> Vec<u8> {
    let mut rest = page.get(4..).unwrap_or_default();
    let mut found = Vec::new();
    while let [_, number, _, length, value, ..] = *rest {
        if value & 1 != 0 && (1..=64).contains(&number) {
            found.push(number);
        }
        rest = rest.get(4 + usize::from(length.max(1))..).unwrap_or_default();
    }
    found
}

/// Writes the page, as the emulation answers.
pub(super) fn encode(set: &[u8]) -> Vec<u8> {
    let mut page = vec![PAGE, 0, 0, 0];
    for number in 1..=64 {
        page.extend([0, number, 0x40, 1, set.contains(&number).into()]);
    }
    let length = (page.len() - 4) as u16;
    page[2..4].copy_from_slice(&length.to_be_bytes());
    page
}

/// Flags in words, for messages and logs.
pub(super) fn words(set: &[u8]) -> String {
    let one = |number: &u8| match meaning(*number) {
        Some(meaning) => format!("{number} ({meaning})"),
        None => number.to_string(),
    };
    set.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The names of the standard (SSC-4, annex A) for flags of which an operator should know.
fn meaning(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "read warning",
        2 => "write warning",
        3 => "hard error",
        4 => "medium error",
        5 => "read failure",
        6 => "write failure",
        7 => "medium at the end of its life",
        8 => "not a data-grade medium",
        9 => "write-protected",
        10 => "removal prevented",
        11 => "cleaning cartridge",
        12 => "unsupported format",
        13 => "recoverable snapped tape",
        14 => "unrecoverable snapped tape",
        15 => "cartridge memory chip failure",
        16 => "forced eject",
        17 => "read-only format",
        18 => "tape directory corrupted",
        19 => "medium near the end of its life",
        20 => "clean now",
        21 => "clean periodic",
        22 => "expired cleaning cartridge",
        23 => "invalid cleaning cartridge",
        30 => "hardware failure A",
        31 => "hardware failure B",
        32 => "interface",
        33 => "eject the medium",
        36 => "drive temperature",
        37 => "drive voltage",
        38 => "predictive failure",
        39 => "diagnostics required",
        51 => "tape directory invalid at unload",
        52 => "system area write failure",
        53 => "system area read failure",
        54 => "no start of data",
        55 => "loading failure",
        56 => "unrecoverable unload failure",
        58 => "firmware failure",
        59 => "integrity check failed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_words() {
        assert_eq!(flags(&encode(&[20, 57])), [20, 57]);
        assert_eq!(words(&[20, 57]), "20 (clean now), 57");
        assert!(flags(&encode(&[20])[..7]).is_empty());
    }
}
