//! Addresses of objects, with what they allow.

use super::{CAP_LIFETIME, Core, unknown_partition};
use base::{Millis, Result, Timestamp};
use wire::{
    auth::capability::{Access, Cap, Content, DIRECT, PARAMETER, UNFENCED, WHOLE},
    media::object,
};

/// What else a capability says of its object.
struct Bound {
    generation: u64,
    content: Option<Content>,
    piece: Option<object::Piece>,
}

impl Core {
    /// The URL by which a room reads or writes one object. It is told if that cannot be: nobody else has this object.
    pub(crate) fn object_url(&self, cap: &CapFor<'_>, now: Timestamp) -> Result<String> {
        self.object_url_of(cap, content_of(cap), now)
    }

    /// The URL by which a room reads a whole file: a replica, or what the disk server of a piece gathers.
    pub(crate) fn file_url(
        &self,
        (file, replica): (&crate::store::Node, &crate::store::Replica),
        path: &base::FilePath,
        now: Timestamp,
    ) -> Result<String> {
        self.object_url(&CapFor::to_read(file, replica, path), now)
    }

    /// The URL by which a disk server fills a piece of a file.
    pub(crate) fn piece_url(
        &self,
        cap: &CapFor<'_>,
        (generation, piece): (u64, object::Piece),
        now: Timestamp,
    ) -> Result<String> {
        Ok(format!(
            "{}&{DIRECT}=1",
            self.signed_url(cap, Bound { generation, content: None, piece: Some(piece) }, now)?
        ))
    }

    /// The same, for an object with a content of its own, and its generation.
    pub(crate) fn object_url_of(
        &self,
        cap: &CapFor<'_>,
        (generation, content): (u64, Option<Content>),
        now: Timestamp,
    ) -> Result<String> {
        Ok(format!("{}&{DIRECT}=1", self.signed_url(cap, Bound { generation, content, piece: None }, now)?))
    }

    /// The URL by which a job reads a file: if it has moved when the job gets there, the head is asked again on behalf of the
    /// job's owner.
    pub(crate) fn job_url(&self, cap: &CapFor<'_>, now: Timestamp) -> Result<String> {
        let (generation, content) = content_of(cap);
        self.signed_url(cap, Bound { generation, content, piece: None }, now)
    }

    fn signed_url(
        &self,
        cap: &CapFor<'_>,
        Bound { generation, content, piece }: Bound,
        now: Timestamp,
    ) -> Result<String> {
        let CapFor { access, replica, file, path, lifetime } = *cap;
        // A disk server compares the number with that of the object; whoever gathers asks the head by it.
        let number = if access == Access::Read { file.label() } else { file.id };
        let partition = self.store.partition(&replica.partition)?;
        let partition = partition.ok_or_else(|| unknown_partition(&replica.partition))?;
        let is_read = access.is_read();
        let server = (&*partition.server.name, self.joined(&partition.server.name)?);
        let right = Cap {
            access,
            partition: replica.partition.clone(),
            object: replica.object,
            file: number,
            generation: if is_read { UNFENCED } else { generation },
            holder: (!is_read).then(|| file.holder()),
            range: WHOLE,
            content,
            user: String::new(),
            expires: now + lifetime,
            piece,
            times: None,
        };
        let signed = self.config.keys.sign(server, &right);
        // The path is there for people who read logs: the capability names the object.
        let path = path.as_str().replace(['?', '#'], "_");
        Ok(format!("{}/{path}?{PARAMETER}={signed}", partition.server.root_url()))
    }
}

/// The purpose of a capability.
pub(crate) struct CapFor<'a> {
    pub(crate) access: Access,
    pub(crate) replica: &'a crate::store::Replica,
    pub(crate) file: &'a crate::store::Node,
    pub(crate) path: &'a base::FilePath,
    pub(crate) lifetime: Millis,
}

impl<'a> CapFor<'a> {
    /// To read a whole file: a replica, or what the disk server of a piece gathers.
    pub(crate) fn to_read(
        file: &'a crate::store::Node,
        replica: &'a crate::store::Replica,
        path: &'a base::FilePath,
    ) -> Self {
        let access = if replica.piece.is_some() { Access::Gather } else { Access::Read };
        Self { access, replica, file, path, lifetime: CAP_LIFETIME }
    }
}

/// The generation of what a file has, and the content of what is read, if it is known: of the file, or of a piece of it.
fn content_of(cap: &CapFor<'_>) -> (u64, Option<Content>) {
    let CapFor { access, replica, file, .. } = cap;
    let content = match &replica.piece {
        Some(piece) if *access == Access::Read => {
            piece.checksums.map(|checksums| Content { size: replica.size, checksums })
        }
        _ => file.checksums.map(|checksums| Content { size: file.size, checksums }),
    };
    (file.generation, content)
}
