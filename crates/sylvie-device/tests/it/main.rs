//! The host's side of devices, against stand-ins of NVIDIA's libraries.

use sylvie_device::{Device, DeviceError, devices};
use sylvie_kernels::KERNELS;
use sylvie_standins::Fault;

fn device() -> Device {
    sylvie_standins::install();
    Device::open(0).expect("the emulated device")
}

fn bytes(n: usize, seed: u8) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn devices_are_listed_and_wrong_numbers_refused() {
    sylvie_standins::install();
    let listed = devices().expect("emulated devices");
    assert_eq!(listed.len(), 4);
    assert_eq!((listed[2].ordinal, listed[2].capability), (2, (8, 0)));
    let refused = Device::open(9).map(drop);
    assert_eq!(refused, Err(DeviceError::NoDevice { ordinal: 9, n_devices: 4 }));
}

#[test]
fn bytes_come_back_in_pieces_of_any_number() {
    let device = device();
    for n in [0, 1, 255, 4 << 20, (4 << 20) + 1, (13 << 20) + 7] {
        let sent = bytes(n, 3);
        let memory = device.upload(&sent).expect("room");
        let mut back = vec![0; n];
        device.read(&memory, &mut back).expect("a copy");
        assert!(back == sent, "{n} bytes");
        let mut other = device.allocate(n).expect("room");
        device.copy(&memory, n, &mut other).expect("a copy");
        device.fill(7, &mut device.allocate(n).expect("room")).expect("a fill");
        device.read(&other, &mut back).expect("a copy");
        assert!(back == sent, "{n} bytes, copied");
    }
}

#[test]
fn rounds_alike_allocate_nothing() {
    let device = device();
    let mut n_allocated = Vec::new();
    for _ in 0..4 {
        let held: Vec<_> =
            [100, 5000, 5000, 70_000].map(|n| device.allocate(n).expect("room")).into();
        drop(held);
        n_allocated.push(device.memory_use().n_allocated);
    }
    assert_eq!(n_allocated, [4; 4]);
    assert_eq!(device.memory_use().in_use_bytes, 0);
}

#[test]
fn a_full_device_says_what_was_asked_for() {
    let device = device();
    match device.allocate(5 << 30) {
        Err(DeviceError::OutOfMemory { ordinal: 0, bytes, in_use: 0 }) => assert!(bytes >= 5 << 30),
        other => panic!("{other:?} instead of a full device"),
    }
}

#[test]
fn an_old_driver_takes_what_is_compiled_here_and_no_other_driver_is_asked_to() {
    sylvie_standins::install();
    let load_all = || -> Result<(), DeviceError> {
        // Opened anew, so that nothing is loaded yet.
        let device = Device::open(3)?;
        KERNELS.iter().try_for_each(|kernel| device.load(kernel))
    };
    let fault = Fault::old_driver();
    load_all().expect("kernels compiled by the stand-in of NVRTC");
    drop(fault);
    let fault = Fault::driver_without_kernels();
    let refused = load_all();
    drop(fault);
    let Err(DeviceError::KernelsRefused { module, driver, refusal, fallback }) = refused else {
        panic!("{refused:?} instead of a refusal");
    };
    assert_eq!((module, driver), (KERNELS[0].module.name, 12_020));
    let code = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    assert!(refusal.contains(code) && fallback.contains(code), "{refusal}, {fallback}");
    load_all().expect("PTX as it is");
}

/// Threads write, read and hand over the same memory, and give it back to a pool that hands it to others.
fn share(device: &Device) -> Result<(), DeviceError> {
    let shared = device.upload(&bytes(5000, 1))?;
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..4_u8)
            .map(|seed| {
                let shared = &shared;
                scope.spawn(move || {
                    for round in 0..20 {
                        let mut own = device.allocate(5000)?;
                        device.copy(shared, 5000, &mut own)?;
                        device.fill(seed, &mut device.allocate(5000 - round)?)?;
                        let mut back = vec![0; 5000];
                        device.read(&own, &mut back)?;
                        assert!(back == bytes(5000, 1));
                    }
                    device.allocate(5000)
                })
            })
            .collect();
        for user in users {
            let mut given = user.join().expect("no panic")?;
            device.write(&bytes(5000, 9), &mut given)?;
        }
        Ok(())
    })
}

/// In one test, since faults and reports are the process's.
#[test]
fn what_threads_share_is_ordered_and_what_is_not_is_reported() {
    let device = device();
    share(&device).expect("ordered streams");
    let fault = Fault::streams_do_not_wait();
    let failed = share(&device).expect_err("streams that do not wait");
    drop(fault);
    assert!(matches!(failed, DeviceError::Call { .. }), "{failed:?}");
    let reports = sylvie_standins::reports();
    assert!(reports.iter().any(|text| text.contains("no event or synchronisation")), "{reports:?}");
}
