//! What `sacct` can show of a job or of its batch step.

use crate::shims::slurm::{CLUSTER, line::Line, memory, site::Site, span, state, state::State};
use base::Millis;

/// A line of `sacct`: a job, or the step that ran its script.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) line: &'a Line,
    pub(super) is_step: bool,
}

/// Something that can be shown.
pub(super) struct Field {
    /// Its name and heading.
    pub(super) name: &'static str,
    /// Its width; negative ones are filled on the right.
    pub(super) width: i16,
    pub(super) value: fn(Row<'_>, &Site) -> String,
}

impl Row<'_> {
    /// What only the job has, not its steps.
    fn of_job(self, text: impl Into<String>) -> String {
        if self.is_step { String::new() } else { text.into() }
    }

    fn id(self, number: String) -> String {
        if self.is_step { format!("{number}.batch") } else { number }
    }

    /// A step that a signal ended was cancelled, as Slurm sees it.
    fn state(self, site: &Site) -> String {
        let state = self.line.state();
        match (state, self.is_step) {
            (State::Timeout, true) => State::Cancelled.word().to_owned(),
            (State::Failed, true) if state::exit(&self.line.job).1 != 0 => State::Cancelled.word().to_owned(),
            (State::Cancelled, false) => format!("CANCELLED by {}", site.user(&self.line.job.owner).0),
            _ => state.word().to_owned(),
        }
    }

    fn exit(self) -> String {
        let (code, signal) = state::exit(&self.line.job);
        format!("{code}:{signal}")
    }

    fn cpus(self) -> u32 {
        self.line.job.spec.resources.cpus
    }

    /// CPU time that was reserved: slots times run time.
    fn cpu_time(self, site: &Site) -> Millis {
        Millis(self.line.elapsed(site.now).0.saturating_mul(i64::from(self.cpus())))
    }

    /// CPU time that was used.
    fn used(self) -> Millis {
        self.line.job.usage.map_or(Millis(0), |usage| usage.cpu)
    }

    /// The most memory of one process; Slurm has it of steps only, but tools ask for the job, too.
    fn resident(self) -> String {
        let used = self.line.job.usage.filter(|_| self.is_step).map(|usage| usage.memory_bytes_max);
        used.map(memory::used).unwrap_or_default()
    }

    fn node(self) -> String {
        let node = self.line.node();
        if node.is_empty() { "None assigned".to_owned() } else { node.to_owned() }
    }

    fn memory_asked(self) -> String {
        let bytes = self.line.job.spec.resources.memory_bytes;
        if bytes == 0 { "0".to_owned() } else { memory::short(bytes) }
    }

    fn limit(self) -> String {
        self.line.limit().map_or_else(|| "UNLIMITED".to_owned(), span::full)
    }

    fn resources(self, is_allocated: bool) -> String {
        if is_allocated && self.line.state() == State::Pending {
            return String::new();
        }
        let bytes = self.line.job.spec.resources.memory_bytes;
        let memory = if bytes == 0 { String::new() } else { format!(",mem={}", memory::short(bytes)) };
        format!("billing={0},cpu={0}{memory},node=1", self.cpus())
    }

    fn waited(self, site: &Site) -> Millis {
        self.line.job.started.unwrap_or(site.now) - self.line.job.submitted
    }
}

const fn field(name: &'static str, width: i16, value: fn(Row<'_>, &Site) -> String) -> Field {
    Field { name, width, value }
}

fn state_of(row: Row<'_>, site: &Site) -> String {
    row.state(site)
}

fn none(_: Row<'_>, _: &Site) -> String {
    String::new()
}

