//! What is delivered to a run: a file that the room adds lines to and the shepherd reads.

use super::RunDir;
use base::{Failure, Millis, Result};
use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
};
use wire::control::{Delivered, RunDelivery};

/// The file, one JSON document a line.
const FILE: &str = "deliveries.jsonl";
/// Bytes of the file: a thousand messages of the longest kind.
const BYTES_MAX: u64 = 4 << 20;

/// Reads deliveries in their order.
#[derive(Debug, Default)]
pub(crate) struct DeliveryReader {
    offset: u64,
}

impl DeliveryReader {
    /// Those that came since the last call. A line that is not whole yet is left for the next one.
    pub(crate) fn next(&mut self, dir: &RunDir) -> Vec<RunDelivery> {
        let text = self.read(dir).unwrap_or_default();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.offset += whole as u64;
        // A line that a power cut has damaged was not acknowledged: it came again behind it.
        text[..whole]
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    fn read(&self, dir: &RunDir) -> io::Result<Vec<u8>> {
        let file = File::open(dir.file(FILE))?;
        let size = file.metadata()?.len().min(2 * BYTES_MAX);
        let mut bytes = vec![0; size.saturating_sub(self.offset) as usize];
        file.read_exact_at(&mut bytes, self.offset)?;
        Ok(bytes)
    }
}

impl RunDir {
    /// Adds a delivery; on return it is durable.
    pub(crate) fn deliver(&self, delivery: &RunDelivery) -> Result<()> {
        let failed = |cause: &io::Error| self.failed("add a delivery", cause);
        let add = || -> io::Result<bool> {
            let mut file =
                File::options().read(true).append(true).create(true).mode(0o600).open(self.file(FILE))?;
            let size = file.metadata()?.len();
            if size > BYTES_MAX {
                return Ok(false);
            }
            let mut line = serde_json::to_vec(delivery)?;
            line.push(b'\n');
            let mut last = [b'\n'];
            if size > 0 {
                file.read_exact_at(&mut last, size - 1)?;
            }
            if last != [b'\n'] {
                line.insert(0, b'\n');
            }
            file.write_all(&line)?;
            file.sync_data()?;
            Ok(true)
        };
        if add().map_err(|cause| failed(&cause))? {
            return Ok(());
        }
        Err(Failure::no_space(format!("job {} has got {BYTES_MAX} bytes of messages", self.id().job)))
    }

    /// The number of the last delivery, and the wall limit if one has changed it.
    pub(crate) fn delivered(&self) -> (u64, Option<Millis>) {
        let all = DeliveryReader::default().next(self);
        let mut walls = all.iter().filter_map(|delivery| match delivery.what {
            Delivered::Wall(wall) => Some(wall),
            _ => None,
        });
        (all.iter().map(|delivery| delivery.number).max().unwrap_or(0), walls.next_back())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::JobId;
    use wire::control::JobRun;

    #[test]
    fn deliveries_come_once_in_order_and_a_torn_line_hides_none() {
        let root = tempfile::tempdir().unwrap();
        let run = JobRun { job: JobId(7), attempt: 1 };
        let dir = RunDir::trial(root.path(), run);
        std::fs::create_dir(dir.file("")).unwrap();
        let (mut reader, delivery) =
            (DeliveryReader::default(), |number, what| RunDelivery { number, run, what });
        assert!(reader.next(&dir).is_empty());
        let first = delivery(1, Delivered::ToStdout("a\nb".to_owned()));
        dir.deliver(&first).unwrap();
        assert_eq!(reader.next(&dir), [first]);
        File::options().append(true).open(dir.file(FILE)).unwrap().write_all(b"{\"number\":2").unwrap();
        assert!(reader.next(&dir).is_empty());
        let second = delivery(2, Delivered::Wall(Millis(5)));
        dir.deliver(&second).unwrap();
        assert_eq!(reader.next(&dir), [second]);
        assert_eq!(dir.delivered(), (2, Some(Millis(5))));
    }
}
