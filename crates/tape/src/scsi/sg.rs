//! SCSI through the kernel: the generic driver (`/dev/sgN`) and its SG_IO call.
//!
//! The tape driver (`/dev/st`) is not used: it rewinds when it is closed, keeps a position of its own, and hides sense data.

use super::{
    command::Command,
    transport::{Data, Reply, Transport},
};
use crate::virtual_library::Lock;
use base::{ErrorKind, Failure, Result};
use std::{
    ffi::{c_int, c_uchar, c_uint, c_ushort, c_void},
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    ptr,
    time::Duration,
};

/// The kernel's number of the call.
const SG_IO: libc::Ioctl = 0x2285;
/// The version of the interface: the letter `S`.
const INTERFACE: c_int = 'S' as c_int;
const DIRECTION_NONE: c_int = -1;
const DIRECTION_OUT: c_int = -2;
const DIRECTION_IN: c_int = -3;
/// Bytes of sense data that are taken: the most that there can be.
const SENSE_BYTES: u8 = 252;
/// Codes of the host adapter: the device is gone; it did not answer in time.
const NO_CONNECTION: u16 = 1;
const TIMED_OUT: u16 = 3;
/// The adapter's driver gave up waiting; the upper bits are suggestions.
const DRIVER_TIMED_OUT: u16 = 0x06;
/// The drivers of the kernel for devices.
const CLASSES: &str = "/sys/class";

/// What the kernel wants to know of a command (`sg_io_hdr_t`).
#[repr(C)]
struct Header {
    interface: c_int,
    direction: c_int,
    command_length: c_uchar,
    sense_length_max: c_uchar,
    pieces: c_ushort,
    data_length: c_uint,
    data: *mut c_void,
    command: *const c_uchar,
    sense: *mut c_uchar,
    timeout_ms: c_uint,
    flags: c_uint,
    id: c_int,
    user: *mut c_void,
    status: c_uchar,
    masked_status: c_uchar,
    message_status: c_uchar,
    sense_length: c_uchar,
    host_status: c_ushort,
    driver_status: c_ushort,
    residual: c_int,
    duration_ms: c_uint,
    info: c_uint,
}

/// A device of this host.
#[derive(Debug)]
pub struct SgTransport {
    /// As configured.
    path: PathBuf,
    /// Opened with the next command if there is none.
    device: Option<Lock>,
}

impl SgTransport {
    /// The device at `path`: `/dev/sgN`, or a link to it or to the tape device beside it, such as those in `/dev/tape/by-id`.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let mut transport = Self { path: path.into(), device: None };
        transport.device()?;
        Ok(transport)
    }

    fn device(&mut self) -> Result<&Lock> {
        let device = match self.device.take() {
            Some(device) => device,
            None => open(&self.path)?,
        };
        Ok(self.device.insert(device))
    }

    fn outcome(&self, header: &Header, sense: &[u8], length: usize) -> Result<Reply> {
        let failed = |kind, what: String| Err(Failure::new(kind, format!("{}: {what}", self.address())));
        match (header.host_status, header.driver_status & 0x0f) {
            (NO_CONNECTION, _) => failed(ErrorKind::Unavailable, "the device is gone".to_owned()),
            (TIMED_OUT, _) | (_, DRIVER_TIMED_OUT) => {
                failed(ErrorKind::Timeout, "no answer in time".to_owned())
            }
            (0, _) => Ok(Reply {
                transferred: length.saturating_sub(usize::try_from(header.residual).unwrap_or(0)),
                status: header.status & 0x3e,
                sense: sense[..sense.len().min(header.sense_length.into())].to_vec(),
            }),
            (host, driver) => {
                failed(ErrorKind::Io, format!("the host adapter failed (host {host:#x}, driver {driver:#x})"))
            }
        }
    }
}

impl Transport for SgTransport {
    fn address(&self) -> String {
        self.path.display().to_string()
    }

    fn execute(&mut self, command: &Command, data: Data<'_>, deadline: Duration) -> Result<Reply> {
        let address = self.address();
        let device = self.device()?;
        let mut sense = [0; SENSE_BYTES as usize];
        let (direction, pointer, length) = match data {
            Data::None => (DIRECTION_NONE, ptr::null_mut(), 0),
            Data::In(buffer) => (DIRECTION_IN, buffer.as_mut_ptr().cast(), buffer.len()),
            // The kernel only reads it, whatever the type says.
            Data::Out(bytes) => (DIRECTION_OUT, bytes.as_ptr().cast_mut().cast(), bytes.len()),
        };
        let mut header = Header {
            interface: INTERFACE,
            direction,
            command_length: command.bytes().len() as u8,
            sense_length_max: SENSE_BYTES,
            pieces: 0,
            data_length: length as c_uint,
            data: pointer,
            command: command.bytes().as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: c_uint::try_from(deadline.as_millis()).unwrap_or(c_uint::MAX),
            flags: 0,
            id: 0,
            user: ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_length: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration_ms: 0,
            info: 0,
        };
        call(device.file(), &mut header).map_err(|cause| {
            self.device = None;
            Failure::io(format!("{address}: {}", command.name()), &cause)
        })?;
        self.outcome(&header, &sense, length)
    }
}

