//! Resources as PBS and NQS write them: `walltime=1:00:00,mem=2gb`, `nodes=1:ppn=4`, `select=1:ncpus=4:mem=2gb`.

use base::Millis;

/// What a job asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) cpus: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) wall: Option<Millis>,
    /// What was asked for and is not enforced here.
    pub(crate) ignored: Vec<String>,
}

impl Wish {
    /// Takes a list of resources in; the refusal names what makes no sense.
    pub(crate) fn apply(&mut self, list: &str) -> Result<(), String> {
        for one in list.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (key, value) = one.split_once('=').unwrap_or((one, ""));
            match key.to_ascii_lowercase().as_str() {
                "select" | "nodes" => self.chunk(key, value)?,
                key => self.set(key, value)?,
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = || format!("illegal -l value: {key}={value}");
        match key {
            "walltime" => self.wall = Some(span(value).ok_or_else(bad)?),
            "ncpus" | "procs" | "ppn" | "mpiprocs" if key != "mpiprocs" => {
                self.cpus = Some(value.parse().ok().filter(|cpus| *cpus > 0).ok_or_else(bad)?);
            }
            "mem" | "pmem" | "vmem" | "pvmem" => self.memory_bytes = Some(bytes(value).ok_or_else(bad)?),
            "ngpus" | "gpus" if value != "0" => return Err(format!("{key} is not available here")),
            "place" | "mpiprocs" | "ompthreads" | "ngpus" | "gpus" => {}
            _ => self.ignored.push(format!("-l {key}={value} is not enforced here")),
        }
        Ok(())
    }

    /// `1:ncpus=4:mem=2gb`: chunks, which have to fit one host.
    fn chunk(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mut parts = value.split(['+', ':']);
        if value.contains('+') {
            return Err(format!("a job runs on one host here: {key}={value}"));
        }
        let first = parts.next().unwrap_or_default();
        match first.parse::<u32>() {
            Ok(1) => {}
            Ok(_) => return Err(format!("a job runs on one host here: {key}={value}")),
            // A chunk without its number, or the name of a host.
            Err(_) if first.contains('=') => self.apply(first)?,
            Err(_) => return Err(format!("a host cannot be named here: {key}={value}")),
        }
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            self.set(&key.to_ascii_lowercase(), value)?;
        }
        Ok(())
    }
}

/// `[[hours:]minutes:]seconds`; milliseconds behind a point are passed over.
pub(crate) fn span(text: &str) -> Option<Millis> {
    let text = text.split_once('.').map_or(text, |(whole, _)| whole);
    let number = |part: &str| {
        let is_number = (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<i64>().ok()).flatten()
    };
    let parts: Vec<i64> = text.split(':').map(number).collect::<Option<_>>()?;
    if parts.len() > 4 {
        return None;
    }
    let units = [1, 60, 3600, 86_400];
    let seconds: i64 = parts.iter().rev().zip(units).map(|(count, unit)| count * unit).sum();
    (seconds > 0).then(|| Millis::from_seconds(seconds))
}

/// `2gb`, `500mb`, `100kw`, `1024`: bytes, or words of eight.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "w" => 8,
        "k" | "kb" => 1 << 10,
        "kw" => 8 << 10,
        "m" | "mb" => 1 << 20,
        "mw" => 8 << 20,
        "g" | "gb" => 1 << 30,
        "gw" => 8 << 30,
        "t" | "tb" => 1 << 40,
        _ => return None,
    };
    count.checked_mul(unit)
}

/// `24:00:00`: hours may be more than a day.
pub(crate) fn clock(span: Millis) -> String {
    let seconds = span.0.max(0) / 1000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// `2gb`, `512mb`, `1kb`: the largest unit that says it whole.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}b")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wish(list: &str) -> Result<Wish, String> {
        let mut wish = Wish::default();
        wish.apply(list).map(|()| wish)
    }

    #[test]
    fn resources_are_read_as_pbs_writes_them() {
        let read = wish("walltime=1:30:00,mem=2gb,ncpus=4").unwrap();
        assert_eq!(
            (read.cpus, read.memory_bytes, read.wall),
            (Some(4), Some(2 << 30), Some(Millis::from_seconds(5400)))
        );
        assert_eq!(wish("nodes=1:ppn=8").unwrap().cpus, Some(8));
        let chunk = wish("select=1:ncpus=3:mem=500mb:mpiprocs=3,place=scatter,walltime=90").unwrap();
        assert_eq!(
            (chunk.cpus, chunk.memory_bytes, chunk.wall),
            (Some(3), Some(500 << 20), Some(Millis::from_seconds(90)))
        );
        assert_eq!(wish("cput=10,file=1gb").unwrap().ignored.len(), 2);
        for bad in [
            "walltime=x",
            "mem=2xb",
            "ncpus=0",
            "nodes=2",
            "select=2:ncpus=1",
            "nodes=n1:ppn=2",
            "ngpus=1",
            "walltime=0",
        ] {
            assert!(wish(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn resources_are_shown_as_pbs_shows_them() {
        assert_eq!(
            (clock(Millis::from_seconds(90_061)), size(2 << 30), size(1536)),
            ("25:01:01".into(), "2gb".into(), "1536b".into())
        );
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[a-z0-9=:,+.]{0,40}") {
            let _ = (wish(&text), span(&text), bytes(&text));
        }
    }
}
