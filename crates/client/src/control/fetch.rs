//! Streamed replies: those too long to hold in memory.

use super::Control;
use base::{Failure, Result};
use std::{io::Read, time::Duration};
use wire::control::USER_HEADER;

/// How long the whole answer may take: the backup of a catalogue of a billion files.
const FETCH_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// Deadline for the first byte of the reply.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Longest text of a refusal.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;

impl Control {
    /// Fetches a backup of the catalogue; `take` is given piece after piece.
    pub fn fetch_backup(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let what = format!("fetch a backup from {}", self.address());
        let mut request = self
            .agents
            .agent(&self.http)?
            .post(format!("{}/api/v1/backup", self.http))
            .config()
            .timeout_global(Some(FETCH_DEADLINE))
            .timeout_recv_response(Some(ANSWER_DEADLINE))
            .build()
            .header("content-type", "application/json")
            .header(USER_HEADER, &self.user);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.text()?));
        }
        let mut answer = request.send(&b"{}"[..]).map_err(|cause| {
            Failure::unavailable(format!("{what}: {cause}")).hint("is it running? `bp up DIR` starts it")
        })?;
        let is_good = answer.status().is_success();
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader();
        let failed = |cause: std::io::Error| Failure::io(&what, &cause);
        if !is_good {
            let mut text = Vec::new();
            body.take(REFUSAL_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
            let refusal = serde_json::from_slice::<Failure>(&text);
            return Err(refusal.unwrap_or_else(|_| Failure::unavailable(format!("{what}: it was refused"))));
        }
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = body.read(&mut piece).map_err(failed)?;
            if length == 0 {
                return Ok(());
            }
            take(&piece[..length])?;
        }
    }
}
