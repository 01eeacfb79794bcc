use super::*;
use crate::LockMode;
use base::ByteRange;
use proptest::prelude::*;
use std::collections::BTreeMap;

const NOW: Timestamp = Timestamp(1000);

/// Owner `n` is that of client `n`, with one thread, and each lock is a file of its own, exclusive.
#[derive(Debug, Clone, Default)]
struct World {
    waits: LockWaits,
    holders: BTreeMap<u64, u64>,
    /// What each program waits for, as it knows itself: number of the wait and file.
    waiting: BTreeMap<u64, (u64, u64)>,
    requests: u64,
    /// Doubts that have reached a mount.
    doubts: Vec<(u64, u64, u64)>,
    /// Answers to doubts on their way to the head: owner, wait, file, doubt.
    answers: Vec<(u64, u64, u64, u64)>,
    /// Interrupts on their way to the head.
    cancels: Vec<(u64, u64)>,
    /// Waits that were in a cycle once, by a search of the graph as the programs know it.
    stuck: BTreeSet<u64>,
    /// Owners whose mounts cannot say that they wait.
    busy: BTreeSet<u64>,
}

fn lock(owner: u64) -> Lock {
    let (client, owner, range) = (ClientId(owner), LockOwner(owner), ByteRange { offset: 0, end: 1 });
    Lock { client, owner, pid: 1, range, mode: LockMode::Exclusive }
}

fn id(owner: u64, request: u64) -> WaitId {
    (ClientId(owner), RequestId(request))
}

impl World {
    fn ask(&mut self, (owner, request, file): (u64, u64, u64), doubt: Option<u64>) -> Verdict {
        if self.holders.get(&file).is_none_or(|holder| *holder == owner) {
            if self.waits.is_cancelled(id(owner, request)) {
                return Verdict::Cancelled;
            }
            self.holders.insert(file, owner);
            self.waits.end(id(owner, request));
            if self.waiting.get(&owner) == Some(&(request, file)) {
                self.waiting.remove(&owner);
            }
            return Verdict::Wait;
        }
        let assurance = doubt.map(|doubt| Assurance { doubt, is_certain: !self.busy.contains(&owner) });
        let asked = Asked {
            id: id(owner, request),
            file: FileId(file),
            lock: lock(owner),
            is_posix: true,
            assurance,
        };
        let holders = self.holders.clone();
        let blockers = move |wait: &LockWait| {
            holders.get(&wait.file.0).map(|owner| (ClientId(*owner), LockOwner(*owner))).into_iter().collect()
        };
        let (verdict, wake) = self.waits.blocked(&asked, NOW, blockers);
        if let Verdict::Doubt(doubt) = verdict {
            self.doubts.push((owner, request, doubt));
        }
        for file in wake {
            let again: Vec<_> = self
                .waits
                .waits
                .iter()
                .filter(|(other, wait)| wait.file == file && **other != asked.id)
                .map(|((client, request), wait)| (client.0, request.0, wait.file.0))
                .collect();
            for other in again {
                self.told(other, None);
            }
        }
        verdict
    }

    /// Asks, and does what the program does when it is told.
    fn told(&mut self, wait: (u64, u64, u64), doubt: Option<u64>) -> Verdict {
        let verdict = self.ask(wait, doubt);
        if verdict == Verdict::Deadlock {
            assert!(self.stuck.contains(&wait.1), "owner {} is refused and was in no cycle", wait.0);
            if self.waiting.get(&wait.0).is_some_and(|own| own.0 == wait.1) {
                self.waiting.remove(&wait.0);
            }
        }
        verdict
    }

    /// Whether an owner really waits for itself.
    fn is_stuck(&self, owner: u64) -> bool {
        let mut at = owner;
        for _ in 0..100 {
            let Some((_, file)) = self.waiting.get(&at) else { return false };
            let Some(holder) = self.holders.get(file) else { return false };
            at = *holder;
            if at == owner {
                return true;
            }
        }
        false
    }

    fn wait(&mut self, owner: u64, file: u64) -> Verdict {
        self.requests += 1;
        let request = self.requests;
        self.waiting.insert(owner, (request, file));
        // Only a new wait closes a cycle.
        let stuck = (0..4).filter(|owner| self.is_stuck(*owner)).map(|owner| self.waiting[&owner].0);
        self.stuck.extend(stuck.collect::<Vec<_>>());
        self.told((owner, request, file), None)
    }

    /// Answers all doubts, as long as there are some.
    fn settle(&mut self) {
        for _ in 0..100 {
            for (owner, request, doubt) in std::mem::take(&mut self.doubts) {
                if let Some((own, file)) = self.waiting.get(&owner).copied().filter(|wait| wait.0 == request)
                {
                    self.told((owner, own, file), Some(doubt));
                }
            }
        }
    }
}

