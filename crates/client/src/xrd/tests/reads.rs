//! Whatever is hinted and whatever breaks, what is read is what is in the file.

use super::server::{Fault, Host, options, sample};
use crate::xrd::{File, Options, ReadMode};
use base::{ByteRange, ErrorKind, Result};
use proptest::{collection::vec, prelude::*};
use std::sync::atomic::Ordering;

/// Size of the file of these tests: some windows, no multiple of anything.
const SIZE: u64 = 300_007;

fn small() -> Options {
    Options { chunk_bytes: 10_000, window_bytes: 60_000, retry_max: 50, ..options() }
}

#[derive(Debug, Clone)]
enum Op {
    Read {
        offset: u64,
        length: usize,
    },
    /// Reads on from where the last read ended.
    Onward {
        length: usize,
        times: usize,
    },
    Strided {
        offset: u64,
        stride: u64,
        length: usize,
        times: u64,
    },
    Vector(Vec<(u64, u64)>),
    Copy {
        offset: u64,
        length: u64,
    },
    Advise(u8),
    Preseek(Vec<(u64, u64)>),
    /// Reads of ranges that were announced, in order.
    Announced(usize),
}

fn ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((0..SIZE + 5000, 0u64..3000), 0..60)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..SIZE + 100, 0usize..40_000).prop_map(|(offset, length)| Op::Read { offset, length }),
        (1usize..9000, 1usize..12).prop_map(|(length, times)| Op::Onward { length, times }),
        (0..SIZE, 1u64..20_000, 1usize..3000, 3u64..12)
            .prop_map(|(offset, stride, length, times)| Op::Strided { offset, stride, length, times }),
        vec((0..SIZE - 3000, 0u64..3000), 0..40).prop_map(Op::Vector),
        (0..SIZE, 0u64..SIZE).prop_map(|(offset, length)| Op::Copy { offset, length }),
        (0u8..3).prop_map(Op::Advise),
        ranges().prop_map(Op::Preseek),
        (1usize..40).prop_map(Op::Announced),
    ]
}

/// The file as it must be read.
struct Checked<'a> {
    file: &'a File,
    bytes: &'a [u8],
    /// Where the last read ended.
    at: u64,
    announced: Vec<ByteRange>,
}

fn byte_ranges(pairs: &[(u64, u64)]) -> Vec<ByteRange> {
    pairs.iter().map(|(offset, length)| ByteRange { offset: *offset, end: offset + length }).collect()
}

impl Checked<'_> {
    fn part(&self, range: ByteRange) -> &[u8] {
        let range = range.clip(self.bytes.len() as u64);
        &self.bytes[range.offset as usize..range.end as usize]
    }

    fn read(&mut self, offset: u64, length: usize) {
        let mut buffer = vec![0xee; length];
        let count = self.file.read_at(offset, &mut buffer).unwrap();
        let wanted = self.part(ByteRange { offset, end: offset + length as u64 });
        assert!(buffer[..count] == *wanted, "{length} bytes at {offset} differ");
        self.at = offset + count as u64;
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Read { offset, length } => self.read(*offset, *length),
            Op::Onward { length, times } => {
                for _ in 0..*times {
                    self.read(self.at, *length);
                }
            }
            Op::Strided { offset, stride, length, times } => {
                for number in 0..*times {
                    self.read(offset + number * stride, *length);
                }
            }
            Op::Vector(pairs) => {
                let ranges = byte_ranges(pairs);
                let pieces = self.file.read_vector(&ranges).unwrap();
                for (range, piece) in ranges.iter().zip(pieces) {
                    assert!(piece == self.part(*range), "{range:?} differs");
                }
            }
            Op::Copy { offset, length } => {
                let range = ByteRange { offset: *offset, end: (offset + length).min(SIZE) };
                let mut copy = Vec::new();
                let copied: Result<()> = self.file.copy_range(range, &mut |piece| {
                    copy.extend_from_slice(piece);
                    Ok(())
                });
                copied.unwrap();
                assert!(copy == self.part(range), "{range:?} differs");
            }
            Op::Advise(mode) => {
                let modes = [ReadMode::Automatic, ReadMode::Sequential, ReadMode::Random];
                self.file.advise(modes[usize::from(*mode)]).unwrap();
            }
            Op::Preseek(pairs) => {
                self.announced = byte_ranges(pairs);
                self.file.preseek(&self.announced).unwrap();
            }
            Op::Announced(count) => {
                let ranges: Vec<_> = self.announced.drain(..self.announced.len().min(*count)).collect();
                for range in ranges {
                    self.read(range.offset, range.length() as usize);
                }
            }
        }
    }
}

