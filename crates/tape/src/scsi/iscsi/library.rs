//! The functions of `libiscsi` that are used, and a session made of them.
#![expect(unsafe_code, reason = "a C library is loaded and called; it is told the addresses of buffers")]

use super::IscsiAddress;
use crate::scsi::transport::{Data, Reply};
use base::{ErrorKind, Failure, Result};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_uchar, c_void},
    ptr,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The library with the layout of [`Task`] that is below.
const LIBRARY: &CStr = c"libiscsi.so.7";
const NORMAL_SESSION: c_int = 2;
const NO_DIGEST: c_int = 0;
/// Statuses from here on are the library's own, not the device's.
const OWN_STATUS: c_int = 0x0f00_0000;
const TIMED_OUT: c_int = 0x0f00_0002;
const GOOD: c_int = 0;
const UNDERFLOW: c_int = 1;
/// How often a wait looks at the clock.
const TICK_MS: c_int = 1000;
/// How much later than the device's deadline the wait ends: the library should have told by then.
const GRACE: Duration = Duration::from_secs(10);

#[repr(C)]
struct Context {
    _private: [u8; 0],
}

/// The beginning of `struct scsi_task`.
#[repr(C)]
struct Task {
    status: c_int,
    cdb_size: c_int,
    direction: c_int,
    expected: c_int,
    cdb: [c_uchar; 16],
    residual_status: c_int,
    residual: usize,
    sense: TaskSense,
    data_in: TaskData,
}

/// `struct scsi_sense`, decoded by the library; ours is decoded from the bytes.
#[repr(C)]
struct TaskSense {
    error_type: c_uchar,
    key: c_int,
    ascq: c_int,
    bits: u32,
}

#[repr(C)]
struct TaskData {
    size: c_int,
    data: *const c_uchar,
}

type Callback = unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut c_void);

/// The functions, by the library's names.
pub(super) struct Functions {
    create_context: unsafe extern "C" fn(*const c_char) -> *mut Context,
    destroy_context: unsafe extern "C" fn(*mut Context) -> c_int,
    set_targetname: unsafe extern "C" fn(*mut Context, *const c_char) -> c_int,
    set_session_type: unsafe extern "C" fn(*mut Context, c_int) -> c_int,
    set_header_digest: unsafe extern "C" fn(*mut Context, c_int) -> c_int,
    set_user: unsafe extern "C" fn(*mut Context, *const c_char, *const c_char) -> c_int,
    set_timeout: unsafe extern "C" fn(*mut Context, c_int) -> c_int,
    set_no_reconnect: unsafe extern "C" fn(*mut Context, c_int),
    get_error: unsafe extern "C" fn(*mut Context) -> *const c_char,
    get_fd: unsafe extern "C" fn(*mut Context) -> c_int,
    which_events: unsafe extern "C" fn(*mut Context) -> c_int,
    service: unsafe extern "C" fn(*mut Context, c_int) -> c_int,
    connect: unsafe extern "C" fn(*mut Context, *const c_char, c_int, Callback, *mut c_void) -> c_int,
    command:
        unsafe extern "C" fn(*mut Context, c_int, *mut Task, Callback, *mut c_void, *mut c_void) -> c_int,
    create_task: unsafe extern "C" fn(c_int, *mut c_uchar, c_int, c_int) -> *mut Task,
    free_task: unsafe extern "C" fn(*mut Task),
    add_data_in: unsafe extern "C" fn(*mut Task, c_int, *mut c_uchar) -> c_int,
    add_data_out: unsafe extern "C" fn(*mut Task, c_int, *mut c_uchar) -> c_int,
}

/// Loads the library the first time.
pub(super) fn functions() -> Result<&'static Functions> {
    static LOADED: OnceLock<Result<Functions>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

#[expect(clippy::missing_transmute_annotations, reason = "the fields of `Functions` are the annotations")]
fn load() -> Result<Functions> {
    // SAFETY: the name ends with a zero byte; what the library does when it is loaded is its own.
    let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        let what = format!("the library {} is not installed", LIBRARY.to_string_lossy());
        return Err(Failure::unavailable(what).hint("Debian: `apt-get install libiscsi7`"));
    }
    let find = |name: &CStr| {
        // SAFETY: the handle is that of the loaded library, which is never unloaded.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if address.is_null() {
            let what = format!("{} has no function {}", LIBRARY.to_string_lossy(), name.to_string_lossy());
            return Err(Failure::new(ErrorKind::Unsupported, what));
        }
        Ok(address)
    };
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: the types are those of the library's header, version 1.19, which its name in `LIBRARY` stands for.
            unsafe { std::mem::transmute::<*mut c_void, _>(find($name)?) }
        };
    }
    Ok(Functions {
        create_context: function!(c"iscsi_create_context"),
        destroy_context: function!(c"iscsi_destroy_context"),
        set_targetname: function!(c"iscsi_set_targetname"),
        set_session_type: function!(c"iscsi_set_session_type"),
        set_header_digest: function!(c"iscsi_set_header_digest"),
        set_user: function!(c"iscsi_set_initiator_username_pwd"),
        set_timeout: function!(c"iscsi_set_timeout"),
        set_no_reconnect: function!(c"iscsi_set_noautoreconnect"),
        get_error: function!(c"iscsi_get_error"),
        get_fd: function!(c"iscsi_get_fd"),
        which_events: function!(c"iscsi_which_events"),
        service: function!(c"iscsi_service"),
        connect: function!(c"iscsi_full_connect_async"),
        command: function!(c"iscsi_scsi_command_async"),
        create_task: function!(c"scsi_create_task"),
        free_task: function!(c"scsi_free_scsi_task"),
        add_data_in: function!(c"scsi_task_add_data_in_buffer"),
        add_data_out: function!(c"scsi_task_add_data_out_buffer"),
    })
}

