//! NVIDIA's library for run-time compilation, loaded from where it was found.
// Calls foreign functions.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use anyhow::{Context as _, Result, bail, ensure};
use libloading::Library;

use super::source::Source;

type Program = *mut c_void;
type Status = c_int;
type VersionOf = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Status;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status;
type SizeOf = unsafe extern "C" fn(Program, *mut usize) -> Status;
type TextOf = unsafe extern "C" fn(Program, *mut c_char) -> Status;
type Destroy = unsafe extern "C" fn(*mut Program) -> Status;

/// The library and its version.
pub(crate) struct Nvrtc {
    library: Library,
    version: (c_int, c_int),
}

impl Nvrtc {
    /// # Errors
    /// The file is no such library, or cannot be loaded.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // SAFETY: NVRTC's initialisers have no requirements.
        let library = unsafe { Library::new(path)? };
        let mut version = (0, 0);
        // SAFETY: the function's documented signature; both places are written to.
        let status = unsafe {
            library.get::<VersionOf>(b"nvrtcVersion")?(&raw mut version.0, &raw mut version.1)
        };
        ensure!(status == 0, "nvrtcVersion gave {status}");
        Ok(Self { library, version })
    }

    pub(crate) fn version(&self) -> (c_int, c_int) {
        self.version
    }

    /// PTX of a source.
    ///
    /// # Errors
    /// The compiler's messages.
    pub(crate) fn compile(&self, source: &Source, options: &[&str]) -> Result<String> {
        let text = CString::new(source.text.as_str()).context("a NUL in the source")?;
        let name = CString::new(format!("{}.cu", source.name))?;
        let options = options.iter().map(|&o| CString::new(o)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = ptr::null_mut();
        // SAFETY: documented signatures; strings end with NUL and outlive the calls; the program is the one created, and
        // destroyed once.
        unsafe {
            let create = self.library.get::<Create>(b"nvrtcCreateProgram")?;
            let status =
                create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null());
            ensure!(status == 0, "nvrtcCreateProgram gave {status}");
            let compile = self.library.get::<Compile>(b"nvrtcCompileProgram")?;
            let status = compile(program, options.len() as c_int, options.as_ptr());
            let (size, text): (&[u8], &[u8]) = if status == 0 {
                (b"nvrtcGetPTXSize", b"nvrtcGetPTX")
            } else {
                (b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog")
            };
            let text = self.text(program, size, text);
            self.library.get::<Destroy>(b"nvrtcDestroyProgram")?(&raw mut program);
            if status == 0 { text } else { bail!("{}", text?) }
        }
    }

    /// A text of the program, by the names of the functions that give its size and itself.
    ///
    /// # Safety
    /// The program lives, and these are such functions.
    unsafe fn text(&self, program: Program, size: &[u8], text: &[u8]) -> Result<String> {
        let mut n_bytes = 0;
        // SAFETY: the caller's word; the text has as many bytes as its size says, NUL included.
        let bytes = unsafe {
            let status = self.library.get::<SizeOf>(size)?(program, &raw mut n_bytes);
            ensure!(status == 0, "the size of a text: {status}");
            let mut bytes = vec![0_u8; n_bytes.max(1)];
            let status = self.library.get::<TextOf>(text)?(program, bytes.as_mut_ptr().cast());
            ensure!(status == 0, "a text: {status}");
            bytes
        };
        Ok(CStr::from_bytes_until_nul(&bytes)?.to_string_lossy().into_owned())
    }
}
