//! Checksums of whole files: asked for where the file is, so that its bytes do not travel.

use crate::{
    fault::{Fault, Result},
    place::{FileLocation, names},
};
use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read},
    path::Path,
};
use wire::digest::{DigestAlgorithm, Digests, Hashing};

/// Bytes read at a time; fits the cache.
const PIECE_BYTES: usize = 256 << 10;

/// The checksum of a file, in hex. Without a kind it is adler32, the field's habit.
pub(crate) fn of(path: &CStr, kind: Option<&CStr>) -> Result<String> {
    let kind = kind.map_or("adler32".to_owned(), |kind| kind.to_string_lossy().to_lowercase());
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => {
            let failed = |cause| Fault::local(format!("checksum {}", path.display()), cause);
            let sum = of_local(&path, &kind).map_err(failed)?;
            sum.ok_or_else(|| unsupported(&kind, &path.display().to_string()))
        }
        FileLocation::Remote(url) => {
            let (found, value) = names(&url).checksum(&url.path, Some(&kind))?;
            // Servers of others answer with what they have, whatever was asked for.
            if found.eq_ignore_ascii_case(&kind) {
                Ok(value)
            } else {
                Err(unsupported(&kind, &url.to_string()))
            }
        }
    }
}

fn unsupported(kind: &str, name: &str) -> Fault {
    Fault::new(libc::ENOTSUP, format!("checksum of {name}: {kind:?} is not available"))
        .hint(&format!("{} are known", DigestAlgorithm::xrootd_names().join(", ")))
}

fn of_local(path: &Path, kind: &str) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    let Some(algorithm) = DigestAlgorithm::by_xrootd_name(kind) else { return Ok(None) };
    let mut hashing = Hashing::of(algorithm);
    each_piece(file, |piece| hashing.update(piece))?;
    Ok(hashing.finish(Digests::default()).hex(algorithm))
}

fn each_piece(mut file: File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&piece[..count]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, os::unix::ffi::OsStrExt};

    #[test]
    fn files_of_this_host_are_summed_here() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"123456789").unwrap();
        let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
        assert_eq!(of(&path, None).unwrap(), "091e01de");
        assert_eq!(of(&path, Some(c"CRC32C")).unwrap(), "e3069283");
        assert_eq!(of(&path, Some(c"md5")).unwrap(), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(of(&path, Some(c"zcrc32")).unwrap(), "cbf43926");
        assert_eq!(of(&path, Some(c"sha1")).unwrap_err().errno, libc::ENOTSUP);
        assert_eq!(of(c"/no/such/file", None).unwrap_err().errno, libc::ENOENT);
    }
}
