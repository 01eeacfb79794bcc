use super::*;
use crate::store::ActiveJob;
use base::Millis;
use proptest::prelude::*;
use wire::control::{JobState, QueueSettings};

/// Jobs and queues of a test; queue `batch` is always there.
#[derive(Default)]
struct World {
    active: ActiveJobs,
    queues: QueueTable,
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world.queue("batch", |_| ());
        world
    }

    fn queue(&mut self, name: &str, change: impl FnOnce(&mut QueueRow)) {
        let mut row = QueueRow {
            name: name.into(),
            settings: QueueSettings::default(),
            is_enabled: true,
            is_started: true,
            is_default: name == "batch",
        };
        change(&mut row);
        self.queues.queues.insert(name.into(), row);
    }

    fn add(&mut self, job: &ActiveJob) {
        self.active.add(job, 1);
    }

    fn pass(&self) -> Pass<'_> {
        static NONE: BTreeSet<JobId> = BTreeSet::new();
        Pass {
            active: &self.active,
            queues: &self.queues,
            fair: Arc::new(FairShare::new(Millis(1000), BTreeMap::new())),
            held_back: &NONE,
            now: Timestamp(0),
        }
    }

    fn choose(&self, cpus: u32, cpus_free: u32) -> Vec<u64> {
        let slots = Slots { cpus, cpus_free, memory: 0, memory_free: 0 };
        self.pass().dispatch(slots, &|_, _, _| true).into_iter().map(|id| id.0).collect()
    }
}

fn job(id: u64, owner: &str, cpus: u32) -> ActiveJob {
    ActiveJob {
        id: JobId(id),
        state: JobState::Queued,
        queue: "batch".into(),
        member: Member { group: "g".into(), user: owner.into() },
        priority: 0,
        wish: Wish { cpus, memory: 0, labels: String::new(), is_of_facility_owner: false, array: None },
        worker: None,
    }
}

fn world_of(jobs: &[ActiveJob]) -> World {
    let mut world = World::new();
    for job in jobs {
        world.add(job);
    }
    world
}

#[test]
fn owners_take_turns_and_among_equals_the_oldest_goes_first() {
    let world = world_of(&[job(1, "ada", 1), job(2, "ada", 1), job(3, "bob", 1)]);
    assert_eq!(world.choose(3, 3), [1, 3, 2]);
    let ahead = |id| world.pass().ahead_of(JobId(id), 9);
    assert_eq!([ahead(1), ahead(3), ahead(2)], [0, 1, 2], "the place in line is that of the dispatch");
}

#[test]
fn a_worker_runs_jobs_of_those_whom_it_names() {
    let nobody = JobUsers { everybody: false, ..JobUsers::default() };
    let [ada, owner] = [("ada", false), ("root", true)]
        .map(|(name, is_facility_owner)| Submitter { name, is_facility_owner });
    let unproven = Submitter { is_facility_owner: false, ..owner };
    assert!(admits(&JobUsers::default(), &ada), "a worker that does not say it runs all");
    assert!(!admits(&nobody, &ada) && !admits(&nobody, &owner));
    let for_owner = JobUsers { owner: true, ..nobody.clone() };
    assert!(admits(&for_owner, &owner) && !admits(&for_owner, &ada));
    assert!(!admits(&for_owner, &unproven), "a name proves nothing");
    let for_ada = JobUsers { users: vec!["ada".into()], ..nobody.clone() };
    assert!(admits(&for_ada, &ada) && !admits(&for_ada, &owner));
    assert!(admits(&JobUsers { maybe_others: true, ..nobody }, &ada));
}

#[test]
fn a_wide_job_is_not_starved_by_narrow_ones() {
    let world = world_of(&[job(1, "ada", 2), job(2, "ada", 1)]);
    assert_eq!(world.choose(2, 1), [0u64; 0]);
    assert_eq!(world.choose(2, 2), [1]);
}