/// The status that the library calls back with, once it has.
unsafe extern "C" fn done(_: *mut Context, status: c_int, _: *mut c_void, told: *mut c_void) {
    // SAFETY: `told` is the `Box<Option<c_int>>` of the wait that gave it, which lives until it was called back or the context is
    // destroyed, after which nobody calls.
    unsafe { *told.cast::<Option<c_int>>() = Some(status) };
}

/// A session with one device.
pub(super) struct Session {
    functions: &'static Functions,
    /// Null once it was destroyed.
    context: *mut Context,
}

// SAFETY: the library keeps no thread-local state for a context, and a session is used by one thread at a time: all calls
// take it exclusively.
unsafe impl Send for Session {}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Logs in to the target and looks for the device.
    pub(super) fn login(address: &IscsiAddress, deadline: Duration) -> Result<Self> {
        let functions = functions()?;
        let text = |text: &str| {
            CString::new(text).map_err(|_| Failure::invalid(format!("{text:?} has a zero byte")))
        };
        let (initiator, target) = (text(&address.initiator)?, text(&address.target)?);
        // SAFETY: the name ends with a zero byte; the library copies it.
        let context = unsafe { (functions.create_context)(initiator.as_ptr()) };
        if context.is_null() {
            return Err(Failure::new(ErrorKind::Io, "libiscsi makes no context"));
        }
        let mut session = Self { functions, context };
        let login = address
            .login
            .as_ref()
            .map(|login| Ok::<_, Failure>((text(&login.user)?, text(&login.password)?)));
        let login = login.transpose()?;
        // SAFETY: the context was just made; the library copies the texts.
        unsafe {
            (functions.set_targetname)(context, target.as_ptr());
            (functions.set_session_type)(context, NORMAL_SESSION);
            (functions.set_header_digest)(context, NO_DIGEST);
            // A drive that was reset must not be used as if nothing had happened.
            (functions.set_no_reconnect)(context, 1);
            if let Some((user, password)) = &login {
                (functions.set_user)(context, user.as_ptr(), password.as_ptr());
            }
        }
        let portal = text(&address.portal)?;
        let lun = c_int::from(address.lun);
        let status = session.wait(deadline, |context, told| {
            // SAFETY: the context is alive, the portal ends with a zero byte, and `told` outlives the call back.
            unsafe { (functions.connect)(context, portal.as_ptr(), lun, done, told) }
        })?;
        if status == GOOD { Ok(session) } else { Err(session.failure(status)) }
    }

    /// Has the device carry out a command.
    pub(super) fn execute(
        &mut self,
        lun: u16,
        cdb: &[u8],
        data: Data<'_>,
        deadline: Duration,
    ) -> Result<Reply> {
        let functions = self.functions;
        let (direction, length) = match &data {
            Data::None => (0, 0),
            Data::In(buffer) => (1, buffer.len()),
            Data::Out(bytes) => (2, bytes.len()),
        };
        let mut cdb = cdb.to_vec();
        let size = cdb.len() as c_int;
        // SAFETY: the library copies the command, which has at most 16 bytes.
        let task = unsafe { (functions.create_task)(size, cdb.as_mut_ptr(), direction, length as c_int) };
        if task.is_null() {
            return Err(Failure::new(ErrorKind::Io, "libiscsi makes no task"));
        }
        // SAFETY: the task was just made. The buffers are the caller's, who keeps them until this returns; by then the command is over,
        // or the context is destroyed and the library does not touch them any more. It only reads what is sent.
        unsafe {
            match data {
                Data::None => {}
                Data::In(buffer) => {
                    drop_code((functions.add_data_in)(task, length as c_int, buffer.as_mut_ptr()));
                }
                Data::Out(bytes) => {
                    drop_code((functions.add_data_out)(task, length as c_int, bytes.as_ptr().cast_mut()));
                }
            }
            (functions.set_timeout)(self.context, c_int::try_from(deadline.as_secs()).unwrap_or(c_int::MAX));
        }
        let status = self.wait(deadline + GRACE, |context, told| {
            // SAFETY: context and task are alive, and `told` outlives the call back.
            unsafe { (functions.command)(context, lun.into(), task, done, ptr::null_mut(), told) }
        });
        let reply = status.and_then(|status| {
            if !(0..OWN_STATUS).contains(&status) {
                return Err(self.failure(status));
            }
            // SAFETY: the command is over, so nobody else touches the task, which is freed below.
            Ok(reply(unsafe { &*task }, status, length))
        });
        // SAFETY: the library is done with it: the command is over, was never taken, or its context is destroyed.
        unsafe { (functions.free_task)(task) };
        reply
    }

    /// Begins something and serves the session until it is over. After an error the session is destroyed.
    fn wait(
        &mut self,
        deadline: Duration,
        begin: impl FnOnce(*mut Context, *mut c_void) -> c_int,
    ) -> Result<c_int> {
        if self.context.is_null() {
            return Err(Failure::unavailable("the session has ended"));
        }
        let told: *mut Option<c_int> = Box::into_raw(Box::new(None));
        let served = if begin(self.context, told.cast()) == 0 {
            self.serve(deadline, told)
        } else {
            Err(self.failure(-1))
        };
        if served.is_err() {
            // Calls back for all that is under way, while `told` is still there.
            self.destroy();
        }
        // SAFETY: it came from a box, and nobody calls back any more.
        drop(unsafe { Box::from_raw(told) });
        served
    }

    fn serve(&mut self, deadline: Duration, told: *mut Option<c_int>) -> Result<c_int> {
        let begun = Instant::now();
        loop {
            // SAFETY: only this thread serves the session, so nobody calls back meanwhile.
            if let Some(status) = unsafe { *told } {
                return Ok(status);
            }
            if begun.elapsed() > deadline {
                return Err(Failure::timeout("no answer in time"));
            }
            // SAFETY: the context is alive, and its descriptor open as long as it is.
            let (fd, events) = unsafe {
                ((self.functions.get_fd)(self.context), (self.functions.which_events)(self.context))
            };
            let mut poll = libc::pollfd { fd, events: events as libc::c_short, revents: 0 };
            // SAFETY: one entry, which lives until the call returns.
            let ready = unsafe { libc::poll(&raw mut poll, 1, TICK_MS) };
            if ready < 0 {
                let cause = std::io::Error::last_os_error();
                if cause.kind() != std::io::ErrorKind::Interrupted {
                    return Err(Failure::io("wait for the target", &cause));
                }
                poll.revents = 0;
            }
            // SAFETY: as above.
            if unsafe { (self.functions.service)(self.context, poll.revents.into()) } < 0 {
                return Err(self.failure(-1));
            }
        }
    }

    /// What the library says of a failure.
    fn failure(&self, status: c_int) -> Failure {
        let kind = if status == TIMED_OUT { ErrorKind::Timeout } else { ErrorKind::Unavailable };
        if self.context.is_null() {
            return Failure::new(kind, "the session has ended");
        }
        // SAFETY: the context is alive; the text belongs to it and is copied at once.
        let text = unsafe {
            let text = (self.functions.get_error)(self.context);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        let text = text.trim();
        // What it says of an earlier command is kept; that is not why the connection failed.
        let is_other = text.is_empty() || text.starts_with("SENSE KEY");
        let text = if is_other { "the connection failed" } else { text };
        Failure::new(kind, text)
    }

    fn destroy(&mut self) {
        if !self.context.is_null() {
            // SAFETY: it is alive, and never used again.
            drop_code(unsafe { (self.functions.destroy_context)(self.context) });
            self.context = ptr::null_mut();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// A return code that says nothing which is not told otherwise.
fn drop_code(_: c_int) {}

/// What a task that is over says.
fn reply(task: &Task, status: c_int, length: usize) -> Reply {
    let missing = if task.residual_status == UNDERFLOW { task.residual } else { 0 };
    let TaskData { size, data } = &task.data_in;
    let mut sense = Vec::new();
    if status != GOOD && !data.is_null() && *size > 2 {
        // SAFETY: the library says how many bytes there are.
        let bytes = unsafe { std::slice::from_raw_parts(*data, *size as usize) };
        // In front of sense data stands their length.
        sense = bytes[2..].to_vec();
    }
    Reply { transferred: length.saturating_sub(missing), status: status as u8, sense }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_that_nobody_serves_says_so() {
        if functions().is_err() {
            return;
        }
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = IscsiAddress {
            portal: format!("127.0.0.1:{port}"),
            target: "iqn.2026-11.example:none".to_owned(),
            lun: 1,
            initiator: "iqn.2026-11.example:test".to_owned(),
            login: None,
        };
        let failure = Session::login(&address, Duration::from_secs(20)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Unavailable, "{failure}");
    }
}
