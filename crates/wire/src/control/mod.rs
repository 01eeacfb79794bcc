//! The management API: calls and their replies, as JSON.
//!
//! A call is a type. It travels as `POST /api/v1/{NAME}` with the call as JSON body. The answer is its [`Call::Reply`]
//! with status 200, or a [`base::Failure`] with the status of its kind. A room on another host authenticates with the
//! certificate of its host; a room beside the head runs in the head's process. Calls for [`Audience::Rooms`] have no
//! path: only the head's own process makes them.
//!
//! Some replies can be [pending](Call::is_pending). With `?wait=30s` the head holds such a reply back until there is
//! something to tell. When the time is over, it returns the pending reply.

pub mod account;
mod calls;
pub mod drive_quota;
pub mod events;
pub mod facility;
pub mod jobs;
pub mod names;
pub mod pool;
pub mod repack;
pub mod rooms;
pub mod share;
pub mod stage;
pub mod storage_class;
pub mod tape;

pub use account::{accounts::*, quotas::*, shares::*};
pub use calls::*;
pub use drive_quota::*;
pub use events::*;
pub use facility::{
    counts::*, devices::*, heads::*, hosts::*, keys::*, labels::*, presence::*, restored::*, status::*,
    version::*,
};
pub use jobs::*;
pub use names::{adopt::*, attributes::*, files::*, grants::*, layouts::*, trash::*};
pub use pool::{allocation::*, policy::*, pools::*, scan::*};
pub use repack::*;
pub use rooms::{batch::*, disk::*, tape::*};
pub use share::*;
pub use stage::*;
pub use storage_class::*;
pub use tape::*;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Who may make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Anybody the facility knows.
    People,
    /// The same, and jobs of operators, whose tokens are for files only: what a mount does with files.
    Mounts,
    /// The rooms beside the head, in its process.
    Rooms,
    /// The same, and disk servers that joined.
    Disk,
    /// The same, and tape servers that joined.
    Tape,
    /// The same, and workers that joined.
    Cpu,
    /// The same, and every host that joined.
    Hosts,
}

/// One verb of the management API.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// Last component of the URL.
    const NAME: &'static str;
    /// Who may make it.
    const AUDIENCE: Audience;
    /// What comes back.
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// What it does to the facility.
    const EFFECT: Effect;
    /// The fields that a record of the audit log names, in this order; all else may be long, or secret.
    const NAMED: &'static [&'static str];

    /// Whether the caller would rather wait than take this reply.
    fn is_pending(_reply: &Self::Reply) -> bool {
        false
    }
}

/// What a call does to the facility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing: the audit log has it only if it was refused.
    Reads,
    /// It changes something: the audit log has it, if a user or a host makes it. Of rooms it has only refusals.
    Changes,
}

/// Who may make the call of this name; `None`: there is none.
#[must_use]
pub fn audience_of(name: &str) -> Option<Audience> {
    CALLS.iter().find(|call| call.name == name).map(|call| call.audience)
}

/// Where a running facility listens; the content of `DIR/endpoints.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// XRootD door, `root://127.0.0.1:1094`.
    pub root: String,
    /// HTTP door, `http://127.0.0.1:8094`.
    pub http: String,
    /// The XRootD door for clients that insist on TLS, `roots://127.0.0.1:1094`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<String>,
    /// HTTP door with TLS, `https://127.0.0.1:8443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
    /// Whether its doors want to see a token.
    #[serde(default)]
    pub is_token_required: bool,
    /// Process id of the daemon that wrote this.
    pub pid: u32,
    /// The facility's id, made at creation.
    pub facility: String,
}

/// The answer of a call that has nothing to say but that it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Done {}

/// Header by which a client on a trusted loopback says who it is.
pub const USER_HEADER: &str = "x-backplane-user";

/// Response header: the tag of a pending reply. Sent back as `seen`, a reply with another tag is given at once.
pub const REPLY_TAG_HEADER: &str = "x-backplane-reply-tag";

/// Fuzz body: a call that arrives damaged is refused, and one that is read says the same when written again.
pub fn fuzz_control(data: &[u8]) {
    fn round<C: Call>(data: &[u8]) {
        let Ok(call) = serde_json::from_slice::<C>(data) else { return };
        let text = serde_json::to_vec(&call).expect("a call always serialises");
        let again: C = serde_json::from_slice(&text).expect("what was written can be read");
        assert_eq!(text, serde_json::to_vec(&again).expect("a call always serialises"), "{}", C::NAME);
    }
    macro_rules! every_call {
        ($($call:ident => $reply:ty, $name:literal, $audience:ident, $by:ident, $effect:ident, [$($named:literal),*]
            $(, pending $pending:expr)?;)*) => {
            $(round::<$call>(data);)*
        };
    }
    crate::for_each_call!(every_call);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALLS: [&str; 9] = [
        r#"{"spec":{"name":"j","command":["a"],"resources":{"cpus":1,"memory_bytes":0,"wall":1},
            "inputs":[{"path":"/a","name":"a"}],"outputs":[],"archive":true,"environment":{"K":"v"}}}"#,
        r#"{"paths":["/a","/b"],"pin":5}"#,
        r#"{"paths":["/a"],"want":"online"}"#,
        r#"{"from":"/a","to":"/b"}"#,
        r#"{"vid":"BP0001","state":"suspect"}"#,
        r#"{"vids":["BP0001"],"all":false}"#,
        r#"{"path":"/a","parents":true,"mode":493}"#,
        r#"{"path":"/a","changes":[{"name":"n","value":"00ff"},{"name":"m"}],"is_new":false}"#,
        r#"{"path":"/a","subject":"group:prod","rights":"rw"}"#,
    ];

    #[test]
    fn calls_that_get_something_change_nothing() {
        for call in super::CALLS.iter().filter(|call| call.name.starts_with("get_")) {
            assert_eq!(call.effect, Effect::Reads, "{}", call.name);
        }
    }

    #[test]
    fn paths_and_volumes_are_checked_where_they_are_read() {
        for bad in [r#"{"from":"/a/../b","to":"/c"}"#, r#"{"from":"a","to":"/c"}"#, r#"{"from":"/a"}"#] {
            assert!(serde_json::from_str::<Rename>(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<SetVolumeState>(r#"{"vid":"bp1","state":"full"}"#).is_err());
    }

    proptest! {
        #[test]
        fn damaged_calls_never_panic(which in 0..CALLS.len(), at in 0usize..300, byte: u8) {
            let mut text = CALLS[which].as_bytes().to_vec();
            fuzz_control(&text);
            let at = at % text.len();
            text[at] = byte;
            fuzz_control(&text);
            fuzz_control(&text[..at]);
        }

        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_control(&data);
        }
    }
}
