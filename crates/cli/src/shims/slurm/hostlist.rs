//! Lists of hosts: `n[1-3,5],login`.

use crate::shims::getopt::Parsed;

/// Hosts that a list may name.
const HOSTS_MAX: usize = 65_536;

/// The hosts that an option names. One that cannot be read is refused: it would leave a filter that means all hosts.
pub(crate) fn given(parsed: &Parsed, key: &str) -> Result<Vec<String>, String> {
    let list = parsed.list(key).join(",");
    expanded(&list).ok_or_else(|| format!("Invalid host list: {list}"))
}

/// The hosts of a list; none if its brackets make no sense.
pub(crate) fn expanded(list: &str) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    for word in split(list)? {
        let mut found = vec![String::new()];
        let mut rest = word.as_str();
        while let Some((before, behind)) = rest.split_once('[') {
            let (inside, after) = behind.split_once(']')?;
            let numbers = numbers(inside)?;
            if found.len().saturating_mul(numbers.len()) > HOSTS_MAX {
                return None;
            }
            found = found
                .iter()
                .flat_map(|begin| numbers.iter().map(move |number| format!("{begin}{before}{number}")))
                .collect();
            rest = after;
        }
        for host in &mut found {
            host.push_str(rest);
        }
        hosts.extend(found.into_iter().filter(|host| !host.is_empty()));
        if hosts.len() > HOSTS_MAX {
            return None;
        }
    }
    Some(hosts)
}

/// The words of a list; commas in brackets belong to a word.
fn split(list: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut depth) = (Vec::new(), String::new(), 0);
    for letter in list.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            return None;
        }
        word.push(letter);
    }
    words.push(word);
    (depth == 0).then_some(words)
}

/// `1-3,5`, with the leading zeros of the first number.
fn numbers(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let width = first.len();
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= HOSTS_MAX {
            return None;
        }
        found.extend((first..=last).map(|number| format!("{number:0width$}")));
        if found.len() > HOSTS_MAX {
            return None;
        }
    }
    Some(found)
}

/// Hosts as a list; those that differ in a number at their end stand together.
pub(crate) fn compressed(hosts: &[String]) -> String {
    let mut groups: Vec<(&str, usize, Vec<u64>)> = Vec::new();
    for host in hosts {
        let stem = host.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &host[stem.len()..];
        let (width, number) = match digits.parse::<u64>() {
            Ok(number) => (if digits.starts_with('0') { digits.len() } else { 0 }, Some(number)),
            Err(_) => (usize::MAX, None),
        };
        let name = if number.is_some() { stem } else { host.as_str() };
        match groups.iter_mut().find(|(stem, wide, _)| (*stem, *wide) == (name, width)) {
            Some((.., numbers)) => numbers.extend(number),
            None => groups.push((name, width, number.into_iter().collect())),
        }
    }
    groups.iter_mut().map(|(stem, width, numbers)| group(stem, *width, numbers)).collect::<Vec<_>>().join(",")
}

fn group(stem: &str, width: usize, numbers: &mut Vec<u64>) -> String {
    let width = if width == usize::MAX { 0 } else { width };
    numbers.sort_unstable();
    numbers.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers.iter() {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let one = |(first, last): &(u64, u64)| {
        if first == last { format!("{first:0width$}") } else { format!("{first:0width$}-{last:0width$}") }
    };
    match ranges.as_slice() {
        [] => stem.to_owned(),
        [(first, last)] if first == last => format!("{stem}{first:0width$}"),
        many => format!("{stem}[{}]", many.iter().map(one).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(list: &str) -> Option<String> {
        expanded(list).map(|hosts| hosts.join(" "))
    }

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(hosts("n[1-3,5],m1").unwrap(), "n1 n2 n3 n5 m1");
        assert_eq!(hosts("n[08-10]x").unwrap(), "n08x n09x n10x");
        assert_eq!(hosts("r[1-2]n[1-2]").unwrap(), "r1n1 r1n2 r2n1 r2n2");
        assert_eq!(hosts("").unwrap(), "");
        for bad in ["n[1", "n]1[", "n[a]", "n[3-1]", "n[1-999999]", "n[[1]]"] {
            assert_eq!(hosts(bad), None, "{bad}");
        }
        let compressed = |text: &str| compressed(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(compressed("n1 n2 n5"), "n[1-2,5]");
        assert_eq!(compressed("n08 n09 n10 login"), "n[08-09],n10,login");
        assert_eq!(compressed("head"), "head");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(numbers in prop::collection::btree_set(0u64..300, 1..20)) {
            let hosts: Vec<String> = numbers.iter().map(|number| format!("node{number}")).collect();
            prop_assert_eq!(expanded(&compressed(&hosts)).unwrap(), hosts);
        }

        #[test]
        fn nothing_makes_it_panic(text in "[-n0-9,\\[\\]]{0,20}") {
            let _ = expanded(&text).map(|hosts| compressed(&hosts));
        }
    }
}
