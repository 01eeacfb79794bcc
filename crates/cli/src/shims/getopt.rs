//! Options of other systems' commands, read as the `getopt_long` of the GNU C library reads them.
//!
//! Scripts rely on its habits: `-n4`, `-n 4`, `-nPX`, `--time=10`, `--time 10`, unique beginnings of long names, and
//! options behind operands. Messages are the library's own, because tools look for them.
//!
//! One word of a table declares an option. `a/array=` takes a value, `H/hold` takes none, `nice?` takes one only as
//! `--nice=5`, and `q/=` has no long name. The key of an option is its long name, or its letter if it has none.

use std::collections::VecDeque;

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Only in the same word.
    Maybe,
}

/// An option, as its word declares it.
#[derive(Debug, Clone, Copy)]
struct Declared {
    short: Option<char>,
    long: &'static str,
    key: &'static str,
    takes: Takes,
}

fn declared(word: &'static str) -> Declared {
    let (name, takes) = match word.as_bytes().last() {
        Some(b'=') => (&word[..word.len() - 1], Takes::Value),
        Some(b'?') => (&word[..word.len() - 1], Takes::Maybe),
        _ => (word, Takes::Nothing),
    };
    match name.split_once('/') {
        Some((short, "")) => Declared { short: short.chars().next(), long: "", key: short, takes },
        Some((short, long)) => Declared { short: short.chars().next(), long, key: long, takes },
        None => Declared { short: None, long: name, key: name, takes },
    }
}

/// Whether options may stand behind the first operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Yes, anywhere.
    Permuted,
    /// No: the first operand begins another command.
    OptionsFirst,
}

/// An option that was given: its key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) key: &'static str,
    pub(crate) value: Option<String>,
}

impl Given {
    /// The value; empty if it has none.
    pub(crate) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

/// What a command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) options: Vec<Given>,
    pub(crate) operands: Vec<String>,
}

impl Parsed {
    /// Whether the option was given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.options.iter().any(|given| given.key == key)
    }

    /// The value of the option that was given last.
    pub(crate) fn last(&self, key: &str) -> Option<&str> {
        self.options.iter().rev().find(|given| given.key == key).map(Given::text)
    }

    /// The values of all options of that key, split at commas.
    pub(crate) fn list(&self, key: &str) -> Vec<&str> {
        let given = self.options.iter().filter(|given| given.key == key);
        given.flat_map(|given| given.text().split(',')).map(str::trim).filter(|one| !one.is_empty()).collect()
    }
}

/// Reads a command line without the program's name. The refusal has no name before it.
pub(crate) fn parse(
    table: &'static str,
    order: Order,
    args: impl IntoIterator<Item = String>,
) -> Result<Parsed, String> {
    let table: Vec<Declared> = table.split_whitespace().map(declared).collect();
    let mut args: VecDeque<String> = args.into_iter().collect();
    let mut parsed = Parsed::default();
    while let Some(word) = args.pop_front() {
        if word == "--" {
            parsed.operands.extend(args);
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            parsed.options.push(long_option(&table, long, &mut args)?);
        } else if word.len() > 1 && word.starts_with('-') {
            short_options(&table, &word[1..], &mut args, &mut parsed.options)?;
        } else {
            parsed.operands.push(word);
            if order == Order::OptionsFirst {
                parsed.operands.extend(args);
                break;
            }
        }
    }
    Ok(parsed)
}

fn long_option(table: &[Declared], word: &str, args: &mut VecDeque<String>) -> Result<Given, String> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    };
    let found = long_named(table, name)?;
    let value = match (found.takes, value) {
        (Takes::Nothing, Some(_)) => {
            return Err(format!("option '--{}' doesn't allow an argument", found.long));
        }
        (Takes::Value, None) => {
            Some(args.pop_front().ok_or_else(|| format!("option '--{}' requires an argument", found.long))?)
        }
        (_, value) => value,
    };
    Ok(Given { key: found.key, value })
}

