//! Checks of `bp doctor` on this host: files, ports, certificates and the audit log.

use super::findings::Finding;
use crate::{
    verbs::audit,
    words::{counted, span, time},
};
use base::{Millis, Timestamp, units::human_bytes};
use std::{
    collections::BTreeSet,
    fs, io,
    net::{TcpStream, ToSocketAddrs},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use wire::control::{Endpoints, HostInfo, Presence};

/// How long a port may take to answer.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// How long the doors of all hosts together may take to answer; resolvers wait for servers that are gone.
const DOORS_DEADLINE: Duration = Duration::from_secs(10);
/// Hosts whose doors are tried: a thread each.
const DOORS_MAX: usize = 64;
/// The check whether doors answer.
const PORTS: &str = "ports";
/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;
/// The file system of the catalogue and the log is full with less than one part in so many.
const FULL_PARTS: u64 = 50;
/// Our own certificates are renewed a month before they end: with less than half of that nothing renews them.
const CERTIFICATE_LEFT_MIN: Millis = Millis(15 * DAY_MS);
/// All hosts need a new certificate of the authority before the old one ends.
const AUTHORITY_LEFT_MIN: Millis = Millis(365 * DAY_MS);
const DAY_MS: i64 = 86_400_000;
/// The action of a backup in the audit log.
const BACKUP: &str = "backup";

/// Looks at the directory of a facility, or of a host that has joined one.
pub(super) fn look(directory: &Path, backup_age_max: Millis, now: Timestamp) -> Vec<Finding> {
    let mut found = permissions(directory);
    found.push(room(directory));
    found.extend(certificates(&directory.join("tls"), now));
    // A host that joined has no catalogue.
    if !directory.join("membership.json").exists() {
        found.push(backup(directory, backup_age_max, now));
    }
    found
}

/// Whether others can look into the directory, and whether all of it belongs to one user.
fn permissions(directory: &Path) -> Vec<Finding> {
    const CHECK: &str = "permissions";
    let shown = directory.display();
    let looked = || -> io::Result<Vec<Finding>> {
        let owner = fs::metadata(directory)?.uid();
        let mut paths = vec![directory.to_owned()];
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        let mut found = Vec::new();
        for path in paths {
            // A link to nothing is nobody's; a socket may be made for all users of the host.
            let Ok(meta) = fs::metadata(&path) else { continue };
            let (name, mode) = (path.display(), meta.mode() & 0o7777);
            if meta.uid() != owner {
                let what = format!("{name} belongs to uid {}, the facility to uid {owner}", meta.uid());
                found.push(Finding::wrong(CHECK, what, format!("`chown -R {owner} {shown}`")));
            } else if mode & OTHERS != 0 && !is_socket(&meta) {
                let what = format!("other users of this host can reach {name}: its mode is {mode:04o}");
                found.push(Finding::wrong(CHECK, what, format!("`chmod go= {name}`")));
            }
        }
        Ok(found)
    };
    match looked() {
        Ok(found) if found.is_empty() => {
            vec![Finding::good(CHECK, format!("other users cannot reach {shown}"))]
        }
        Ok(found) => found,
        Err(cause) => vec![unseen(CHECK, &shown.to_string(), &cause)],
    }
}

fn is_socket(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type())
}

/// What could not be looked at: nothing is wrong if this user may not.
fn unseen(check: &'static str, thing: &str, cause: &io::Error) -> Finding {
    if cause.kind() == io::ErrorKind::PermissionDenied {
        return Finding::skipped(check, format!("{thing} cannot be read by this user"));
    }
    Finding::wrong(check, format!("{thing}: {cause}"), "check that its file system is mounted and intact")
}

/// Room for the catalogue and the log.
fn room(directory: &Path) -> Finding {
    const CHECK: &str = "room";
    let shown = directory.display().to_string();
    match rustix::fs::statvfs(directory) {
        Ok(stat) => {
            let (free, all) = (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize);
            let what = format!("{} of {} free below {shown}", human_bytes(free), human_bytes(all));
            if free < all / FULL_PARTS {
                return Finding::wrong(
                    CHECK,
                    what,
                    "free some space: when the catalogue cannot be written, the facility stops",
                );
            }
            Finding::good(CHECK, what)
        }
        Err(cause) => unseen(CHECK, &shown, &cause.into()),
    }
}

