//! What clients set: nothing that they say here changes what they get (spec/xrootd.md §4.11).

use wire::xrd::{Answer, ErrorCode, Setting};

/// The number under which a server with monitoring would have kept what the client said; 0: it is not kept.
const NOT_KEPT: u32 = 0;

/// The answer to a setting. Nothing is answered as done that was not.
pub(super) fn answer(setting: &Setting) -> Answer {
    let mut words = setting.text.split([' ', '\t', '\n', '\0']).filter(|word| !word.is_empty());
    let Some(word) = words.next() else {
        return Answer::error(ErrorCode::ArgMissing, "the setting is missing");
    };
    if setting.is_of_cache {
        let message = format!("{word}: this server has no cache; `bp evict` drops replicas that are on tape");
        return Answer::error(ErrorCode::ArgInvalid, message);
    }
    match (word, words.next()) {
        ("appid", _) | ("monitor", Some("on" | "off")) => Answer::Ok(Vec::new()),
        ("monitor", Some("info")) => Answer::Ok(NOT_KEPT.to_be_bytes().to_vec()),
        ("monitor", _) => Answer::error(ErrorCode::ArgInvalid, "monitor knows on, off and info"),
        _ => Answer::error(ErrorCode::ArgInvalid, format!("{word} cannot be set")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(is_of_cache: bool, text: &str) -> Result<usize, u32> {
        match answer(&Setting { is_of_cache, text: text.to_owned() }) {
            Answer::Ok(body) => Ok(body.len()),
            Answer::Error { code, .. } => Err(code),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn settings_are_answered_as_they_are_carried_out() {
        let (invalid, missing) = (Err(ErrorCode::ArgInvalid.code()), Err(ErrorCode::ArgMissing.code()));
        for (text, wanted) in [
            ("appid root.exe", Ok(0)),
            ("monitor on", Ok(0)),
            ("monitor off 1\0", Ok(0)),
            ("monitor info a job", Ok(4)),
            ("monitor", invalid),
            ("monitor later", invalid),
            ("evict /f", invalid),
            (" \0", missing),
            ("", missing),
        ] {
            assert_eq!(code(false, text), wanted, "{text:?}");
        }
        for text in ["evict /f", "fevict /f", "appid x", "monitor info x"] {
            assert_eq!(code(true, text), invalid, "{text:?}");
        }
        assert_eq!(code(true, ""), missing);
    }
}
