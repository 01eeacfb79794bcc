//! Third-party copy as the grid does it (WLCG HTTP-TPC): fields that are passed on, and performance markers.

use std::fmt::Write as _;

/// What stands before the name of a field that is meant for the other server.
const PREFIX: &str = "transferheader";

/// Media type of the answer to a copy.
pub const MARKER_TYPE: &str = "text/perf-marker-stream";

/// The name under which a field is sent to the other server. `None`: the field is not for that server, or it describes
/// the message or the connection, so that clients must not set it.
///
/// ```
/// use wire::http::tpc::passed_on;
/// assert_eq!(passed_on("TransferHeaderAuthorization"), Some("authorization".to_owned()));
/// assert_eq!(passed_on("TransferHeaderHost"), None);
/// ```
#[must_use]
pub fn passed_on(name: &str) -> Option<String> {
    const OURS: [&str; 12] = [
        "connection",
        "content-length",
        "content-range",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = name.to_ascii_lowercase();
    let rest = name.strip_prefix(PREFIX)?.trim_start_matches('-');
    (!rest.is_empty() && !OURS.contains(&rest)).then(|| rest.to_owned())
}

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Seconds since 1970.
    pub now_s: i64,
    /// Bytes that have arrived at the other end.
    pub moved_bytes: u64,
    /// The other end of the connection, once there is one.
    pub remote: Option<core::net::SocketAddr>,
}

impl Marker {
    /// The marker as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "Perf Marker\n    Timestamp: {}\n    Stripe Index: 0\n    Stripe Bytes Transferred: {}\n    Total Stripe Count: 1\n",
            self.now_s, self.moved_bytes
        );
        if let Some(remote) = self.remote {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    RemoteConnections: tcp:{remote}");
        }
        text.push_str("End\n");
        text
    }
}

/// The last line of a copy that is done.
pub const SUCCESS: &str = "success: Created\n";

/// The last line of a copy that failed: one line, whatever the reason says.
#[must_use]
pub fn failure_line(why: &str) -> String {
    let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("failure: {why}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers() {
        let marker =
            Marker { now_s: 1_537_788_010, moved_bytes: 7, remote: Some(([127, 0, 0, 1], 80).into()) };
        let text = marker.text();
        assert!(text.starts_with("Perf Marker\n") && text.ends_with("\nEnd\n"));
        assert!(text.contains("Stripe Bytes Transferred: 7\n") && text.contains("tcp:127.0.0.1:80\n"));
        assert_eq!(failure_line("a\nsuccess: Created"), "failure: a success: Created\n");
    }

    #[test]
    fn only_harmless_fields_are_passed_on() {
        assert_eq!(passed_on("transferheaderx-a").as_deref(), Some("x-a"));
        for kept in [
            "authorization",
            "TransferHeader",
            "TransferHeaderContent-Length",
            "TransferHeaderTransfer-Encoding",
        ] {
            assert_eq!(passed_on(kept), None, "{kept}");
        }
    }
}
