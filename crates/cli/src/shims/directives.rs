//! Options that a job script carries in its comments: `#SBATCH --time=10`, `#PBS -N name`, `#QSUB -q long`, `#BP --queue long`.
//!
//! They stand before the first command; what follows it is no longer read, as with the originals.

/// The words of all directives of a script that begin with one of the prefixes, line by line.
pub(crate) fn directives(script: &str, prefixes: &[&str]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (at, line) in script.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if !trimmed.starts_with('#') {
            break;
        }
        let directive = prefixes.iter().find_map(|prefix| {
            let rest = line.strip_prefix(prefix)?;
            rest.starts_with(char::is_whitespace).then_some(rest)
        });
        if let Some(text) = directive {
            found.extend(words(text).map_err(|what| format!("line {}: {what}", at + 1))?);
        }
    }
    Ok(found)
}

/// The words of one directive: blanks part them, quotes and backslashes keep blanks, `#` behind a blank begins a comment.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if word.is_none() => break,
            '\'' | '"' => quoted(letter, &mut letters, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().extend(letters.next()),
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// What stands between quotes; a backslash keeps a letter in double ones.
fn quoted(quote: char, letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    while let Some(letter) = letters.next() {
        if letter == quote {
            return Ok(());
        }
        if letter == '\\' && quote == '"' {
            match letters.next() {
                Some(kept @ ('"' | '\\')) => word.push(kept),
                other => word.extend(std::iter::once('\\').chain(other)),
            }
        } else {
            word.push(letter);
        }
    }
    Err(format!("the quote {quote} is not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn directives_stand_before_the_first_command() {
        let script = "#!/bin/bash\n\n#SBATCH --time=10 -n 2 # two\n# a comment\n#SBATCHx -H\n#SBATCH -J 'a b' --comment=\"x \\\" y\"\n\
                      \t#SBATCH -c 3\necho hi\n#SBATCH -H\n";
        assert_eq!(
            directives(script, &["#SBATCH"]).unwrap(),
            ["--time=10", "-n", "2", "-J", "a b", "--comment=x \" y"]
        );
        assert_eq!(
            directives("#PBS -N a\\ b\n#QSUB -q l\n", &["#PBS", "#QSUB"]).unwrap(),
            ["-N", "a b", "-q", "l"]
        );
        assert_eq!(directives("#SBATCH --output='/d/it''s'\n", &["#SBATCH"]).unwrap(), ["--output=/d/its"]);
        assert_eq!(directives("#SBATCH -J ''\n", &["#SBATCH"]).unwrap(), ["-J", ""]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_refused_with_its_line() {
        let refused = directives("#!/bin/sh\n#SBATCH -J 'a\n", &["#SBATCH"]).unwrap_err();
        assert_eq!(refused, "line 2: the quote ' is not closed");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,60}") {
            let _ = directives(&format!("#SBATCH {text}"), &["#SBATCH"]);
        }
    }
}
