//! Messages of the kernel.
#![allow(clippy::host_endian_bytes, reason = "both ends are the same host")]

use super::names;
use rustix::io::Errno;

/// Bytes of the head of a message.
const HEAD_BYTES: usize = 40;

/// A message of the kernel: who wants what of which node.
#[derive(Debug, Clone)]
pub struct Request {
    /// One of [`super::abi::opcode`].
    pub opcode: u32,
    /// Its number, which the answer bears.
    pub unique: u64,
    /// The node.
    pub node: u64,
    /// The user whose rights it has.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// The thread that waits for the answer; 0 if there is none, or none that this process can see.
    pub pid: u32,
    body: Vec<u8>,
}

impl Request {
    /// Takes a message apart; `None` if it is none.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let (head, body) = message.split_at_checked(HEAD_BYTES)?;
        let mut fields = Fields { rest: head };
        let length = fields.u32().ok()?;
        let opcode = fields.u32().ok()?;
        let (unique, node) = (fields.u64().ok()?, fields.u64().ok()?);
        let (uid, gid, pid) = (fields.u32().ok()?, fields.u32().ok()?, fields.u32().ok()?);
        (length as usize == message.len()).then(|| Self {
            opcode,
            unique,
            node,
            pid,
            uid,
            gid,
            body: body.to_vec(),
        })
    }

    /// What follows the head.
    pub fn fields(&self) -> Fields<'_> {
        Fields { rest: &self.body }
    }

    /// A message as the kernel would send it.
    #[cfg(test)]
    pub fn of(opcode: u32, node: u64, body: &[u8]) -> Self {
        Self { opcode, unique: 1, node, pid: 0, uid: 0, gid: 0, body: body.to_vec() }
    }
}

/// Reads one field after the other. What ends early is no valid message.
#[derive(Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take<const LEN: usize>(&mut self) -> Result<[u8; LEN], Errno> {
        let (field, rest) = self.rest.split_first_chunk::<LEN>().ok_or(Errno::INVAL)?;
        self.rest = rest;
        Ok(*field)
    }

    /// 32 bits.
    pub fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }

    /// 64 bits.
    pub fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }

    /// A name, as the catalogue has it.
    pub fn name(&mut self) -> Result<String, Errno> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let name = names::of_bytes(&self.rest[..end]);
        self.rest = &self.rest[end + 1..];
        Ok(name)
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_message_is_too_odd(message in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(request) = Request::parse(&message) {
                let mut fields = request.fields();
                while fields.name().is_ok() && fields.u32().is_ok() && fields.u64().is_ok() {}
            }
        }
    }

    #[test]
    fn names_end_with_a_zero() {
        let request = Request::of(0, 1, b"old\0new\0\xff\0rest");
        let mut fields = request.fields();
        assert_eq!((fields.name(), fields.name()), (Ok("old".to_owned()), Ok("new".to_owned())));
        assert_eq!(fields.name(), Ok("\u{f7ff}".to_owned()));
        assert_eq!(Request::of(0, 1, b"endless").fields().name(), Err(Errno::INVAL));
    }
}