/// When the certificates end.
fn certificates(tls: &Path, now: Timestamp) -> Vec<Finding> {
    let one = |(name, left_min, next)| certificate(&tls.join(name), left_min, next, now);
    let renewed = "restart bpd, which renews it, and read its log";
    let known = [
        ("host.pem", CERTIFICATE_LEFT_MIN, renewed),
        ("ca.pem", AUTHORITY_LEFT_MIN, "make a new authority and let all hosts join again before it expires"),
    ];
    known.into_iter().filter_map(one).collect()
}

fn certificate(file: &Path, left_min: Millis, next: &str, now: Timestamp) -> Option<Finding> {
    const CHECK: &str = "certificates";
    let shown = file.display();
    let pem = match fs::read(file) {
        Ok(pem) => pem,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return None,
        Err(cause) => return Some(unseen(CHECK, &shown.to_string(), &cause)),
    };
    let Some(ends) = client::certificate_end(&pem) else {
        return Some(Finding::wrong(CHECK, format!("{shown} is damaged"), next));
    };
    let left = ends - now;
    if left.0 <= 0 {
        return Some(Finding::wrong(CHECK, format!("{shown} expired on {}", time(ends)), next));
    }
    if left < left_min {
        return Some(Finding::wrong(CHECK, format!("{shown} expires in {}", span(left)), next));
    }
    Some(Finding::good(CHECK, format!("{shown} is valid until {}", time(ends))))
}

/// How old the newest backup is, as the audit log tells.
fn backup(directory: &Path, age_max: Millis, now: Timestamp) -> Finding {
    const NEXT: &str = "run `bp backup FILE` every day, and keep the file on another host";
    // A facility that was made just now needs none yet.
    let made = fs::metadata(directory.join("id")).and_then(|meta| meta.modified());
    let made = made.map_or(Timestamp(i64::MIN), Timestamp::from_system);
    match audit::newest(directory, BACKUP) {
        Ok(Some(at)) if now - at <= age_max => {
            Finding::good(BACKUP, format!("the newest is {} old", span(now - at)))
        }
        Ok(Some(at)) => Finding::wrong(BACKUP, format!("the newest is {} old", span(now - at)), NEXT),
        Ok(None) if made.0.saturating_add(age_max.0) > now.0 => {
            Finding::good(BACKUP, "there is none yet; the facility is new")
        }
        Ok(None) => Finding::wrong(BACKUP, "the audit log records no backup", NEXT),
        Err(failure) if failure.kind == base::ErrorKind::Permission => {
            Finding::skipped(BACKUP, "the audit log cannot be read by this user")
        }
        Err(failure) => Finding::failed(BACKUP, failure, NEXT),
    }
}

/// Whether the doors can be reached under the names that clients are given.
pub(super) fn ports(endpoints: &Endpoints) -> Vec<Finding> {
    let doors =
        [Some(&endpoints.root), Some(&endpoints.http), endpoints.roots.as_ref(), endpoints.https.as_ref()];
    let mut seen = BTreeSet::new();
    let doors = doors.into_iter().flatten().filter(|url| seen.insert(authority(url).to_owned()));
    doors.map(|url| port(url)).collect()
}

/// `host:port` of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn port(url: &str) -> Finding {
    let next = "check for a firewall, and the settings [host] and [doors] in facility.toml";
    let addresses = match authority(url).to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(cause) => {
            return Finding::wrong(
                PORTS,
                format!("cannot resolve the name in {url}: {cause}"),
                "add it to DNS or to /etc/hosts of this host",
            );
        }
    };
    let mut failed = "no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_DEADLINE) {
            Ok(_) => return Finding::good(PORTS, format!("{url} answers")),
            Err(cause) => failed = format!("{address}: {cause}"),
        }
    }
    Finding::wrong(PORTS, format!("{url} cannot be reached: {failed}"), next)
}

