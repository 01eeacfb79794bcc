//! Bounds of a session, each with its reason. Those of the protocol are in `base::limits`.

use std::time::Duration;

/// Handshake and login: a peer that has not said who it is by then is gone or hostile.
pub(super) const LOGIN_DEADLINE: Duration = Duration::from_secs(30);
/// A request that has begun must go on: the habit of the field for a stuck stream.
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
/// Calls under way in one session: clients pipeline some fifty. More wait a moment, then must come again.
pub(super) const CALLS_MAX: usize = 256;
/// Bytes of answers that wait to be sent in one session.
pub(super) const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// Answers up to this size are sent by the thread that made them: cheaper than waking the session.
pub(super) const DIRECT_BYTES_MAX: usize = 64 << 10;
/// Buffers that a session keeps for its next answers.
pub(super) const BUFFERS_MAX: usize = 4;
/// A longer buffer is not kept: a segment with its headers and checksums fits.
pub(super) const BUFFER_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Room for received requests at the start of a session; it grows to the longest request.
pub(super) const INBOX_BYTES: usize = 16 << 10;
/// Body of a request that names many paths: some thousand of them.
pub(super) const PATHS_BYTES_MAX: usize = 1 << 20;
/// Requests handled before other sessions get their turn.
pub(super) const TURN_REQUESTS: u32 = 64;
/// When a client with too many calls under way should come again.
pub(super) const COME_AGAIN_S: u32 = 1;
/// A listing that was announced is answered in one piece: some hundred thousand names.
pub(super) const LATE_LISTING_BYTES_MAX: usize = 32 << 20;
