//! Kernels by name.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::{Arc, PoisonError};

use cudarc::driver::{CudaFunction, CudaModule, DriverError, result, sys};
use cudarc::nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts};
use sylvie_kernels::{COMPILE_OPTIONS, Kernel, Kind, Module};

use crate::device::{Device, driver_version};
use crate::error::{During as _, text_of};
use crate::memory::Memory;
use crate::{DeviceError, Library};

/// An argument of a kernel.
///
/// # Example
/// ```
/// use sylvie_device::{Arg, Device};
/// use sylvie_kernels::RELU;
/// # sylvie_standins::install();
///
/// let device = Device::open(0)?;
/// let values = [1.0_f32, -2.0, 3.0, -4.0];
/// let mut x = device.upload(values.map(f32::to_le_bytes).as_flattened())?;
/// // SAFETY: the kernel changes in place as many values as it is told of, and there are four.
/// unsafe { device.launch(&RELU, (1, 4), &mut [Arg::Write(&mut x), Arg::U64(4)])? };
/// let mut bytes = [0; 16];
/// device.read(&x, &mut bytes)?;
/// assert_eq!(bytes[4..8], 0.0_f32.to_le_bytes());
/// assert_eq!(bytes[8..12], 3.0_f32.to_le_bytes());
/// # Ok::<(), sylvie_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub enum Arg<'a> {
    /// Memory that the kernel reads, from its beginning.
    Read(&'a Memory),
    /// Memory that the kernel writes, or reads and writes.
    Write(&'a mut Memory),
    /// No memory: a kernel's optional argument.
    Null,
    /// A number by value.
    U32(u32),
    /// A number by value.
    U64(u64),
    /// A number by value.
    F32(f32),
}

impl Arg<'_> {
    /// The bits that the driver is shown, of which it takes as many as the parameter has.
    fn bits(&self) -> u64 {
        match self {
            Self::Read(memory) => memory.address(),
            Self::Write(memory) => memory.address(),
            Self::Null => 0,
            Self::U32(value) => u64::from(*value),
            Self::U64(value) => *value,
            Self::F32(value) => u64::from(value.to_bits()),
        }
    }

    fn fits(&self, kind: Kind) -> bool {
        match self {
            Self::U32(_) => kind == Kind::U32,
            Self::U64(_) => kind == Kind::U64,
            Self::F32(_) => kind == Kind::F32,
            _ => !matches!(kind, Kind::U32 | Kind::U64 | Kind::F32),
        }
    }
}

impl Device {
    /// Submits a kernel on the calling thread's stream; nothing without work.
    ///
    /// `n_rows` and `width` say how much work there is, as the kernel's documentation says.
    ///
    /// # Errors
    /// [`DeviceError::KernelsRefused`] by an old driver, or what the driver says of this launch or of
    /// an earlier operation.
    /// # Panics
    /// If the arguments are not as many as the kernel's parameters, or not of their types, or memory is
    /// another device's.
    /// # Safety
    /// The kernel, given these arguments and this much work, reads nothing but memory that it is given,
    /// writes nothing but [`Arg::Write`], and stays inside of it.
    pub unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        (n_rows, width): (usize, usize),
        args: &mut [Arg<'_>],
    ) -> Result<(), DeviceError> {
        let (n_args, n_parameters) = (args.len(), kernel.parameters.len());
        assert!(n_args == n_parameters, "{}: {n_args} arguments for {n_parameters}", kernel.entry);
        for (arg, parameter) in args.iter().zip(kernel.parameters) {
            assert!(arg.fits(parameter.kind), "{}: {} for {parameter:?}", kernel.entry, arg.name());
        }
        let Some(shape) = kernel.launch(n_rows as u64, width as u64) else { return Ok(()) };
        let function = self.function(kernel)?;
        let mut after = Vec::new();
        for arg in args.iter() {
            match arg {
                Arg::Read(memory) => {
                    self.assert_own(memory);
                    memory.before_reading(&mut after);
                }
                Arg::Write(memory) => {
                    self.assert_own(memory);
                    memory.before_writing(&mut after);
                }
                _ => {}
            }
        }
        let mut values: Vec<u64> = args.iter().map(Arg::bits).collect();
        let mut places: Vec<*mut c_void> =
            values.iter_mut().map(|v| (&raw mut *v).cast()).collect();
        let (stream, all) = self.streams()?;
        let mut state = stream.lock();
        let point = stream.submit(&mut state, &all, &after, |raw| {
            let [grid, block] = [shape.grid, shape.block].map(|[x, y, z]| (x, y, z));
            // SAFETY: the function is one of a module that lives as long as the device; there is a place
            // for every parameter, of its type (asserted; little-endian, so that a short one lies first);
            // what the kernel touches is the caller's promise.
            let launched = unsafe {
                result::launch_kernel(
                    function.cu_function(),
                    grid,
                    block,
                    shape.shared_bytes,
                    raw,
                    &mut places,
                )
            };
            launched.during(kernel.entry)
        })?;
        drop(state);
        for arg in args.iter() {
            match arg {
                Arg::Read(memory) => memory.note_read(point),
                Arg::Write(memory) => memory.note_written(point),
                _ => {}
            }
        }
        Ok(())
    }