#[test]
fn a_job_that_never_fits_blocks_nobody() {
    assert_eq!(world_of(&[job(1, "ada", 9), job(2, "ada", 1)]).choose(2, 2), [2]);
}

#[test]
fn priorities_of_queues_come_before_those_of_jobs_and_these_before_fair_share() {
    let urgent = ActiveJob { queue: "urgent".into(), priority: -9, ..job(4, "bob", 1) };
    let high = ActiveJob { priority: 5, ..job(3, "ada", 1) };
    let mut world = world_of(&[job(1, "ada", 1), job(2, "bob", 1), high, urgent]);
    world.queue("urgent", |row| row.settings.priority = 10);
    assert_eq!(world.choose(4, 4), [4, 3, 1, 2]);
}

#[test]
fn a_stopped_queue_a_closed_window_and_a_pipe_run_nothing() {
    let changes: [fn(&mut QueueRow); 3] = [
        |row| row.is_started = false,
        // The first of January 1970 was a Thursday.
        |row| row.settings.windows = vec![wire::control::TimeWindow { days: vec![1], opens: 0, closes: 60 }],
        |row| row.settings.kind = QueueKind::Pipe,
    ];
    for change in changes {
        let mut world = world_of(&[job(1, "ada", 1)]);
        world.queue("batch", change);
        assert_eq!(world.choose(1, 1), [0u64; 0]);
    }
}

#[test]
fn limits_count_what_runs_and_what_was_chosen() {
    let running =
        |id, owner| ActiveJob { state: JobState::Running, worker: Some("w".into()), ..job(id, owner, 1) };
    let jobs = [running(1, "ada"), job(2, "ada", 1), job(3, "bob", 1), job(4, "bob", 1), job(5, "eve", 1)];
    let chosen = |change: &dyn Fn(&mut World)| {
        let mut world = world_of(&jobs);
        change(&mut world);
        world.choose(8, 8)
    };
    assert_eq!(chosen(&|_| ()).len(), 4);
    assert_eq!(chosen(&|world| world.queue("batch", |row| row.settings.run_limit = Some(3))).len(), 2);
    assert_eq!(chosen(&|world| world.queues.run_limit = Some(2)).len(), 1);
    assert_eq!(
        chosen(&|world| world.queues.run_limit = Some(0)),
        [0u64; 0],
        "a limit below what runs stops nothing"
    );
    let one_each = chosen(&|world| world.queue("batch", |row| row.settings.user_run_limit = Some(1)));
    assert_eq!(one_each, [3, 5], "ada has one that runs");
}

#[test]
fn an_array_with_a_bound_lets_others_pass() {
    let element = |id| {
        let mut job = job(id, "ada", 1);
        job.wish.array = Some(JobId(1));
        job
    };
    let mut world = world_of(&[element(1), element(2), element(3), element(4), job(5, "ada", 1)]);
    world.active.set_cap(JobId(1), Some(2));
    assert_eq!(world.choose(8, 8), [1, 2, 5]);
}

