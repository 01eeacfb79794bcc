//! Every bound of the facility, with its reason. Full means refuse with `Busy`, never grow.

/// Longest path in bytes: Linux `PATH_MAX`, so that every path can be a file of a mount.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest name in bytes: Linux `NAME_MAX`.
pub const NAME_BYTES_MAX: usize = 255;
/// Largest object: 16 TiB, the largest file of ext4. Also keeps every offset far from overflow.
pub const OBJECT_BYTES_MAX: u64 = 16 << 40;
/// Size of a partition that is believed: 1 EiB, more than any file system has.
pub const PARTITION_BYTES_MAX: u64 = 1 << 60;
/// Partitions of one host: its disks, of which a large server has some hundred.
pub const PARTITIONS_PER_HOST_MAX: usize = 256;
/// Workers of one host: it needs one.
pub const WORKERS_PER_HOST_MAX: usize = 16;
/// Users that a worker names as those whose jobs it runs: a registration stays far below the longest call.
pub const WORKER_USERS_MAX: usize = 2000;
/// CPU slots of one worker, and of one job: far beyond any host, and their sums stay far from overflow.
pub const CPU_SLOTS_MAX: u32 = 1 << 16;
/// Deepest path: bounds the walk of one resolve.
pub const PATH_DEPTH_MAX: usize = 128;
/// Entries that one listing call returns; longer directories are paged.
pub const LIST_ENTRIES_MAX: usize = 4096;
/// Body of one management call: a job with ten thousand inputs fits.
pub const CONTROL_BODY_BYTES_MAX: usize = 8 << 20;
/// Body of one XRootD request other than a write: 1024 readv elements of 16 bytes, or a path, with room to spare.
pub const XRD_REQUEST_BYTES_MAX: usize = 64 << 10;
/// Body of one XRootD request that is refused: as much is thrown away before the refusal. Data of writes may be longer.
pub const XRD_WRITE_BYTES_MAX: usize = 16 << 20;
/// Frames of page reads and vectors; longer ones are sent as partial answers.
pub const XRD_READ_SEGMENT_BYTES: usize = 1 << 20;
/// Longest read request that is honoured.
pub const XRD_READ_BYTES_MAX: usize = 1 << 30;
/// Elements of one vector read, as XRootD servers announce.
pub const READV_ELEMENTS_MAX: usize = 1024;
/// Longest element of a vector read, as XRootD servers announce.
pub const READV_ELEMENT_BYTES_MAX: usize = (2 << 20) - 16;
/// Open files of one session: one byte short of what fits the field, and enough for a merge of many files.
pub const SESSION_OPEN_FILES_MAX: usize = 4096;
/// Connections of one door.
pub const CONNECTIONS_MAX: usize = 4096;
/// Calls waiting for the head: each is small; beyond this the caller is told `Busy`.
pub const HEAD_QUEUE_LEN_MAX: usize = 16_384;
/// Calls committed together: bounds the latency that a group commit adds.
pub const HEAD_BATCH_LEN_MAX: usize = 512;
/// Data blocks of a tape file: the habit of CASTOR and CTA.
pub const TAPE_BLOCK_BYTES: u32 = 256 << 10;
/// Times a tape request is tried before it fails for good.
pub const TAPE_ATTEMPTS_MAX: u32 = 3;
/// Files of one tape session: bounds what is repeated after a failure.
pub const TAPE_SESSION_FILES_MAX: usize = 500;
/// Bytes of one archive session between flushes, as CTA.
pub const TAPE_FLUSH_BYTES: u64 = 32 << 30;
/// Requests of one tape session, if most of its files are small and lie in bundles: the orders must fit an answer.
pub const TAPE_SESSION_REQUESTS_MAX: usize = 2000;
/// Largest file that may be put into a bundle with others: a tape server holds two of them in memory.
pub const TAPE_BUNDLED_FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes that a survey session reads: about ten minutes, for which others wait that want the drive.
pub const TAPE_SURVEY_BYTES: u64 = 256 << 30;
/// Inputs plus outputs of one job.
pub const JOB_FILES_MAX: usize = 10_000;
/// Bytes of each output of a job that a worker may keep: both fit a management call, even if every byte needs six to be written.
pub const JOB_TEXT_BYTES_MAX: usize = 512 << 10;
/// Name of a job in bytes: it stands in every list of jobs.
pub const JOB_NAME_BYTES_MAX: usize = 255;
/// One word of a job's command, or one variable of its environment, in bytes: Linux takes 128 KiB with the NUL behind it.
pub const JOB_WORD_BYTES_MAX: usize = (128 << 10) - 1;
/// All words of the command and the environment of a job in bytes: Linux takes a quarter of the stack's bound, 2 MiB.
pub const JOB_WORDS_BYTES_MAX: usize = 1 << 20;
/// Jobs that are not over; beyond this submission answers `Busy`. One that waits takes few bytes of memory.
pub const JOBS_WAITING_MAX: usize = 2_000_000;
/// Connections of one process that have not proven who they are, at all doors together: each costs a descriptor and a few KiB.
pub const UNPROVEN_SESSIONS_MAX: usize = 2048;
/// Those of one address: the cold start of a farm behind one gateway, and a quarter of all, so that one address never takes the
/// places of others.
pub const UNPROVEN_SESSIONS_PER_ADDRESS_MAX: usize = 512;
/// Bytes that all of them may hold beyond [`UNPROVEN_BYTES`] each, for requests of which a part has come.
pub const UNPROVEN_BYTES_MAX: usize = 16 << 20;
/// Bytes of receive buffer that belong to each of them: a login with a token.
pub const UNPROVEN_BYTES: usize = 4 << 10;
/// One request of a peer that has not proven who it is, body and all.
pub const UNPROVEN_REQUEST_BYTES_MAX: usize = 64 << 10;
/// Requests of one such connection that are always answered: handshake, TLS, some attempts to log in, what is told on each.
pub const UNPROVEN_REQUESTS_FREE: u32 = 16;
/// Further requests a second of all such connections together.
pub const UNPROVEN_REQUESTS_PER_S_MAX: u32 = 1000;
/// Calls that one such session may have under way.
pub const UNPROVEN_CALLS_MAX: usize = 8;
