//! Symbolic links and special files.

use super::{
    Outcome,
    attributes::{described, shown},
    tree::{Made, NewNode, checked, make},
};
use crate::{
    caller::Caller,
    errno::Refusal,
    kernel::{
        answers::{Answer, Until},
        names,
        request::Request,
    },
    mount::Mount,
};
use base::FileId;
use rustix::io::Errno;
use wire::control::{Entry, LinkNode, NodeKind, ReadLink};

pub(super) fn make_link(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (name, target) = (fields.name()?, fields.name()?);
    let new = NewNode { kind: NodeKind::Link, mode: 0o777, is_opened: false, target };
    let Made { entry, until, .. } = make(mount, caller, (request.node, name), new)?;
    Ok(Answer::entry(mount.asked(), &shown(mount, &entry), until))
}

pub(super) fn link(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (file, name) = (mount.file_id(fields.u64()?), checked(fields.name()?)?);
    let parent = mount.file_id(request.node);
    let asked = mount.asked();
    let made = mount.head.call(caller, |client| LinkNode { client, file, parent, name: name.clone() });
    let made = made.inspect_err(|_| mount.doubt(parent))?;
    let entry = made.entry.ok_or(Errno::IO)?;
    mount.cache.changed(file);
    let name = mount.cache.made(asked, (parent, &name), &entry, (made.lease, made.names_lease));
    let until = Until { name, attributes: 0 };
    Ok(Answer::entry(mount.asked(), &described(mount, caller, &entry)?, until))
}

pub(super) fn read_link(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    Ok(Answer::data(names::bytes_of(&target(mount, caller, mount.file_id(request.node))?)))
}

fn target(mount: &Mount, caller: &Caller, file: FileId) -> Result<String, Refusal> {
    Ok(mount.head.call(caller, |client| ReadLink { client, file })?.target)
}

/// The number of a device, as the catalogue has it; of others nothing.
pub(super) fn device_text(kind: NodeKind, device: u32) -> String {
    match kind {
        NodeKind::BlockDevice | NodeKind::CharacterDevice => format!("{}:{}", major(device), minor(device)),
        _ => String::new(),
    }
}

/// The number of a device as the kernel packs it; of others 0.
pub(super) fn device(mount: &Mount, caller: &Caller, entry: &Entry) -> Result<u32, Refusal> {
    match entry.kind {
        NodeKind::BlockDevice | NodeKind::CharacterDevice => {
            let text = target(mount, caller, entry.id)?;
            let numbers = text
                .split_once(':')
                .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
            let (major, minor): (u32, u32) = numbers.ok_or(Errno::IO)?;
            Ok(pack(major, minor))
        }
        _ => Ok(0),
    }
}

// As `new_encode_dev` of the kernel: 12 bits of the major number stand between those of the minor one.
fn major(device: u32) -> u32 {
    device >> 8 & 0xfff
}

fn minor(device: u32) -> u32 {
    device & 0xff | device >> 12 & 0xf_ff00
}

fn pack(major: u32, minor: u32) -> u32 {
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_survive_the_kernels_packing() {
        for (one, two) in [(0, 0), (1, 3), (8, 255), (259, 256), (4095, 1_048_575)] {
            let device = pack(one, two);
            assert_eq!((major(device), minor(device)), (one, two));
            assert_eq!(device_text(NodeKind::BlockDevice, device), format!("{one}:{two}"));
        }
        assert_eq!(device_text(NodeKind::Fifo, 7), "");
    }
}