    /// Loads a kernel, so that the first launch does not have to.
    ///
    /// # Errors
    /// [`DeviceError::KernelsRefused`] by an old driver.
    pub fn load(&self, kernel: &'static Kernel) -> Result<(), DeviceError> {
        self.function(kernel).map(drop)
    }

    fn function(&self, kernel: &'static Kernel) -> Result<CudaFunction, DeviceError> {
        let functions = &self.inner().functions;
        let mut functions = functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(kernel.entry) {
            return Ok(function.clone());
        }
        let module = self.module(kernel.module)?;
        let function = module.load_function(kernel.entry);
        let function = match function {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_FOUND => {
                return Err(DeviceError::NoKernel { kernel: kernel.entry });
            }
            outcome => outcome.during("cuModuleGetFunction")?,
        };
        functions.insert(kernel.entry, function.clone());
        Ok(function)
    }

    fn module(&self, module: &'static Module) -> Result<Arc<CudaModule>, DeviceError> {
        let modules = &self.inner().modules;
        let mut modules = modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = modules.get(module.name) {
            return Ok(Arc::clone(loaded));
        }
        let loaded = match self.inner().context.load_module(Ptx::from_src(module.ptx)) {
            Ok(loaded) => loaded,
            Err(refusal) if is_old_driver(&refusal) => self.compile(module, &refusal)?,
            Err(error) => return Err(error).during("cuModuleLoadData"),
        };
        modules.insert(module.name, Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Compiles a file of kernels here: for a driver that is older than the PTX.
    fn compile(
        &self,
        module: &'static Module,
        refusal: &DriverError,
    ) -> Result<Arc<CudaModule>, DeviceError> {
        let refused = |fallback| DeviceError::KernelsRefused {
            module: module.name,
            driver: driver_version().unwrap_or_default(),
            refusal: text_of(refusal),
            fallback,
        };
        if let Err(missing) = Library::Nvrtc.require() {
            return Err(refused(missing.to_string()));
        }
        let (major, minor) = self.info()?.capability;
        let mut options = COMPILE_OPTIONS.map(String::from).to_vec();
        options.push(format!("--gpu-architecture=compute_{major}{minor}"));
        let options = CompileOptions {
            options,
            name: Some(format!("{}.cu", module.name)),
            ..Default::default()
        };
        let ptx = compile_ptx_with_opts(module.source, options)
            .map_err(|error| refused(log_of(&error)))?;
        self.inner().context.load_module(ptx).map_err(|error| refused(text_of(&error)))
    }
}

impl Arg<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "memory to read",
            Self::Write(_) => "memory to write",
            Self::Null => "no memory",
            Self::U32(_) => "a u32",
            Self::U64(_) => "a u64",
            Self::F32(_) => "an f32",
        }
    }
}

fn is_old_driver(error: &DriverError) -> bool {
    use sys::CUresult as Code;
    matches!(
        error.0,
        Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | Code::CUDA_ERROR_INVALID_PTX
            | Code::CUDA_ERROR_NO_BINARY_FOR_GPU
            | Code::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
    )
}

fn log_of(error: &CompileError) -> String {
    match error {
        CompileError::CompileError { log, .. } => log.to_string_lossy().trim().to_owned(),
        other => format!("{other:?}"),
    }
}
