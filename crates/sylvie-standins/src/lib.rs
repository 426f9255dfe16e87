//! Stand-ins for NVIDIA's libraries: libcuda on the emulated device, libcublas, libnccl and libnvrtc.
//!
//! [`install`] loads them under the names by which the host code will ask for the real ones, which then
//! finds these; nothing of it is changed for tests. They do what is asked at once, and report what a real
//! device would answer with wrong numbers, now and then: memory that two streams use with nothing between
//! to order them, host memory touched while a copy is under way, a message that only one side knows of,
//! memory used after it was freed. A call that is at fault fails, and [`reports`] says why.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use libloading::{Library, Symbol};

struct Standins {
    cuda: Library,
    _others: Vec<Library>,
}

/// Where the stand-ins lie, under the names of NVIDIA's libraries: a program that is started with this folder
/// in LD_LIBRARY_PATH finds them, as [`install`] has this process find them.
///
/// Such a program is told by SYLVIE_STANDIN_REFUSES_PTX=1 that its driver is an old one ([`Fault::old_driver`]), and by
/// SYLVIE_STANDIN_NCCL=processes that the ranks of NCCL are processes of this host.
#[must_use]
pub fn folder() -> &'static Path {
    Path::new(env!("SYLVIE_STANDINS"))
}

fn standins() -> &'static Standins {
    static STANDINS: OnceLock<Standins> = OnceLock::new();
    STANDINS.get_or_init(|| {
        let open = |name: &str| {
            let path = folder().join(name);
            // SAFETY: our own library, whose initialisers do nothing, and which stays loaded.
            let library = unsafe { Library::new(&path) };
            library.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let cuda = open("libcuda.so");
        let others = ["libcublas.so", "libnccl.so", "libnvrtc.so"].map(open).into();
        Standins { cuda, _others: others }
    })
}

/// # Safety
/// The library has such a function of that type.
unsafe fn symbol<'a, T>(library: &'a Library, name: &str) -> Symbol<'a, T> {
    let c_name = CString::new(name).expect("a name without a NUL");
    // SAFETY: the caller's promise.
    let found = unsafe { library.get(c_name.as_bytes_with_nul()) };
    found.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Loads the stand-ins, before anything asks for a device. Later calls do nothing.
///
/// # Panics
/// If the loader refuses one of them.
pub fn install() {
    standins();
}

fn call(name: &str, value: c_int) {
    // SAFETY: functions of standin.h that take an int.
    unsafe {
        let set: Symbol<'_, unsafe extern "C" fn(c_int)> = symbol(&standins().cuda, name);
        set(value);
    }
}

/// Takes what has been reported since the last call, oldest first: of all threads of the process.
#[must_use]
pub fn reports() -> Vec<String> {
    let mut found = Vec::new();
    let mut text = vec![0_u8; 2048];
    // SAFETY: the function of that name in standin.h, given as much room as it is told.
    unsafe {
        let take: Symbol<'_, unsafe extern "C" fn(*mut u8, usize) -> c_int> =
            symbol(&standins().cuda, "standin_take_report");
        while take(text.as_mut_ptr(), text.len()) != 0 {
            let n = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
            found.push(String::from_utf8_lossy(&text[..n]).into_owned());
        }
    }
    found
}

/// A fault that is built in on purpose, for as long as this lives: tests of the tests, one at a time.
#[derive(Debug)]
pub struct Fault {
    undo: Undo,
    _alone: MutexGuard<'static, ()>,
}

#[derive(Debug)]
enum Undo {
    Set(&'static str, c_int),
    Patience,
}

/// Milliseconds that a call waits for a peer, unless a test is less patient.
const PATIENCE_MS: i64 = 20_000;

impl Fault {
    fn set(name: &'static str, value: c_int, before: c_int) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        call(name, value);
        Self { undo: Undo::Set(name, before), _alone: alone }
    }

    /// Streams wait for no events.
    #[must_use]
    pub fn streams_do_not_wait() -> Self {
        Self::set("standin_forget_waits", 1, 0)
    }

    /// NCCL loses messages of so many bytes, as if their sends were missing in the host code.
    #[must_use]
    pub fn lost_sends(n_bytes: u16) -> Self {
        Self::set("standin_lose_sends", c_int::from(n_bytes), 0)
    }

    /// The driver is too old for PTX that was not compiled here.
    #[must_use]
    pub fn old_driver() -> Self {
        Self::set("standin_refuse_ptx", 1, 0)
    }

    /// The driver takes no PTX at all.
    #[must_use]
    pub fn driver_without_kernels() -> Self {
        Self::set("standin_refuse_ptx", 2, 0)
    }

    /// There are only so many devices.
    #[must_use]
    pub fn devices(n_devices: u16) -> Self {
        Self::set("standin_set_devices", c_int::from(n_devices), 4)
    }

    /// Nobody waits for long.
    #[must_use]
    pub fn impatience(patience: Duration) -> Self {
        let mut fault = Self::set("standin_forget_waits", 0, 0);
        fault.undo = Undo::Patience;
        set_patience(patience.as_millis() as i64);
        fault
    }
}

fn set_patience(ms: i64) {
    // SAFETY: the function of that name in standin.h.
    unsafe {
        let set: Symbol<'_, unsafe extern "C" fn(i64)> =
            symbol(&standins().cuda, "standin_set_patience_ms");
        set(ms);
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        match self.undo {
            Undo::Set(name, before) => call(name, before),
            Undo::Patience => set_patience(PATIENCE_MS),
        }
    }
}