/// The option of that name, or the only one whose name begins so.
fn long_named(table: &[Declared], name: &str) -> Result<Declared, String> {
    if let Some(exact) = table.iter().find(|one| !one.long.is_empty() && one.long == name) {
        return Ok(*exact);
    }
    let near: Vec<&Declared> =
        table.iter().filter(|one| !name.is_empty() && one.long.starts_with(name)).collect();
    match near.as_slice() {
        [] => Err(format!("unrecognized option '--{name}'")),
        [first, rest @ ..] if rest.iter().all(|one| one.key == first.key) => Ok(**first),
        several => {
            let names: Vec<String> = several.iter().map(|one| format!("'--{}'", one.long)).collect();
            Err(format!("option '--{name}' is ambiguous; possibilities: {}", names.join(" ")))
        }
    }
}

/// A word of letters; the first that takes a value has the rest of the word, or the next word.
fn short_options(
    table: &[Declared],
    letters: &str,
    args: &mut VecDeque<String>,
    options: &mut Vec<Given>,
) -> Result<(), String> {
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        let found = table.iter().find(|one| one.short == Some(letter));
        let found = found.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
        let here = rest.as_str();
        let value = match found.takes {
            Takes::Nothing => {
                options.push(Given { key: found.key, value: None });
                continue;
            }
            Takes::Value if here.is_empty() => {
                Some(args.pop_front().ok_or_else(|| format!("option requires an argument -- '{letter}'"))?)
            }
            Takes::Maybe if here.is_empty() => None,
            Takes::Value | Takes::Maybe => Some(here.to_owned()),
        };
        options.push(Given { key: found.key, value });
        return Ok(());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
    a/array= H/hold nice? n/ntasks= ntasks-per-node= P/parsable2 q/= X/";

    fn read(order: Order, line: &str) -> Result<(String, String), String> {
        let parsed = parse(TABLE, order, line.split_whitespace().map(str::to_owned))?;
        let options: Vec<String> = parsed
            .options
            .iter()
            .map(|one| one.value.as_ref().map_or(one.key.to_owned(), |value| format!("{}={value}", one.key)))
            .collect();
        Ok((options.join(" "), parsed.operands.join(" ")))
    }

    #[test]
    fn options_are_read_as_the_c_library_reads_them() {
        for (line, options, operands) in [
            ("-a1-3 -n 2 x", "array=1-3 ntasks=2", "x"),
            ("x --array=1 -HP y", "array=1 hold parsable2", "x y"),
            ("--array 1 --ho", "array=1 hold", ""),
            ("--ntasks 3 --ntasks-p 4", "ntasks=3 ntasks-per-node=4", ""),
            ("--nice --nice=5 -q long -X", "nice nice=5 q=long X", ""),
            ("-HPn4", "hold parsable2 ntasks=4", ""),
            ("-- -H x", "", "-H x"),
            ("- -H", "hold", "-"),
            ("--array= z", "array=", "z"),
        ] {
            assert_eq!(read(Order::Permuted, line), Ok((options.into(), operands.into())), "{line}");
        }
        assert_eq!(read(Order::OptionsFirst, "-H prog -a --x"), Ok(("hold".into(), "prog -a --x".into())));
    }

    #[test]
    fn refusals_are_those_of_the_c_library() {
        for (line, refusal) in [
            ("--nope", "unrecognized option '--nope'"),
            ("--nope=1", "unrecognized option '--nope'"),
            ("-z", "invalid option -- 'z'"),
            ("-a", "option requires an argument -- 'a'"),
            ("--array", "option '--array' requires an argument"),
            ("--hold=1", "option '--hold' doesn't allow an argument"),
            ("--n", "option '--n' is ambiguous; possibilities: '--nice' '--ntasks' '--ntasks-per-node'"),
        ] {
            assert_eq!(read(Order::Permuted, line), Err(refusal.to_owned()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(words in prop::collection::vec("[-=a-zé]{0,6}", 0..6)) {
            let _ = parse(TABLE, Order::Permuted, words);
        }
    }
}