proptest! {
    #[test]
    fn slots_are_never_overcommitted(cpus in prop::collection::vec(0u32..6, 0..40), free in 0u32..8) {
        let jobs: Vec<_> = cpus.iter().enumerate().map(|(id, cpus)| job(id as u64, "ada", *cpus)).collect();
        let ids = world_of(&jobs).choose(8, free);
        let used: u32 = ids.iter().map(|id| cpus[*id as usize]).sum();
        prop_assert!(used <= free);
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind(
        jobs in prop::collection::vec((0u8..3, 0u8..3, -2i32..3, 0u32..3, 0u8..5), 0..60),
    ) {
        let states = [JobState::Held, JobState::Queued, JobState::Running, JobState::Archiving, JobState::Done];
        let jobs: Vec<_> = jobs.into_iter().enumerate().map(|(id, (owner, queue, priority, cpus, state))| ActiveJob {
            priority,
            queue: format!("q{queue}"),
            state: states[state as usize],
            ..job(id as u64, &owner.to_string(), cpus)
        }).collect();
        let mut active = ActiveJobs::default();
        for job in &jobs {
            active.add(job, 1);
        }
        prop_assert_eq!(active.len(), jobs.iter().filter(|job| !job.state.is_over()).count() as u64);
        for job in jobs.iter().rev() {
            active.remove(job, 1);
        }
        prop_assert_eq!(active, ActiveJobs::default());
    }
}

/// A pass asks about each line once, and not about jobs. This counts what it asks; a clock would say more of the machine.
#[test]
fn a_pass_over_a_hundred_thousand_jobs_looks_at_the_first_of_each_line() {
    let mut world = World::new();
    for id in 0..100_000 {
        world.add(&job(id, &format!("user{}", id % 1000), 1));
    }
    let looked_at = std::cell::Cell::new(0);
    let slots = Slots { cpus: 64, cpus_free: 64, memory: 0, memory_free: 0 };
    let chosen = world.pass().dispatch(slots, &|_, _, _| {
        looked_at.set(looked_at.get() + 1);
        true
    });
    assert_eq!((chosen.len(), looked_at.get()), (64, 1000));
}

/// What such a pass costs; run by hand, in a release build.
#[test]
#[ignore = "a measurement"]
fn time_of_a_pass_over_a_hundred_thousand_jobs() {
    let mut world = World::new();
    for id in 0..100_000 {
        world.add(&job(id, &format!("user{}", id % 1000), 1));
    }
    let begun = std::time::Instant::now();
    assert_eq!(world.choose(64, 64).len(), 64);
    eprintln!("{:?}", begun.elapsed());
}

/// The order as it is defined, without an index: of all that wait, the lowest goes, and limits are counted anew each time.
fn by_looking_at_all(world: &World, mut free: u32) -> Vec<u64> {
    let mut fair = FairShare::new(Millis(1000), BTreeMap::new());
    let mut waiting: Vec<(&Member, &Wish, Reverse<i32>, JobId)> = Vec::new();
    for (member, wishes) in world.active.lines("batch").into_iter().flatten() {
        for (wish, line) in wishes {
            waiting.extend(line.iter().map(|(priority, id)| (member, wish, *priority, *id)));
        }
    }
    let most = world.queues.queues["batch"].settings.user_run_limit.unwrap_or(u32::MAX);
    let (mut chosen, mut of_user) = (Vec::new(), BTreeMap::<&str, u32>::new());
    loop {
        let may = waiting.iter().filter(|job| of_user.get(&*job.0.user).copied().unwrap_or(0) < most);
        let key =
            |job: &&(&Member, &Wish, Reverse<i32>, JobId)| (job.2, fair.rank(job.0, Timestamp(0)), job.3);
        let Some(&(member, wish, _, id)) = may.min_by_key(key).filter(|job| job.1.cpus <= free) else {
            return chosen;
        };
        free -= wish.cpus;
        fair.change(member, wish.cpus.into(), Timestamp(0));
        *of_user.entry(&member.user).or_default() += 1;
        waiting.retain(|job| job.3 != id);
        chosen.push(id.0);
    }
}

proptest! {
    #[test]
    fn the_index_chooses_as_looking_at_all_does(
        jobs in prop::collection::vec((0u8..3, 0u8..4, -1i32..2, 1u32..4), 0..50),
        free in 0u32..20,
        most in prop::option::of(0u32..4),
    ) {
        let mut world = World::new();
        world.queue("batch", |row| row.settings.user_run_limit = most);
        for (id, (group, user, priority, cpus)) in jobs.into_iter().enumerate() {
            let member = Member { group: format!("g{group}"), user: format!("{group}{user}") };
            world.add(&ActiveJob { member, priority, ..job(id as u64, "", cpus) });
        }
        prop_assert_eq!(world.choose(20, free), by_looking_at_all(&world, free));
    }
}