/// Every so many data requests go wrong, each in its own way.
fn faults(every: usize) -> impl Fn(usize) -> Fault {
    let kinds = [Fault::Cut(0), Fault::RetryRule, Fault::Cut(5), Fault::Late, Fault::Cut(3000)];
    move |number| match number % every {
        0 if number > 0 => kinds[number / every % kinds.len()],
        _ => Fault::None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn hints_change_no_byte(ops in vec(op(), 1..25), every in 7usize..40, is_broken: bool) {
        let bytes = sample(SIZE as usize);
        let host = Host::new(bytes.clone(), faults(if is_broken { every } else { usize::MAX }));
        let file = File::open_read(&host.url, &small()).unwrap();
        let mut checked = Checked { file: &file, bytes: &bytes, at: 0, announced: Vec::new() };
        for op in &ops {
            checked.run(op);
        }
    }
}

#[test]
fn a_sequence_needs_fewer_round_trips_than_reads() {
    let bytes = sample(SIZE as usize);
    let host = Host::new(bytes.clone(), |_| Fault::None);
    let options = Options { chunk_bytes: 50_000, window_bytes: 200_000, ..options() };
    let file = File::open_read(&host.url, &options).unwrap();
    let mut checked = Checked { file: &file, bytes: &bytes, at: 0, announced: Vec::new() };
    checked.run(&Op::Onward { length: 1000, times: 300 });
    let asked = host.requests.load(Ordering::SeqCst);
    assert!(asked < 20, "{asked} requests for 300 reads");
}

#[test]
fn announced_ranges_come_in_few_requests() {
    let bytes = sample(SIZE as usize);
    let host = Host::new(bytes.clone(), |_| Fault::None);
    let file = File::open_read(&host.url, &options()).unwrap();
    file.advise(ReadMode::Random).unwrap();
    let mut checked = Checked { file: &file, bytes: &bytes, at: 0, announced: Vec::new() };
    let pairs: Vec<_> = (0..900).map(|index| (index * 7919 % 299_000, 100 + index % 50)).collect();
    checked.run(&Op::Preseek(pairs));
    checked.run(&Op::Announced(900));
    let asked = host.requests.load(Ordering::SeqCst);
    assert!(asked <= 2, "{asked} requests for 900 ranges");
}

#[test]
fn threads_share_a_file() {
    let bytes = sample(SIZE as usize);
    let host = Host::new(bytes.clone(), |_| Fault::None);
    let file = File::open_read(&host.url, &small()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                let mut checked = Checked { file, bytes, at: 0, announced: Vec::new() };
                for number in 0..60 {
                    checked.read((thread * 37_017 + number * 4211) % SIZE, 5000 + thread as usize * 3000);
                }
                checked.run(&Op::Copy { offset: thread * 1000, length: SIZE });
            });
        }
    });
    assert_eq!(host.connections.load(Ordering::SeqCst), 1, "one connection for all threads");
}

#[test]
fn vectors_past_the_end_and_of_odd_lengths_are_refused() {
    let host = Host::new(sample(1000), |_| Fault::None);
    let file = File::open_read(&host.url, &options()).unwrap();
    let kind = |outcome: Result<()>| outcome.unwrap_err().kind;
    assert_eq!(kind(file.read_vector(&byte_ranges(&[(990, 20)])).map(drop)), ErrorKind::Invalid);
    let mut buffer = [0; 5];
    assert_eq!(kind(file.read_vector_into(&byte_ranges(&[(0, 6)]), &mut [&mut buffer])), ErrorKind::Invalid);
    assert!(file.read_vector(&byte_ranges(&[(3, 0), (5, 1)])).unwrap()[0].is_empty());
}

#[test]
fn a_file_that_shrank_is_no_end_of_the_file() {
    let host = Host::new(sample(50_000), |_| Fault::None);
    let file = File::open_read(&host.url, &small()).unwrap();
    host.file.lock().unwrap().bytes.truncate(30_000);
    assert_eq!(file.read_at(29_000, &mut [0; 1000]).unwrap(), 1000);
    for (offset, length) in [(29_000, 2000), (40_000, 100), (0, 50_000), (45_000, 10_000)] {
        let failure = file.read_at(offset, &mut vec![0; length]).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Corrupt, "{failure}");
        assert!(failure.what.contains("bytes early") && failure.hint.is_some(), "{failure}");
    }
    assert_eq!(file.read_at(50_000, &mut [0; 10]).unwrap(), 0);
    // What is written may end anywhere.
    let file = File::open_update(&host.url, &small()).unwrap();
    host.file.lock().unwrap().bytes.truncate(20_000);
    assert_eq!(file.read_at(19_000, &mut [0; 2000]).unwrap(), 1000);
}