/// Every field, in the order of `--helpformat`.
pub(super) const FIELDS: &[Field] = &[
    field("Account", 10, |row, _| row.line.job.spec.account.clone().unwrap_or_default()),
    field("AdminComment", 19, none),
    field("AllocCPUS", 10, |row, _| row.cpus().to_string()),
    field("AllocNodes", 10, |_, _| "1".to_owned()),
    field("AllocTRES", 10, |row, _| row.resources(true)),
    field("AssocID", 7, none),
    field("AveCPU", 10, |row, _| if row.is_step { span::full(row.used()) } else { String::new() }),
    field("AveCPUFreq", 10, none),
    field("AveDiskRead", 14, none),
    field("AveDiskWrite", 14, none),
    field("AvePages", 10, none),
    field("AveRSS", 10, |row, _| row.resident()),
    field("AveVMSize", 10, none),
    field("BlockID", 16, none),
    field("Cluster", 10, |_, _| CLUSTER.to_owned()),
    field("Comment", 14, |row, _| row.of_job(row.line.job.spec.comment.clone().unwrap_or_default())),
    field("Constraints", 19, |row, _| row.of_job(row.line.job.spec.constraints.join("&"))),
    field("ConsumedEnergy", 14, none),
    field("ConsumedEnergyRaw", 17, none),
    field("Container", 19, none),
    field("CPUTime", 10, |row, site| span::full(row.cpu_time(site))),
    field("CPUTimeRAW", 10, |row, site| (row.cpu_time(site).0 / 1000).to_string()),
    field("DBIndex", 10, |row, _| row.line.raw_id().to_string()),
    field("DerivedExitCode", 15, |row, _| row.of_job("0:0")),
    field("Elapsed", 10, |row, site| span::full(row.line.elapsed(site.now))),
    field("ElapsedRaw", 10, |row, site| (row.line.elapsed(site.now).0 / 1000).to_string()),
    field("Eligible", 19, |row, site| site.time(row.line.job.submitted)),
    field("End", 19, |row, site| {
        let ended = row.line.job.ended.filter(|_| row.line.state().is_over());
        site.time_or(ended, "Unknown")
    }),
    field("ExitCode", 8, |row, _| row.exit()),
    field("Flags", 20, none),
    field("GID", 6, |row, site| row.of_job(site.user(&row.line.job.owner).2.to_string())),
    field("Group", 9, |row, site| row.of_job(site.user(&row.line.job.owner).1)),
    field("JobID", -12, |row, _| row.id(row.line.id())),
    field("JobIDRaw", -12, |row, _| row.id(row.line.raw_id().to_string())),
    field(
        "JobName",
        10,
        |row, _| {
            if row.is_step { "batch".to_owned() } else { row.line.job.spec.name.clone() }
        },
    ),
    field("Layout", 9, none),
    field("MaxDiskRead", 12, none),
    field("MaxDiskWrite", 12, none),
    field("MaxPages", 8, none),
    field("MaxRSS", 10, |row, _| row.resident()),
    field("MaxRSSNode", 10, |row, _| if row.is_step { row.line.node().to_owned() } else { String::new() }),
    field("MaxRSSTask", 10, none),
    field("MaxVMSize", 10, none),
    field("McsLabel", 10, none),
    field("MinCPU", 10, none),
    field("NCPUS", 10, |row, _| row.cpus().to_string()),
    field("NNodes", 8, |_, _| "1".to_owned()),
    field("NodeList", 15, |row, _| row.node()),
    field("NTasks", 8, |row, _| if row.is_step { "1".to_owned() } else { String::new() }),
    field("Partition", 10, |row, _| row.of_job(row.line.job.queue.clone())),
    field("Priority", 10, |row, _| row.of_job(row.line.job.priority.to_string())),
    field("QOS", 10, |row, _| row.of_job("normal")),
    field("QOSRAW", 10, |row, _| row.of_job("1")),
    field("Reason", 22, |row, _| row.of_job(state::reason(&row.line.job))),
    field("ReqCPUFreq", 10, none),
    field("ReqCPUS", 8, |row, _| row.cpus().to_string()),
    field("ReqMem", 10, |row, _| row.of_job(row.memory_asked())),
    field("ReqNodes", 8, |_, _| "1".to_owned()),
    field("ReqTRES", 10, |row, _| row.of_job(row.resources(false))),
    field("Reservation", 20, none),
    field("ReservationId", 8, none),
    field("Reserved", 10, |row, site| row.of_job(span::full(row.waited(site)))),
    field("Planned", 10, |row, site| row.of_job(span::full(row.waited(site)))),
    field("Restarts", 8, |row, _| row.of_job(row.line.job.attempt.saturating_sub(1).to_string())),
    field("Start", 19, |row, site| {
        let started = row.line.job.started.filter(|_| row.line.state() != State::Pending);
        site.time_or(started, "Unknown")
    }),
    field("State", 10, state_of),
    field("StdErr", 20, |row, _| {
        let spec = &row.line.job.spec;
        row.of_job(row.line.file(spec.stderr.as_deref().or(spec.stdout.as_deref())))
    }),
    field("StdOut", 20, |row, _| row.of_job(row.line.file(row.line.job.spec.stdout.as_deref()))),
    field("Submit", 19, |row, site| site.time(row.line.job.submitted)),
    field("SubmitLine", 20, none),
    field("Suspended", 10, |_, _| "00:00:00".to_owned()),
    field("SystemCPU", 10, |_, _| "00:00:00".to_owned()),
    field("SystemComment", 20, none),
    field("Timelimit", 10, |row, _| row.of_job(row.limit())),
    field("TimelimitRaw", 12, |row, _| {
        row.of_job(row.line.limit().map_or("UNLIMITED".to_owned(), |limit| (limit.0 / 60_000).to_string()))
    }),
    field("TotalCPU", 10, |row, _| span::precise(row.used())),
    field("TRESUsageInAve", 14, none),
    field("TRESUsageInMax", 14, none),
    field("TRESUsageInTot", 14, none),
    field("TRESUsageOutTot", 15, none),
    field("UID", 6, |row, site| row.of_job(site.user(&row.line.job.owner).0.to_string())),
    field("User", 9, |row, _| row.of_job(row.line.job.owner.clone())),
    field("UserCPU", 10, |row, _| span::precise(row.used())),
    field("WCKey", 10, none),
    field("WCKeyID", 8, none),
    field("WorkDir", 20, |row, _| row.of_job(row.line.job.spec.directory.clone().unwrap_or_default())),
];
