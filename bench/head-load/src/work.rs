//! The calls, from many clients at once.

use crate::{
    Arguments, Task,
    facility::{self, NOW, commit, open_write, path, user},
};
use base::{Failure, FilePath, Result, rng::Rng};
use head::{Apply, Context, Core, Head, Principal};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use wire::control::{GetEntry, List, Mkdir, OpenRead};

/// Clients that fill a facility: as many calls as the head commits together.
const FILLERS: usize = 512;

/// What was measured.
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// Sorted.
    latencies_us: Vec<f32>,
}

impl Measured {
    fn of(latencies: Vec<Vec<f32>>, begin: Instant) -> Self {
        let mut latencies_us = latencies.concat();
        latencies_us.sort_by(f32::total_cmp);
        Self { operations: latencies_us.len() as u64, seconds: begin.elapsed().as_secs_f64(), latencies_us }
    }

    pub(crate) fn quantile_us(&self, quantile: f64) -> f64 {
        let at = (self.latencies_us.len() as f64 * quantile) as usize;
        f64::from(self.latencies_us.get(at).or(self.latencies_us.last()).copied().unwrap_or(0.0))
    }
}

/// What every client needs.
#[derive(Clone)]
struct Client {
    head: Head,
    user: Principal,
    task: Task,
    files: u64,
    per_directory: u64,
    /// The number of the next thing to make, of all clients.
    next: Arc<AtomicU64>,
    /// No call begins after that.
    until: Instant,
}

pub(crate) fn measure(core: Core, arguments: &Arguments) -> Result<Measured> {
    let duration = Duration::from_millis(arguments.duration.0.0.unsigned_abs());
    if matches!(arguments.task, Task::LookupInside) {
        return look_up_inside(core, arguments, duration);
    }
    let user = user(&core);
    let (head, thread) = Head::start(core, Arc::new(|| NOW))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .map_err(|cause| Failure::io("start the runtime", &cause))?;
    let begin = Instant::now();
    let (clients, until) = match arguments.task {
        Task::Fill { .. } => (FILLERS, begin + Duration::from_secs(24 * 3600)),
        _ => (arguments.clients, begin + duration),
    };
    let client = Client {
        head,
        user,
        task: arguments.task,
        files: arguments.files,
        per_directory: arguments.per_directory,
        next: Arc::default(),
        until,
    };
    let latencies = runtime.block_on(async {
        let running: Vec<_> = (0..clients).map(|number| tokio::spawn(client.clone().run(number))).collect();
        let mut latencies = Vec::new();
        for client in running {
            let ended = client.await;
            latencies.push(ended.map_err(|cause| Failure::internal(cause.to_string()))??);
        }
        Ok::<_, Failure>(latencies)
    })?;
    let measured = Measured::of(latencies, begin);
    drop(client);
    let ended = thread.join();
    ended.map_err(|_| Failure::internal("the head's thread ended badly"))?;
    Ok(measured)
}

impl Client {
    async fn run(self, number: usize) -> Result<Vec<f32>> {
        let mut rng = Rng::new(number as u64);
        // Names of this start, so that a second run makes others.
        let mine: FilePath = format!("/run-{}", std::process::id()).parse()?;
        if !matches!(self.task, Task::Fill { .. }) {
            self.call(Mkdir { path: mine.clone(), mode: 0o755, parents: true }).await?;
        }
        let mut latencies = Vec::new();
        while Instant::now() < self.until {
            let begin = Instant::now();
            if !self.step(&mine, &mut rng).await? {
                break;
            }
            latencies.push(begin.elapsed().as_secs_f32() * 1e6);
        }
        Ok(latencies)
    }

    async fn call<C: Apply + Send + 'static>(&self, call: C) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.head.call(&self.user, call).await
    }

    /// One operation; `false`: there is nothing left to do.
    async fn step(&self, mine: &FilePath, rng: &mut Rng) -> Result<bool> {
        let next = || self.next.fetch_add(1, Ordering::Relaxed);
        let fresh = |number: u64| mine.join(&number.to_string());
        match self.task {
            Task::Fill { files } => return self.fill(next(), files).await,
            Task::List => return self.list(next()).await,
            Task::LookupInside => return Ok(false),
            Task::Mkdir => {
                self.call(Mkdir { path: fresh(next())?, mode: 0o755, parents: false }).await?;
            }
            Task::Create => {
                self.call(open_write(fresh(next())?)).await?;
            }
            Task::Write => {
                let object = self.call(open_write(fresh(next())?)).await?.object;
                self.call(commit(object)).await?;
            }
            Task::Lookup => {
                self.call(GetEntry { path: self.path(rng.below(self.files))? }).await?;
            }
            Task::Open => {
                self.call(OpenRead { path: self.path(rng.below(self.files))? }).await?;
            }
        }
        Ok(true)
    }

    fn path(&self, file: u64) -> Result<FilePath> {
        path(file, self.per_directory)
    }

    async fn fill(&self, file: u64, files: u64) -> Result<bool> {
        if file >= files {
            return Ok(false);
        }
        let mut open = open_write(self.path(file)?);
        open.parents = true;
        let object = self.call(open).await?.object;
        self.call(commit(object)).await?;
        Ok(true)
    }

    /// Lists a directory from its beginning to its end.
    async fn list(&self, number: u64) -> Result<bool> {
        let directories = (self.files / self.per_directory).max(1);
        let at = self.path((number % directories) * self.per_directory)?;
        let directory = at.parent().unwrap_or_else(FilePath::root);
        let mut after = String::new();
        loop {
            let mut listing = self.call(List { path: directory.clone(), after }).await?;
            match listing.entries.pop() {
                Some(last) if listing.is_partial => after = last.name,
                _ => return Ok(true),
            }
        }
    }
}

/// Looks names up without any other thread.
fn look_up_inside(mut core: Core, arguments: &Arguments, duration: Duration) -> Result<Measured> {
    let context = Context { who: user(&core), now: NOW };
    let mut rng = Rng::new(1);
    let (begin, mut latencies) = (Instant::now(), Vec::new());
    while begin.elapsed() < duration {
        let asked = Instant::now();
        core.call(
            &context,
            GetEntry { path: facility::path(rng.below(arguments.files), arguments.per_directory)? },
        )?;
        latencies.push(asked.elapsed().as_secs_f32() * 1e6);
    }
    Ok(Measured::of(vec![latencies], begin))
}