#[test]
fn the_newest_of_three_that_wait_for_each_other_is_refused() {
    let mut world = World::default();
    for owner in 0..3 {
        world.holders.insert(owner, owner);
    }
    assert_eq!(world.wait(0, 1), Verdict::Wait);
    assert_eq!(world.wait(1, 2), Verdict::Wait);
    assert!(matches!(world.wait(2, 0), Verdict::Doubt(_)));
    assert_eq!(world.waiting.len(), 3, "a doubt is no verdict");
    world.settle();
    assert!(!world.waiting.contains_key(&2) && world.waiting.len() == 2);
}

#[test]
fn who_was_busy_when_it_was_looked_at_is_looked_at_again() {
    let mut world = World::default();
    world.holders.extend([(0, 0), (1, 1)]);
    world.wait(0, 1);
    world.wait(1, 0);
    world.busy.insert(0);
    let doubts = world.doubts.clone();
    world.settle();
    assert!(world.waiting.len() == 2 && world.doubts.is_empty(), "it may give back what it has");
    world.busy.clear();
    // As its mount asks again, with the doubt that it knows.
    world.doubts = doubts;
    world.settle();
    assert!(world.waiting.contains_key(&0) && !world.waiting.contains_key(&1));
}

#[test]
fn who_was_interrupted_is_in_no_cycle_also_if_the_head_hears_of_it_late() {
    let mut world = World::default();
    world.holders.extend([(0, 0), (1, 1)]);
    world.wait(0, 1);
    world.waiting.remove(&0);
    world.wait(1, 0);
    world.settle();
    assert!(world.waiting.contains_key(&1), "its holder may give it back");
    assert_eq!(world.waits.cancel(id(0, 1), NOW), Some(FileId(1)));
    world.holders.remove(&1);
    assert_eq!(world.ask((0, 1, 1), None), Verdict::Cancelled, "a late call sets nothing");
}

#[test]
fn an_owner_with_two_waits_is_not_judged() {
    let mut world = World::default();
    world.holders.extend([(0, 0), (1, 1), (2, 2)]);
    world.wait(0, 1);
    world.wait(0, 2);
    assert_eq!(world.wait(1, 0), Verdict::Wait);
    world.waits.forget_client(ClientId(0));
    assert_eq!(world.waits.iter().count(), 1);
}

#[derive(Debug, Clone)]
enum Step {
    /// A program asks for a file and waits, or gives one back.
    Take(u64, u64),
    Give(u64),
    Interrupt(u64),
    /// The head hears of the oldest interrupt.
    Cancel,
    /// A mount looks at a doubt, and sends an answer; the head hears the oldest answer.
    Answer,
    Hear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..4, 0_u64..4).prop_map(|(owner, file)| Step::Take(owner, file)),
        1 => (0_u64..4).prop_map(Step::Give),
        1 => (0_u64..4).prop_map(Step::Interrupt),
        1 => Just(Step::Cancel),
        3 => Just(Step::Answer),
        3 => Just(Step::Hear),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Whoever is refused has waited for itself at some moment since the doubt; at the end no cycle is left.
    #[test]
    fn none_is_refused_that_was_in_no_cycle_and_no_cycle_stays(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Take(owner, file) if !world.waiting.contains_key(&owner) => {
                    world.wait(owner, file);
                }
                // An owner that waits gives nothing back.
                Step::Give(file)
                    if world.holders.get(&file).is_some_and(|owner| !world.waiting.contains_key(owner)) =>
                {
                    world.holders.remove(&file);
                }
                Step::Interrupt(owner) => {
                    if let Some((request, _)) = world.waiting.remove(&owner) {
                        world.cancels.push((owner, request));
                    }
                }
                Step::Cancel if !world.cancels.is_empty() => {
                    let (owner, request) = world.cancels.remove(0);
                    world.waits.cancel(id(owner, request), NOW);
                }
                Step::Answer if !world.doubts.is_empty() => {
                    let (owner, request, doubt) = world.doubts.remove(0);
                    if let Some((_, file)) = world.waiting.get(&owner).filter(|wait| wait.0 == request) {
                        world.answers.push((owner, request, *file, doubt));
                    }
                }
                Step::Hear if !world.answers.is_empty() => {
                    let (owner, request, file, doubt) = world.answers.remove(0);
                    world.told((owner, request, file), Some(doubt));
                }
                _ => {}
            }
        }
        // All messages arrive, and who waits asks again.
        for (owner, request) in std::mem::take(&mut world.cancels) { world.waits.cancel(id(owner, request), NOW); }
        for _ in 0..20 {
            for (owner, (request, file)) in world.waiting.clone() {
                if world.waiting.get(&owner) == Some(&(request, file)) { world.told((owner, request, file), None); }
                world.settle();
            }
        }
        prop_assert!((0..4).all(|owner| !world.is_stuck(owner)), "{:?}", world);
    }
}
