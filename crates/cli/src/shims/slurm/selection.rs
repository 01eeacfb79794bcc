//! Jobs as Slurm's commands name them.

use wire::control::JobSelection;

/// Reads `7,8_3,9_[1-5,7],10.batch`; the word that names no job is refused. A step stands for its job.
pub(crate) fn selections(text: &str) -> std::result::Result<Vec<JobSelection>, String> {
    words(text).into_iter().map(|word| selection(&word).ok_or(word)).collect()
}

/// One job, array, element or step.
pub(crate) fn selection(word: &str) -> Option<JobSelection> {
    let word = word.trim();
    let job = word.split_once('.').map_or(word, |(job, _)| job);
    // `12_[0,4%2]` is what the commands themselves show.
    let plain = match job.split_once('%') {
        Some((indices, _)) => format!("{indices}]"),
        None => job.trim_end_matches("_*").to_owned(),
    };
    plain.parse().ok()
}

/// The words between commas; commas in brackets belong to a word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_inside) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '[' => is_inside = true,
            ']' => is_inside = false,
            ',' if !is_inside => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(letter);
    }
    words.push(word);
    words.into_iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jobs_are_named_as_slurm_names_them() {
        let read = |text| {
            selections(text).map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(read("7,8_3, 9_[1-5,7],10.batch,11.0").unwrap(), "7 8_3 9_[1-5,7] 10 11");
        assert_eq!(read("2_[4,9%2],3_*").unwrap(), "2_[4,9] 3");
        assert_eq!(read("").unwrap(), "");
        assert_eq!(read("7,abc"), Err("abc".to_owned()));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[-0-9_%.,\\[\\]a]{0,20}") {
            let _ = selections(&text);
        }
    }
}
