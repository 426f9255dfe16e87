//! In steady state the exchange allocates no buffers: they go round.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sylvie_comm::{Communicator, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::ModelKind;
use sylvie_pipeline::{
    EpochRecord, ExchangePolicy, HaloRows, Instruments, Preset, TrainError, train,
};
use sylvie_tensor::CpuBackend;

use crate::fixture::{NoClock, Setting, Shape, dataset, inputs, random_parts, settings};

/// Anything as large as this is a buffer: a one-bit message of the test is larger, lists of messages,
/// a channel's links and a product's scratch are smaller.
const MESSAGE_BYTES: usize = 8 << 10;
/// Anything as large as this is a matrix of a row for each own node; a product's scratch is smaller.
const MATRIX_BYTES: usize = 256 << 10;
const N_COUNTERS: usize = 64;

static COUNTERS: [AtomicU64; N_COUNTERS] = [const { AtomicU64::new(0) }; N_COUNTERS];

thread_local! {
    /// The counter of this thread's large allocations, if they are counted, and what is large.
    static COUNTER: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

pub(crate) struct Counting;

impl Counting {
    fn note(size: usize) {
        if let Ok(Some((counter, large))) = COUNTER.try_with(Cell::get)
            && size >= large
        {
            COUNTERS[counter].fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::note(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::note(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::note(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Large allocations of the communication threads and of the compute threads, an epoch an entry.
fn count(policy: ExchangePolicy, kind: ModelKind, n_epochs: u32) -> Vec<(u64, u64)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let data = dataset(Shape { n_nodes: 2000, ..Shape::default() });
    let inputs = inputs(&data, &random_parts(&data, 3), Setting::Transductive);
    let mut settings = settings(kind, n_epochs);
    settings.exchange = policy;
    settings.model.widths = vec![crate::fixture::N_FEATURES, 128, 128, 4];
    settings.eval_every = 1000;
    let ranks = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let rank = comm.rank();
        let (own, other) = (2 * rank, 2 * rank + 1);
        // This thread communicates; whoever calls the observer computes.
        COUNTER.set(Some((own, MESSAGE_BYTES)));
        let mut counts = Vec::new();
        let read = |counter: usize| COUNTERS[counter].load(Ordering::Relaxed);
        let mut observe = |_: &EpochRecord| {
            COUNTER.set(Some((other, MATRIX_BYTES)));
            counts.push((read(own), read(other)));
            Ok(())
        };
        let instruments = Instruments::clock(&NoClock);
        let input = &inputs[rank];
        train(&CpuBackend::new(1), comm, input, &settings, instruments, &mut observe)?;
        COUNTER.set(None);
        Ok::<_, TrainError>(counts)
    });
    let ranks = ranks.expect("a run");
    let sum = |epoch: usize| {
        let of = |rank: &Vec<(u64, u64)>| {
            (rank[epoch].0 - rank[epoch - 1].0, rank[epoch].1 - rank[epoch - 1].1)
        };
        ranks.iter().map(of).fold((0, 0), |sum, x| (sum.0 + x.0, sum.1 + x.1))
    };
    (1..n_epochs as usize).map(sum).collect()
}

#[test]
fn steady_state_allocates_no_buffers() {
    let bounded = ExchangePolicy { staleness: 3, ..Preset::SylvieA.policy() };
    let decoded = ExchangePolicy { halo: HaloRows::F32, ..Preset::SylvieA.policy() };
    let cases = [
        (ModelKind::Gcn, Preset::SylvieS.policy()),
        (ModelKind::Gat, Preset::SylvieS.policy()),
        (ModelKind::Gat, bounded),
        (ModelKind::Gcn, Preset::PipeGcn.policy()),
        (ModelKind::Sage, Preset::SylvieA.policy()),
        (ModelKind::Sage, decoded),
    ];
    for (kind, policy) in cases {
        // The last epoch evaluates, in full precision: its messages are larger.
        let mut counts = count(policy.clone(), kind, 24);
        counts.pop();
        assert!(counts[0].0 > 0 || counts[0].1 > 0, "the first epochs allocate: {counts:?}");
        // Ten epochs take some 180 matrices and messages on the threads that communicate, and some 700
        // matrices on those that compute. Sizes share their buffers, and where threads run beside each
        // other a small matrix may have taken the large buffer that another is about to want: then, now
        // and then, a small one gives way to a new one.
        let late = counts.iter().skip(12);
        let sum = late.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        assert!(sum.0 < 60 && sum.1 < 60, "{kind}, {policy:?}: {counts:?}");
    }
}
