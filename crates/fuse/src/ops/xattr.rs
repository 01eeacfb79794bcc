//! Extended attributes: those of users, and `user.bp.*`, which say what the facility knows of a file.
//!
//! The latter are found only by who asks for them by name: programs that copy all attributes of a list leave them alone.

use super::Outcome;
use crate::{
    caller::Caller,
    errno::Refusal,
    kernel::{abi, answers::Answer, request::Request},
    mount::Mount,
    unmount::SERVED_BY,
};
use base::FileId;
use rustix::io::Errno;
use wire::control::{
    AttributeChange, AttributeName, AttributeValue, DescribeNode, FileInfo, GetNodeAttributes,
    SetNodeAttribute,
};

/// What the kernel puts before names of users' attributes; others are of the system, which nobody keeps here.
const USER: &str = "user.";
/// What the facility says of a file.
const OWN: &str = "bp.";
/// The flag of a file that may lack what a mount had written. It is kept as attributes of users are, so that they can remove it.
const UNSYNCED: &str = "bp.unsynced";

pub(super) fn get(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (room, _padding) = (fields.u32()?, fields.u32()?);
    let name = fields.name()?;
    if name == SERVED_BY {
        // Without the head: it is asked for before a mount is unmounted whose facility may be away.
        return sized(room, std::process::id().to_string().into_bytes());
    }
    let name = name.strip_prefix(USER).ok_or(Errno::OPNOTSUPP)?;
    let file = mount.file_id(request.node);
    let value = match name.strip_prefix(OWN) {
        Some(what) if name != UNSYNCED => {
            let info = mount.head.call(caller, |client| DescribeNode { client, file })?;
            own(&info, what).map(String::into_bytes)
        }
        _ => {
            let all = mount.head.call(caller, |client| GetNodeAttributes { client, file })?.attributes;
            all.into_iter().find(|it| it.name.as_str() == name).map(|it| it.value.as_bytes().to_vec())
        }
    };
    sized(room, value.ok_or(Errno::NODATA)?)
}

pub(super) fn list(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let room = request.fields().u32()?;
    let file = mount.file_id(request.node);
    let all = mount.head.call(caller, |client| GetNodeAttributes { client, file })?.attributes;
    let names = all.iter().filter(|it| !it.name.as_str().starts_with(OWN));
    sized(room, names.flat_map(|it| format!("{USER}{}\0", it.name).into_bytes()).collect())
}

pub(super) fn set(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (size, flags) = (fields.u32()? as usize, fields.u32()?);
    let name = fields.name()?;
    let value = fields.rest().get(..size).ok_or(Errno::INVAL)?.to_vec();
    let must_exist = match flags {
        0 => None,
        abi::xattr::CREATE => Some(false),
        abi::xattr::REPLACE => Some(true),
        _ => return Err(Errno::INVAL.into()),
    };
    let value = AttributeValue::try_from(value).map_err(|_| Errno::TOOBIG)?;
    let change = AttributeChange { name: users(&name)?, value: Some(value) };
    change_one(mount, caller, mount.file_id(request.node), (change, must_exist))
}

pub(super) fn remove(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let name = request.fields().name()?;
    let is_flag = name.strip_prefix(USER) == Some(UNSYNCED);
    let name = if is_flag {
        AttributeName::try_from(UNSYNCED.to_owned()).map_err(|_| Errno::INVAL)
    } else {
        users(&name)
    };
    let change = AttributeChange { name: name?, value: None };
    change_one(mount, caller, mount.file_id(request.node), (change, Some(true)))
}

fn change_one(
    mount: &Mount,
    caller: &Caller,
    file: FileId,
    (change, must_exist): (AttributeChange, Option<bool>),
) -> Outcome {
    let call = |client| SetNodeAttribute { client, file, change: change.clone(), must_exist };
    mount.head.call(caller, call).map_err(|refusal| match refusal.errno() {
        Errno::NOENT => Refusal::from(Errno::NODATA),
        _ => refusal,
    })?;
    Mount::nothing()
}

/// The name of an attribute that users may change.
fn users(name: &str) -> Result<AttributeName, Errno> {
    let name = name.strip_prefix(USER).ok_or(Errno::OPNOTSUPP)?;
    if name.starts_with(OWN) {
        return Err(Errno::PERM);
    }
    AttributeName::try_from(name.to_owned()).map_err(|_| Errno::INVAL)
}

/// An answer of a length that the caller did not know: it asks for the length first, with no room.
fn sized(room: u32, bytes: Vec<u8>) -> Outcome {
    if room == 0 {
        let mut answer = Answer::default();
        answer.u32(bytes.len() as u32).u32(0);
        return Ok(answer);
    }
    if bytes.len() > room as usize { Err(Errno::RANGE.into()) } else { Ok(Answer::data(bytes)) }
}

/// What the facility says of a file: its state, sums, disk servers, volumes of tape, and what it waits for.
fn own(info: &FileInfo, what: &str) -> Option<String> {
    let sums = info.entry.checksums;
    let list = |values: Vec<String>| (!values.is_empty()).then(|| values.join(","));
    match what {
        "state" => info.entry.state.map(|state| state.as_str().to_owned()),
        "adler32" => sums.map(|sums| sums.adler32.to_string()),
        "crc32c" => sums.map(|sums| sums.crc32c.to_string()),
        "disks" => {
            list(info.replicas.iter().chain(info.pieces.iter().map(|piece| &piece.place)).cloned().collect())
        }
        "volumes" => list(info.copies.iter().map(|copy| copy.vid.to_string()).collect()),
        "waits" => info.waits.clone(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attributes_of_users_are_changed() {
        assert_eq!(users("user.colour").unwrap().as_str(), "colour");
        assert_eq!(users("user.bp.state"), Err(Errno::PERM));
        assert_eq!(users("security.capability"), Err(Errno::OPNOTSUPP));
        assert_eq!(users("user."), Err(Errno::INVAL));
    }

    #[test]
    fn who_has_no_room_is_told_how_much_is_needed() {
        let mut nine = Answer::default();
        nine.u32(9).u32(0);
        assert_eq!(sized(0, vec![7; 9]).unwrap().into_bytes(), nine.into_bytes());
        assert_eq!(sized(9, vec![7; 9]).unwrap().into_bytes(), vec![7; 9]);
        assert_eq!(sized(8, vec![7; 9]).err(), Some(Errno::RANGE.into()));
    }
}
