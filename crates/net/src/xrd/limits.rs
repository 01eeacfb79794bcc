//! Bounds of a session, each with its reason. Those of the protocol are in `base::limits`.

use std::{num::NonZeroUsize, time::Duration};
use wire::xrd::PAGE_BYTES;

/// A request that has begun must be whole within this, and data of a write must go on: the habit of the field for a
/// stuck stream. A peer that trickles its requests byte by byte is shed.
pub(super) const RECEIVE_PROGRESS: Duration = Duration::from_secs(60);
/// A peer that takes no byte for this long while answers wait: stopped in a debugger at worst.
pub(super) const SEND_PROGRESS: Duration = Duration::from_secs(120);
/// A session without any request: clients keep idle sessions for up to 20 minutes, some servers for 90.
pub(super) const SESSION_IDLE: Duration = Duration::from_secs(5400);
/// An idle session keeps its buffers this long.
pub(super) const BUFFERS_IDLE: Duration = Duration::from_secs(5);
/// Answers that are left when a session ends are sent within this.
pub(super) const FLUSH_DEADLINE: Duration = Duration::from_secs(5);
/// How long an announced answer may take; announced anew before that is over.
pub(super) const ANSWER_LATER: Duration = Duration::from_secs(300);
/// Calls under way in one session: clients pipeline some fifty. More are told to come again.
pub(super) const CALLS_MAX: usize = 256;
/// How long the thread of a service turn waits for a call: what the head takes to look into its catalogue, and a quick disk to
/// commit.
pub(super) const CALL_PATIENCE: Duration = Duration::from_millis(1);
/// Bytes of answers of calls that wait to be sent in one session.
pub(super) const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// The same of larger answers in all sessions of one user: eight whose peers read nothing.
pub(super) const ACCOUNT_BYTES_MAX: usize = 8 * OUTBOX_BYTES_MAX;
/// Answers up to this are bounded by the number of calls.
pub(super) const SMALL_ANSWER_BYTES: usize = 64 << 10;
/// Listings under way in all sessions of one user: each holds a part and has the next looked up, 2 MiB of long names each. One
/// whose peer reads nothing is over after [`SEND_PROGRESS`].
pub(super) const ACCOUNT_LISTINGS_MAX: usize = 16;
/// Sessions that are moved at the same time; each has a thread meanwhile, which may wait for a disk. More take turns.
pub(super) const MOVERS_MAX: usize = 128;
/// Sessions that are moved while they read what other servers have: their threads may wait for threads of those. They are counted
/// apart, so that files of this host can always be read, also by those servers, and nobody waits in a circle.
pub const PEER_MOVERS_MAX: usize = 32;
/// Wait permits: the mover of a session that holds one may wait for the peer instead of giving the thread back. A round trip
/// later the next request is there, and nobody has to be woken twice. Far fewer than movers, so that the others always find one.
pub(super) const WAIT_PERMITS_MAX: usize = 64;
/// Bytes that a session sends only with a wait permit, if its peer keeps up: a thousand peers at once would each get little.
pub(super) const PERMIT_BYTES_MIN: usize = 128 << 10;
/// How long they wait: what a client takes for its share of a fast network before it asks for more.
pub(super) const LINGER: Duration = Duration::from_millis(20);
/// A thread looks so long for the next request before it sleeps: what a processor of a virtual machine takes to wake, and
/// its peer to answer. Measured: 20 µs were in vain, 60 µs at times. On a network whose round trip is shorter, a client that
/// asks for one thing after the other keeps a processor busy, one in all for every two.
pub(super) const POLL_MAX: Duration = Duration::from_micros(100);
/// Who looked in vain so often in a row does it for every 128th request: under a microsecond for each.
pub(super) const POLL_MISSES_MAX: u32 = 7;
/// Bytes that may wait in each socket of a crowd. More would only be memory of the kernel, which has too little of it for a
/// thousand full sockets (it then drops what has arrived), and what it has would be in no cache.
pub(super) const UNSENT_BYTES_MAX: NonZeroUsize = NonZeroUsize::new(32 << 10).expect("it is not zero");
/// So many sessions with wait permits are no crowd: their sockets may fill, so that nobody has to be woken at the right moment.
pub(super) const FEW_MAX: usize = 4;
/// Data of a write that are worth to be waited for as a whole: waking costs more than moving less.
pub(super) const WAKE_BYTES_MIN: usize = 32 << 10;
/// Requests of one service turn; then other sessions get their turn, if any wait.
pub(super) const TURN_REQUESTS: u32 = 512;
/// Bytes that one service turn may send; then other sessions get their turn, if any wait.
pub(super) const TURN_BYTES: u64 = 4 << 20;
/// No service turn lasts longer, but for one call: the session has to see that it was ended.
pub(super) const TURN_MAX: Duration = Duration::from_millis(250);
/// Room for received requests; it grows to the longest request.
pub(super) const INBOX_BYTES: usize = 16 << 10;
/// Data are read, summed and sent (or received, summed and written) in chunks that stay in the cache of a core.
pub(super) const CHUNK_BYTES: usize = base::page_sums::BLOCK_BYTES;
/// What a session keeps of its arena and buffers while it is idle for a moment.
pub(super) const ARENA_BYTES_KEPT: usize = CHUNK_BYTES + (16 << 10);
/// What one of several reads at once fetches.
pub(super) const RING_PIECE_BYTES: usize = 64 << 10;
/// Slices of one send, as many as the kernel takes.
pub(super) const SLICES_MAX: usize = 1024;
/// Longest piece of an answer: other answers can go between two.
pub(super) const FRAME_BYTES: usize = 4 << 20;
/// The same of page reads: what leaves in one send from where the file is mapped, a slice for each page and one for each sum.
/// With a quarter of that in each send `xrdcp` was woken three times as often, and lost a tenth of the rate.
pub(super) const PAGE_FRAME_BYTES: usize = SLICES_MAX / 2 * PAGE_BYTES;
/// Pieces shorter than this are sent from where the file is mapped, longer ones by `sendfile`: measured.
pub(super) const MAPPED_BYTES_MAX: usize = 64 << 10;
/// A vector of fewer elements is read as it comes.
pub(super) const ANNOUNCED_ELEMENTS_MIN: usize = 8;
/// Connections of one session beside the first; clients of the field use up to 15.
pub(super) const STREAMS_MAX: usize = 15;
/// Reads that wait for one such connection.
pub(super) const STREAM_READS_MAX: usize = 256;
/// Body of a request that names many paths: some thousand of them.
pub(super) const PATHS_BYTES_MAX: usize = 1 << 20;
/// When a client with too many calls under way should come again.
pub(super) const COME_AGAIN_S: u32 = 1;
/// A listing that was announced is answered in one piece: some hundred thousand names.
pub(super) const LATE_LISTING_BYTES_MAX: usize = 32 << 20;
/// Such listings of a whole door: 256 MiB.
pub(super) const LATE_LISTINGS_MAX: usize = 8;
/// Those of one user.
pub(super) const ACCOUNT_LATE_LISTINGS_MAX: usize = 2;
/// After its last answer a peer has this long to stop sending: an end with bytes that nobody took would take the answer back.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
