//! The device's own checks: kernels with a fault each, and what they are caught by.

use std::thread;

use sylvie_kernels::{Kernel, Kind, Launch, Module, Parameter, RELU, Share};
use sylvie_kernels_emulated::{Argument, Buffer, LaunchError, Order, launch, launch_grid};

static FAULTS: Module = Module { name: "faults", ptx: "", source: "" };
const BLOCK: u32 = 256;

fn kernel(entry: &'static str, kind: Kind) -> Kernel {
    let parameters: &[Parameter] = match kind {
        Kind::F32s => &[Parameter { name: "x", kind: Kind::F32s }],
        _ => &[Parameter { name: "x", kind: Kind::U32s }],
    };
    Kernel { module: &FAULTS, entry, parameters, share: Share::Values }
}

/// Runs a faulty kernel on an array of one word a thread.
fn found(entry: &'static str, n_blocks: u32, order: Order) -> String {
    let x = Buffer::from_values(&[0_u32; BLOCK as usize]);
    let grid = Launch { grid: [n_blocks, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0 };
    let kind = if entry == "fault_not_aligned" { Kind::F32s } else { Kind::U32s };
    let argument = if entry == "fault_null" { Argument::NULL } else { Argument::from(&x) };
    let outcome = launch_grid(&kernel(entry, kind), grid, &[argument], order);
    outcome.expect_err(entry).to_string()
}

#[test]
fn every_fault_is_named_in_every_order() {
    let faults = [
        ("fault_barrier_for_some", "waits in __syncthreads of line"),
        ("fault_two_barriers", "threads wait for each other for ever"),
        ("fault_mask_without_caller", "__ballot_sync with a mask that leaves the caller out"),
        ("fault_mask_names_the_absent", "__shfl_xor_sync names lane"),
        ("fault_shuffle_from_outside", "which takes no part"),
        ("fault_masks_that_differ", "threads wait for each other for ever"),
        ("fault_reads_behind", "reads 4 bytes at byte 1024 of an allocation of 1024"),
        ("fault_writes_before", "writes 4 bytes"),
        ("fault_shared_overrun", " of an allocation of 256"),
        ("fault_no_barrier", "a race"),
        ("fault_overwrites_what_is_read", "a race"),
        ("fault_shuffle_for_a_barrier", "a race"),
        ("fault_other_lanes_barrier", "a race"),
        ("fault_not_aligned", "sixteen bytes at once where they are not aligned"),
        ("fault_null", "as of a null pointer"),
    ];
    for (entry, words) in faults {
        for order in [Order::Forward, Order::Backward, Order::Shuffled(5), Order::Shuffled(6)] {
            let message = found(entry, 1, order);
            // A race may be seen before the word that is out of bounds.
            let is_named = message.contains(words)
                || (entry == "fault_reads_behind" && message.contains("a race"));
            assert!(message.starts_with(entry) && is_named, "{order:?}: {message}");
        }
    }
    assert!(
        found("fault_blocks_share_a_word", 2, Order::Forward)
            .contains("thread 0 of block 0 touched")
    );
}

#[test]
fn meetings_give_what_cuda_gives() {
    let expected = |lane: u32| -> [u32; 19] {
        let own = |lane: u32| lane * 3 + 1;
        let all = || (0..32).map(own);
        [
            0x4924_9249,
            1,
            0,
            1,
            0,
            all().sum(),
            1,
            94,
            all().fold(u32::MAX, |a, v| a & (v | 4)),
            all().fold(0, |a, v| a | v),
            all().fold(0, |a, v| a ^ v),
            own(3),
            own(if lane < 2 { lane } else { lane - 2 }),
            own(if lane < 2 { lane + 30 } else { lane }),
            own(lane / 8 * 8 + 2),
            own(lane ^ 5),
            10,
            0,
            1,
        ]
    };
    for order in [Order::Forward, Order::Backward, Order::Shuffled(3)] {
        let x = Buffer::from_values(&[0_u32; 19 * BLOCK as usize]);
        let grid = Launch { grid: [1, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0 };
        launch_grid(&kernel("meetings", Kind::U32s), grid, &[Argument::from(&x)], order).unwrap();
        let found = x.values::<u32>();
        for thread in 0..BLOCK {
            let of_thread: Vec<u32> =
                (0..19).map(|i| found[(i * BLOCK + thread) as usize]).collect();
            assert_eq!(of_thread, expected(thread % 32), "thread {thread}");
        }
    }
}

#[test]
fn barriers_of_lanes_and_of_the_block_order_memory() {
    for order in [Order::Forward, Order::Backward, Order::Shuffled(3)] {
        let x = Buffer::from_values(&[0_u32; BLOCK as usize]);
        let grid = Launch { grid: [1, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0 };
        launch_grid(&kernel("handed_over", Kind::U32s), grid, &[Argument::from(&x)], order)
            .unwrap();
        assert_eq!(
            x.values::<u32>(),
            (0..BLOCK).map(|thread| thread ^ 128 ^ 8).collect::<Vec<_>>()
        );
    }
}

#[test]
fn impossible_launches_are_refused() {
    let x = Buffer::from_values(&[0_u32; 4]);
    let arguments = [Argument::from(&x), Argument::U64(4)];
    for (grid, block, shared_bytes) in
        [([0, 1, 1], 32, 0), ([1, 1, 1], 2048, 0), ([1, 1, 1], 32, 16)]
    {
        let grid = Launch { grid, block: [block, 1, 1], shared_bytes };
        launch_grid(&RELU, grid, &arguments, Order::Forward).unwrap_err();
    }
    let unknown = Kernel { entry: "no_such_kernel", ..RELU };
    let expected = LaunchError::NoKernel { entry: "no_such_kernel" };
    assert_eq!(launch(&unknown, (1, 4), &arguments, Order::Forward), Err(expected));
}

#[test]
fn the_device_goes_on_after_a_failure_and_on_several_threads() {
    let work = || {
        for _ in 0..3 {
            found("fault_two_barriers", 1, Order::Shuffled(2));
            let x = Buffer::from_values(&[-1.0_f32, 2.0]);
            launch(&RELU, (1, 2), &[Argument::from(&x), Argument::U64(2)], Order::Backward)
                .unwrap();
            assert_eq!(x.values::<f32>(), [0.0, 2.0]);
        }
    };
    let threads: Vec<_> = (0..3).map(|_| thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn freed_memory_is_watched_too() {
    // A size that no other test asks for, which could be given the same memory.
    let n_values = 54_321;
    let freed = Buffer::new(4 * n_values, 0).address();
    let x = [Argument::Pointer(freed), Argument::U64(n_values as u64)];
    let message = launch(&RELU, (1, 64), &x, Order::Forward).unwrap_err().to_string();
    assert!(message.contains("reads") || message.contains("writes"), "{message}");
}