#[expect(unsafe_code, reason = "the kernel is told the addresses of command, data and sense data")]
fn call(device: &File, header: &mut Header) -> io::Result<()> {
    loop {
        // SAFETY: the header has the layout that the kernel wants, and its pointers lead to the caller's buffers of the lengths it
        // names; the caller keeps all of them until the call is over, after which the kernel has forgotten them.
        let outcome = unsafe { libc::ioctl(device.as_raw_fd(), SG_IO, ptr::from_mut(header)) };
        if outcome >= 0 {
            return Ok(());
        }
        let cause = io::Error::last_os_error();
        // Nothing was sent yet: a signal that comes later does not interrupt the call.
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
    }
}

/// Opens a device for this process alone, as far as processes of ours are concerned.
fn open(path: &Path) -> Result<Lock> {
    let generic = generic(path, Path::new(CLASSES))?;
    let failed = |cause: &io::Error| {
        Failure::io(format!("open {}", generic.display()), cause)
            .hint("`lsscsi -g` lists the devices; bpd needs the right to read and write it (group tape)")
    };
    let file = File::options().read(true).write(true).open(&generic).map_err(|cause| failed(&cause))?;
    let lock = Lock::take(file, || {
        Failure::busy(format!("{} is in use by another tape server", generic.display()))
            .hint("name each device in one library of one host only")
    })?;
    Ok(lock)
}

/// The generic device for a path: links are followed, and beside a tape device stands its generic one.
fn generic(path: &Path, classes: &Path) -> Result<PathBuf> {
    let found = fs::canonicalize(path).map_err(|cause| {
        Failure::io(format!("find {}", path.display()), &cause)
            .hint("`lsscsi -g` lists the devices of this host")
    })?;
    let name = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let class = match &*name {
        tape if tape.starts_with("st") || tape.starts_with("nst") => "scsi_tape",
        changer if changer.starts_with("sch") => "scsi_changer",
        _ => return Ok(found),
    };
    let folder = classes.join(class).join(&name).join("device/scsi_generic");
    let beside = fs::read_dir(&folder).ok().and_then(|mut entries| entries.next()?.ok());
    let beside = beside.ok_or_else(|| {
        let what = format!("{} has no generic SCSI device beside it", path.display());
        Failure::not_found(what).hint("load the kernel's module sg: `modprobe sg`")
    })?;
    Ok(found.with_file_name(beside.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_the_kernel_has_it() {
        assert_eq!(size_of::<Header>(), if size_of::<usize>() == 8 { 88 } else { 64 });
    }

    #[test]
    fn a_tape_device_leads_to_the_generic_one_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        for file in ["dev/nst0", "dev/sg4", "dev/nst1"] {
            fs::create_dir_all(at("dev")).unwrap();
            fs::write(at(file), "").unwrap();
        }
        fs::create_dir_all(at("class/scsi_tape/nst0/device/scsi_generic/sg4")).unwrap();
        std::os::unix::fs::symlink("nst0", at("dev/by-id")).unwrap();
        let dev = fs::canonicalize(at("dev")).unwrap();
        let found = |path: &str| generic(&at(path), &at("class"));
        assert_eq!(found("dev/by-id").unwrap(), dev.join("sg4"));
        assert_eq!(found("dev/sg4").unwrap(), dev.join("sg4"));
        assert_eq!(found("dev/nst1").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(found("dev/sg9").unwrap_err().kind, ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_device_fails_with_its_name() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("plain");
        fs::write(&path, "").unwrap();
        let mut transport = SgTransport::open(&path).unwrap();
        assert_eq!(SgTransport::open(&path).unwrap_err().kind, ErrorKind::Busy);
        let asked = transport.execute(&Command::test_unit_ready(), Data::None, Duration::from_secs(1));
        let failure = asked.unwrap_err();
        assert!(failure.what.contains("plain: TEST UNIT READY"), "{failure}");
    }
}
