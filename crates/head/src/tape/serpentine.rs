//! The order in which files are read from a tape that is written in wraps: pure.
//!
//! **Problem.** A cartridge is written from its beginning to its end and back, some hundred times, each time on another track (a
//! *wrap*). Two files whose numbers are far apart may lie beside each other. Whoever reads in the order of the numbers winds
//! the whole tape again and again.
//!
//! **Idea.** A model tells how long a drive needs from one position to another. The next file is the one that is reached
//! soonest; afterwards single files are moved to where they cost less (*or-opt*), as often as time allows.
//!
//! **Source.** The coefficients are those that CTA fitted to LTO drives (`CTACostHeuristic`).

/// Wraps of an LTO-9 cartridge, and the bands that they lie in.
const WRAPS: f64 = 280.0;
const WRAPS_PER_BAND: u32 = 70;
/// Longitudinal positions of the ends of a wrap, and their middle.
const ENDS: (f64, f64) = (2696.0, 171_097.0);
const MIDDLE: f64 = f64::midpoint(ENDS.0, ENDS.1);

/// Seconds that parts of a movement take.
mod seconds {
    pub(super) const ANY: f64 = 4.29;
    pub(super) const OTHER_WRAP: f64 = 6.69;
    pub(super) const OTHER_BAND: f64 = 3.2;
    /// Across the middle of the tape, where drives wind faster.
    pub(super) const ACROSS: f64 = -6.04;
    pub(super) const OTHER_DIRECTION: f64 = 5.22;
    /// Back on the same wrap.
    pub(super) const STEP_BACK: f64 = 11.32;
    pub(super) const PER_POSITION: f64 = 0.000_619_2;
}

/// Smaller cartridges are files, or have so few wraps that the model says nothing of them: their order is that of the numbers.
const SERPENTINE_BYTES_MIN: u64 = 1_000_000_000_000;

/// Positions for a file that are compared when an order is improved: some milliseconds of the head's time.
pub(super) const COMPARISONS_MAX: u32 = 250_000;

/// Data that are read from one byte of the tape to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A position on the tape.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spot {
    wrap: u32,
    along: f64,
}

impl Spot {
    fn runs_forward(self) -> bool {
        self.wrap.is_multiple_of(2)
    }
}

/// A cartridge of so many bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Serpentine {
    bytes_per_wrap: f64,
}

impl Serpentine {
    /// `None` for a cartridge that is so small that it is none.
    pub(super) fn new(capacity: u64) -> Option<Self> {
        (capacity >= SERPENTINE_BYTES_MIN).then(|| Self { bytes_per_wrap: capacity as f64 / WRAPS })
    }

    fn spot(self, byte: u64) -> Spot {
        let turns = byte as f64 / self.bytes_per_wrap;
        let wrap = turns.floor().min(WRAPS - 1.0);
        let done = (turns - wrap).min(1.0) * (ENDS.1 - ENDS.0);
        let wrap = wrap as u32;
        Spot { wrap, along: if wrap.is_multiple_of(2) { ENDS.0 + done } else { ENDS.1 - done } }
    }

    /// Seconds that a drive needs from one byte to another.
    #[cfg(test)]
    pub(super) fn locate(self, from: u64, to: u64) -> f64 {
        seconds(self.spot(from), self.spot(to))
    }

    /// The order in which files are read that begin at byte 0: places in the list. No more than `comparisons` positions are
    /// compared to improve it.
    pub(super) fn order(self, files: &[Extent], comparisons: u32) -> Vec<usize> {
        let spots: Vec<_> = files.iter().map(|file| (self.spot(file.start), self.spot(file.end))).collect();
        let route = Route { spots: &spots, begin: self.spot(0) };
        let mut order = route.nearest_first();
        route.improve(&mut order, comparisons);
        order
    }
}

/// How long a drive needs from one position to another.
fn seconds(from: Spot, to: Spot) -> f64 {
    if from == to {
        return 0.0;
    }
    let if_so = |is_so: bool, span: f64| if is_so { span } else { 0.0 };
    let is_back = from.wrap == to.wrap
        && if from.runs_forward() { to.along < from.along } else { to.along > from.along };
    let span = seconds::ANY
        + if_so(from.wrap != to.wrap, seconds::OTHER_WRAP)
        + if_so(from.wrap / WRAPS_PER_BAND != to.wrap / WRAPS_PER_BAND, seconds::OTHER_BAND)
        + if_so((from.along < MIDDLE) != (to.along < MIDDLE), seconds::ACROSS)
        + if_so(from.runs_forward() != to.runs_forward(), seconds::OTHER_DIRECTION)
        + if_so(is_back, seconds::STEP_BACK)
        + seconds::PER_POSITION * (from.along - to.along).abs();
    span.max(0.0)
}

/// Beginnings and ends of files, and where the drive stands before the first.
struct Route<'a> {
    spots: &'a [(Spot, Spot)],
    begin: Spot,
}

impl Route<'_> {
    fn nearest_first(&self) -> Vec<usize> {
        let mut left: Vec<usize> = (0..self.spots.len()).collect();
        let (mut order, mut at) = (Vec::with_capacity(left.len()), self.begin);
        while let Some(nearest) = (0..left.len()).min_by(|one, other| {
            let span = |place: &usize| seconds(at, self.spots[left[*place]].0);
            span(one).total_cmp(&span(other))
        }) {
            // The rest keeps its order: files that are equally far are read as they lie.
            let file = left.remove(nearest);
            order.push(file);
            at = self.spots[file].1;
        }
        order
    }

    /// Where the drive stands before the file at this place of an order.
    fn before(&self, order: &[usize], place: usize) -> Spot {
        place.checked_sub(1).map_or(self.begin, |before| self.spots[order[before]].1)
    }

    /// What it costs to go on from `from` to the file at this place; nothing behind the last.
    fn on(&self, from: Spot, order: &[usize], place: usize) -> f64 {
        order.get(place).map_or(0.0, |next| seconds(from, self.spots[*next].0))
    }

    /// Moves single files to where they cost less.
    fn improve(&self, order: &mut Vec<usize>, comparisons: u32) {
        let mut left = comparisons;
        loop {
            let mut is_better = false;
            for place in 0..order.len() {
                if left < order.len() as u32 {
                    return;
                }
                left -= order.len() as u32;
                is_better |= self.move_one(order, place);
            }
            if !is_better {
                return;
            }
        }
    }

    /// Moves the file at a place to its best; false if that is where it is.
    fn move_one(&self, order: &mut Vec<usize>, place: usize) -> bool {
        let (file, before) = (order[place], self.before(order, place));
        let (start, end) = self.spots[file];
        let saved =
            seconds(before, start) + self.on(end, order, place + 1) - self.on(before, order, place + 1);
        order.remove(place);
        let cost = |at: usize| {
            let before = self.before(order, at);
            seconds(before, start) + self.on(end, order, at) - self.on(before, order, at)
        };
        let best = (0..=order.len()).map(|at| (cost(at), at)).min_by(|one, other| one.0.total_cmp(&other.0));
        let (cost, at) = best.unwrap_or((saved, place));
        let is_better = cost < saved - 1e-6;
        order.insert(if is_better { at } else { place }, file);
        is_better
    }
}
