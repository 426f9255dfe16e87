//! NCCL's own communicator, behind calls that are hard to misuse.
//!
//! cudarc has a safe wrapper, whose `Drop` panics and whose handle nobody else gets; this one is made of
//! the calls beneath it.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::MaybeUninit;

use cudarc::nccl::result::{self, NcclError, NcclStatus};
use cudarc::nccl::sys;
use sylvie_device::{Device, DeviceError, Library, Memory, OwnStream, Submitted};

/// Bytes of the name by which ranks find each other.
const ID_BYTES: usize = 128;

/// The name of a group of ranks.
pub(super) type Id = [u8; ID_BYTES];

/// One message of a group of them.
pub(super) struct Part<M> {
    pub(super) peer: usize,
    pub(super) memory: M,
}

/// A rank's connection to the others, on a stream of its own.
pub(super) struct Connection {
    comm: sys::ncclComm_t,
    stream: OwnStream,
    /// Groups that were submitted and may not be over.
    last: Option<Submitted>,
    is_aborted: bool,
}

fn check(call: &'static str, outcome: Result<NcclStatus, NcclError>) -> Result<(), DeviceError> {
    match outcome {
        Ok(_) => Ok(()),
        Err(NcclError(code)) => {
            // SAFETY: NCCL gives a string that lives for ever for every code.
            let text = unsafe { CStr::from_ptr(sys::ncclGetErrorString(code)) };
            Err(DeviceError::Call { call, reason: text.to_string_lossy().into_owned() })
        }
    }
}

/// A new name, to be told to all ranks.
pub(super) fn new_id() -> Result<Id, DeviceError> {
    Library::Nccl.require()?;
    let id = result::get_uniqueid().map_err(Err);
    let id = id.or_else(|error| {
        check("ncclGetUniqueId", error).map(|()| sys::ncclUniqueId { internal: [0; ID_BYTES] })
    })?;
    Ok(id.internal.map(|byte| byte as u8))
}

impl Connection {
    /// Joins the group; returns once all ranks have.
    pub(super) fn new(
        device: &Device,
        id: &Id,
        (rank, size): (usize, usize),
    ) -> Result<Self, DeviceError> {
        Library::Nccl.require()?;
        let stream = device.own_stream()?;
        stream.bind()?;
        let id = sys::ncclUniqueId { internal: id.map(|byte| byte as _) };
        let mut comm = MaybeUninit::uninit();
        // SAFETY: the place is this function's own, and is read only after success.
        let comm = unsafe {
            let joined = result::comm_init_rank(comm.as_mut_ptr(), size as i32, id, rank as i32);
            check("ncclCommInitRank", joined)?;
            comm.assume_init()
        };
        Ok(Self { comm, stream, last: None, is_aborted: false })
    }

    /// Submits messages as one group, so that no order among ranks can block them.
    pub(super) fn exchange(
        &mut self,
        sends: &[Part<&Memory>],
        receives: &mut [Part<&mut Memory>],
    ) -> Result<Submitted, DeviceError> {
        let reads: Vec<&Memory> = sends.iter().map(|part| part.memory).collect();
        let n_bytes: Vec<usize> = receives.iter().map(|part| part.memory.n_bytes()).collect();
        let senders: Vec<usize> = receives.iter().map(|part| part.peer).collect();
        let mut writes: Vec<&mut Memory> =
            receives.iter_mut().map(|part| &mut *part.memory).collect();
        let comm = self.comm;
        let group = |stream: sylvie_device::CUstream, sources: &[u64], targets: &[u64]| {
            let bytes = sys::ncclDataType_t::ncclUint8;
            check("ncclGroupStart", result::group_start())?;
            let mut posted = Ok(());
            for (part, &source) in sends.iter().zip(sources) {
                let (n, peer) = (part.memory.n_bytes(), part.peer as i32);
                // SAFETY: `n` bytes lie at `source`, and stay until the stream has passed.
                let sent = unsafe {
                    result::send(source as *const _, n, bytes, peer, comm, stream.cast())
                };
                posted = posted.and(check("ncclSend", sent));
            }
            for ((&peer, &n), &target) in senders.iter().zip(&n_bytes).zip(targets) {
                // SAFETY: as above.
                let received = unsafe {
                    result::recv(target as *mut _, n, bytes, peer as i32, comm, stream.cast())
                };
                posted = posted.and(check("ncclRecv", received));
            }
            // Ended in any case: a group left open would swallow all later calls of this thread.
            posted.and(check("ncclGroupEnd", result::group_end()))
        };
        // SAFETY: the group reads and writes the memory that it is given, whole, on this stream.
        let submitted = unsafe { self.stream.submit(&reads, &mut writes, group) }?;
        self.last = Some(submitted);
        Ok(submitted)
    }

    /// Whether a group is over: everything has arrived, and been taken by its receivers.
    pub(super) fn is_over(&self, submitted: Submitted) -> Result<bool, DeviceError> {
        let mut error = sys::ncclResult_t::ncclSuccess;
        if !self.is_aborted {
            // SAFETY: the communicator is alive until it is left or aborted; it has not been.
            let asked = unsafe { sys::ncclCommGetAsyncError(self.comm, &raw mut error) };
            check("ncclCommGetAsyncError", asked.result())?;
            check("an exchange of NCCL", error.result())?;
        }
        self.stream.is_done(submitted)
    }

    /// Ends what is under way, here and for all peers that wait for it.
    pub(super) fn abort(&mut self) {
        if !self.is_aborted && self.stream.bind().is_ok() {
            self.is_aborted = true;
            // SAFETY: aborted once, and not used afterwards. What NCCL says of it helps nobody.
            let _ = unsafe { result::comm_abort(self.comm) };
        }
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Whether messages may still be on their way.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_aborted && self.last.is_some_and(|last| !matches!(self.is_over(last), Ok(true)))
    }

    /// Leaves the group. With messages on their way it is left to the end of the process instead: a peer
    /// may still take them, and neither it nor this rank should wait for the other.
    pub(super) fn leave(self) {
        if self.is_busy() {
            std::mem::forget(self);
            return;
        }
        if !self.is_aborted && self.stream.bind().is_ok() {
            // SAFETY: nothing is under way, and nobody uses it afterwards. What NCCL says of it helps nobody.
            let _ = unsafe { result::comm_destroy(self.comm) };
        }
    }
}
