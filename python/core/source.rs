//! N-tuple files in a facility, read over XRootD.

use base::Result;
use client::xrd::{Options, PinnedFile};
use ntuple::{FileSource, Source, changed, column::VOLATILE};
use std::{path::Path, sync::Arc};

/// Opens a local path, or a `root://` URL as `user`.
pub(crate) fn open(place: &str, user: &str) -> Result<Arc<dyn Source>> {
    if ["root://", "roots://", "xroot://", "xroots://"].iter().any(|scheme| place.starts_with(scheme)) {
        return Ok(Arc::new(RemoteSource(PinnedFile::open(place.parse()?, options(user))?)));
    }
    Ok(Arc::new(FileSource::open(Path::new(place))?))
}

/// How this package talks to data servers.
pub(crate) fn options(user: &str) -> Options {
    Options { username: user.to_owned(), ..Options::default() }
}

/// A file in a facility.
struct RemoteSource(PinnedFile);

impl Source for RemoteSource {
    fn len(&self) -> u64 {
        self.0.size()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        if self.0.is_unchanged()? { Ok(()) } else { Err(changed(self.0.name())) }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if self.0.read_at(offset, buffer)? { Ok(()) } else { Err(changed(self.0.name())) }
    }

    fn identity(&self) -> String {
        let identity = self.0.identity();
        // Without a checksum, a file of the same size that was written in the same second looks the same.
        if identity.ends_with(':') { format!("{VOLATILE}{identity}") } else { identity.to_owned() }
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}