/// Whether this host reaches the doors of all hosts that are there: clients are sent to them.
pub(super) fn doors(hosts: &[HostInfo]) -> Vec<Finding> {
    let is_here = |host: &&HostInfo| host.removed.is_none() && host.presence == Presence::Here;
    let here = hosts.iter().filter(is_here);
    let doors: Vec<_> = here.filter_map(|host| Some((host.name.clone(), host.door.clone()?))).collect();
    let (told, answers) = mpsc::channel();
    for (name, door) in doors.iter().take(DOORS_MAX).cloned() {
        let told = told.clone();
        // It ends with the process: nothing can stop a resolver.
        thread::spawn(move || {
            let _ = told.send((name, port(&format!("root://{door}"))));
        });
    }
    drop(told);
    let mut missing: BTreeSet<&str> = doors.iter().take(DOORS_MAX).map(|(name, _)| name.as_str()).collect();
    let mut found = Vec::new();
    let until = Instant::now() + DOORS_DEADLINE;
    while let Ok((name, finding)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        missing.remove(name.as_str());
        found.push(Finding { found: format!("host {name}: {}", finding.found), ..finding });
    }
    found.extend(missing.into_iter().map(|name| {
        let what = format!("host {name}: no DNS server answers within {} s", DOORS_DEADLINE.as_secs());
        Finding::wrong(PORTS, what, "check /etc/resolv.conf of this host")
    }));
    if doors.len() > DOORS_MAX {
        let more = counted((doors.len() - DOORS_MAX) as u64, "host was", "hosts were");
        found.push(Finding::skipped(PORTS, format!("{more} not tried")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn open_files_are_named_with_the_command_that_closes_them() {
        let home = tempfile::tempdir().unwrap();
        let key = home.path().join("key");
        fs::write(&key, "secret").unwrap();
        mode(home.path(), 0o700);
        mode(&key, 0o600);
        assert!(permissions(home.path()).iter().all(|found| !found.is_wrong()));
        mode(&key, 0o644);
        let found = permissions(home.path());
        assert_eq!(found.len(), 1);
        assert!(found[0].found.contains("0644"), "{found:?}");
        assert_eq!(found[0].next, Some(format!("`chmod go= {}`", key.display())));
    }

    #[test]
    fn ports_are_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        assert!(!port(&url).is_wrong());
        drop(listener);
        assert!(port(&url).found.contains("cannot be reached"));
        assert!(port("root://nothing.invalid:1094").is_wrong());
        assert_eq!(authority("root://[::1]:1094//a"), "[::1]:1094");
    }

    #[test]
    fn a_facility_without_a_backup_is_wrong_unless_it_is_new() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(wire::audit::DIRECTORY);
        fs::create_dir(&directory).unwrap();
        fs::write(home.path().join("id"), "f00").unwrap();
        let day = Millis(DAY_MS);
        let now = Timestamp::from_system(std::time::SystemTime::now());
        let later = Timestamp(now.0 + 2 * DAY_MS);
        assert!(!backup(home.path(), day, now).is_wrong());
        assert!(backup(home.path(), day, later).is_wrong());
        let line = |at: Timestamp, refused: &str| {
            format!("{{\"at\":{},\"door\":\"http\",\"user\":\"a\",\"action\":\"backup\"{refused}}}\n", at.0)
        };
        let file = directory.join(wire::audit::FILE);
        fs::write(&file, line(later, ",\"refused\":\"permission\"")).unwrap();
        assert!(backup(home.path(), day, later).is_wrong(), "a backup that was refused is none");
        fs::write(&file, line(later, "")).unwrap();
        assert!(!backup(home.path(), day, later).is_wrong());
    }

    #[test]
    fn damaged_certificates_are_named() {
        let home = tempfile::tempdir().unwrap();
        assert!(certificates(home.path(), Timestamp(0)).is_empty());
        fs::write(home.path().join("host.pem"), "nonsense").unwrap();
        assert!(certificates(home.path(), Timestamp(0))[0].found.contains("is damaged"));
    }
}
