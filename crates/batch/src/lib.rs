//! Worker node: takes runs from the head, brings the data, owns the processes, returns the results.
//!
//! **Problem.** A job must go on while the daemon restarts, end with all its processes, and leave no doubt about how it ended.
//!
//! **Idea.** Three parties, so that none can take a job down with it:
//!
//! ```text
//! room       in the daemon: calls the head, copies data, watches; may die and start again at any time
//! shepherd   one small process per run: owns the process tree, ends it, writes how it ended
//! job        what the user asked for
//! ```
//!
//! Room and shepherd share only the [run directory](run_dir): a lock file shows that the shepherd lives, `exit.json` how the
//! job ended. No record and no shepherd means that the run is *lost*, never that it went well.
//!
//! **Start reading** with [`room`], then [`shepherd`] and [`sandbox`].
//!
//! A service manager must leave shepherds alone when the daemon is stopped: with systemd, `KillMode=process`.

mod as_user;
pub mod cgroup;
mod descriptors;
mod durable;
pub mod identity;
mod load;
mod output;
mod output_report;
mod outputs;
mod processors;
mod remove;
pub mod room;
mod run;
pub mod run_dir;
pub mod sandbox;
mod scratch;
pub mod shepherd;
mod slurm;
mod stage;
mod store;
mod tree;
mod users;

pub use descriptors::close_inherited;
pub use room::{WorkerConfig, run_worker};
pub use shepherd::{Stage, shepherd_main};
pub use slurm::{SlurmConfig, check_options, fuzz_slurm};
pub use tree::fuzz_stat;
