//! The capability keys of a joined host: their file, and how it fetches new ones from the head.

use crate::facility::{
    layout::{Layout, failed, replace},
    link::Link,
};
use base::{Failure, Millis, Result};
use net::{blocking, shutdown::Token};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::sleep;
use tracing::{debug, info};
use wire::{
    auth::capability::ServerKeys,
    control::{GetCapKeys, HostCapKey, HostCapKeys},
};

/// Mode of the file.
const MODE: u32 = 0o600;
/// How long the head may hold its answer back: until the keys change.
const WAIT: Millis = Millis::from_seconds(30);
/// Pause after a call in vain.
const PAUSE: Duration = Duration::from_secs(2);

/// Reads the keys of the host in `layout`.
pub(crate) fn read(layout: &Layout) -> Result<ServerKeys> {
    let file = layout.cap_key_file();
    let bytes = fs::read(&file).map_err(|cause| failed("read", &file, &cause))?;
    ServerKeys::given(&parse(&file, &bytes)?)
}

/// Understands the file: all generations, or the 32 bytes that were all of it in older versions.
fn parse(file: &Path, bytes: &[u8]) -> Result<HostCapKeys> {
    if bytes.len() == 32 {
        let key = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        return Ok(HostCapKeys { serial: 0, keys: vec![HostCapKey { generation: 1, until: None, key }] });
    }
    serde_json::from_slice(bytes).map_err(|cause| {
        Failure::corrupt(format!("{} does not hold the keys of this host: {cause}", file.display()))
            .hint("remove the host with `bp host remove`, and let it join again")
    })
}

/// Stores what the head has given, whole or not at all.
pub(crate) fn store(layout: &Layout, given: &HostCapKeys) -> Result<()> {
    // What cannot be used is not stored.
    ServerKeys::given(given)?;
    write(&layout.cap_key_file(), given)
}

fn write(file: &Path, given: &HostCapKeys) -> Result<()> {
    let text = serde_json::to_vec_pretty(given)
        .map_err(|cause| Failure::internal(format!("cannot write the keys of this host: {cause}")))?;
    replace(file, &text, MODE)
}

/// Keeps the keys of a disk server those of the head: it answers as soon as they change. Until it is told here that new ones are
/// stored it signs with older ones.
pub(crate) async fn keep(link: Link, layout: Layout, keys: ServerKeys, token: Token) {
    let file = layout.cap_key_file();
    loop {
        let fetched = tokio::select! {
            () = token.stopped() => return,
            fetched = fetch(&link, file.clone(), &keys) => fetched,
        };
        let Err(failure) = fetched else {
            if fetched == Ok(true) {
                info!(serial = keys.held().0, "the keys that sign capabilities changed");
            }
            continue;
        };
        // The janitor says aloud that the head is out of reach.
        debug!(%failure, "cannot ask the head for new capability keys; retrying");
        tokio::select! {
            () = token.stopped() => return,
            () = sleep(PAUSE) => {}
        }
    }
}

/// Asks once; whether something was new.
async fn fetch(link: &Link, file: PathBuf, keys: &ServerKeys) -> Result<bool> {
    let (serial, generation) = keys.held();
    let given = link.call_waiting(GetCapKeys { serial, generation }, WAIT).await?;
    if given.keys.is_empty() {
        return Ok(false);
    }
    let keys = keys.clone();
    // Stored first: the head is told of nothing that a power cut could take back.
    blocking(move || {
        ServerKeys::given(&given)?;
        write(&file, &given)?;
        keys.set(&given)
    })
    .await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_older_versions_are_read_and_new_ones_replace_them() {
        let scratch = tempfile::tempdir().unwrap();
        let layout = Layout::new(scratch.path()).unwrap();
        let file = layout.cap_key_file();
        fs::write(&file, [7; 32]).unwrap();
        assert_eq!(read(&layout).unwrap().held(), (0, 1));
        let key = |generation| HostCapKey { generation, until: None, key: "07".repeat(32) };
        let given = HostCapKeys { serial: 5, keys: vec![key(2), key(1)] };
        store(&layout, &given).unwrap();
        assert_eq!(read(&layout).unwrap().held(), (5, 2));
        let bad = HostCapKeys { serial: 6, keys: vec![HostCapKey { key: "x".to_owned(), ..key(3) }] };
        assert!(store(&layout, &bad).is_err());
        assert_eq!(read(&layout).unwrap().held(), (5, 2), "what cannot be used replaces nothing");
        for damaged in [&b""[..], b"{}", &[7; 31]] {
            fs::write(&file, damaged).unwrap();
            let failure = read(&layout).map(drop).unwrap_err();
            assert!(failure.hint.is_some_and(|hint| hint.contains("bp host remove")));
        }
    }
}
