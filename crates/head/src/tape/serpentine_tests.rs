//! The order of recalls on the model, beside the order of the queue.

use super::serpentine::{COMPARISONS_MAX, Extent, Serpentine};
use base::rng::Rng;
use proptest::prelude::*;

const CAPACITY: u64 = 18_000_000_000_000;
const BYTES_PER_SECOND: f64 = 400e6;

fn random_files(seed: u64, count: usize, size: u64) -> Vec<Extent> {
    let mut rng = Rng::new(seed);
    let mut file = || {
        let start = rng.below(CAPACITY - size);
        Extent { start, end: start + size }
    };
    (0..count).map(|_| file()).collect()
}

/// Seconds for all files in this order, from the beginning of the tape.
fn makespan(files: &[Extent], order: &[usize]) -> f64 {
    let model = Serpentine::new(CAPACITY).unwrap();
    let (mut seconds, mut at) = (0.0, 0);
    for file in order.iter().map(|place| files[*place]) {
        seconds += model.locate(at, file.start);
        seconds += (file.end - file.start) as f64 / BYTES_PER_SECOND;
        at = file.end;
    }
    seconds
}

fn in_turn(count: usize) -> Vec<usize> {
    (0..count).collect()
}

#[test]
fn five_hundred_files_are_read_twice_as_fast_as_in_the_order_of_the_queue() {
    let model = Serpentine::new(CAPACITY).unwrap();
    let (mut ratios, mut distances) = (Vec::new(), Vec::new());
    for seed in 0..5 {
        let files = random_files(seed, 500, 2_000_000_000);
        let ours = makespan(&files, &model.order(&files, COMPARISONS_MAX));
        let thorough = makespan(&files, &model.order(&files, u32::MAX));
        ratios.push(makespan(&files, &in_turn(500)) / ours);
        distances.push(ours / thorough);
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[2] >= 2.1, "the median is only {:.2} times as fast: {ratios:?}", ratios[2]);
    assert!(distances.iter().all(|distance| *distance <= 1.03), "{distances:?}");
}

#[test]
fn what_lies_in_one_wrap_is_read_as_it_lies() {
    let model = Serpentine::new(CAPACITY).unwrap();
    let files: Vec<_> =
        [3, 1, 2].map(|n| Extent { start: n * 1_000_000_000, end: n * 1_000_000_000 + 1000 }).into();
    assert_eq!(model.order(&files, COMPARISONS_MAX), [1, 2, 0]);
    assert_eq!(model.order(&[], COMPARISONS_MAX), Vec::<usize>::new());
    assert_eq!(Serpentine::new(16 << 30), None, "a virtual cartridge has no wraps");
}

proptest! {
    #[test]
    fn an_order_has_every_file_once(seed in any::<u64>(), count in 0usize..60, comparisons in 0u32..5000) {
        let files = random_files(seed, count, 1_000_000);
        let mut order = Serpentine::new(CAPACITY).unwrap().order(&files, comparisons);
        order.sort_unstable();
        prop_assert_eq!(order, in_turn(count));
    }

    #[test]
    fn improving_never_makes_it_worse(seed in any::<u64>(), count in 1usize..60) {
        let (model, files) = (Serpentine::new(CAPACITY).unwrap(), random_files(seed, count, 1_000_000_000));
        let [plain, better] = [0, COMPARISONS_MAX].map(|most| makespan(&files, &model.order(&files, most)));
        prop_assert!(better <= plain + 0.001, "{better} {plain}");
    }
}
