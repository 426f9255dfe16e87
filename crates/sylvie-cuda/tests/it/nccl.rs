//! The transport over NCCL passes the suites of every transport.

use std::sync::Barrier;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, proptest};
use sylvie_comm::{
    CommError, Communicator, Incoming, Nccl, NcclOptions, Outgoing, Pass, Purpose, RankError, Tag,
    ThreadOptions, Threads, run_ranks,
};
use sylvie_conformance::{Runner, collectives, exchange, faults, plans, polling};
use sylvie_cuda::{Device, DeviceBytes};
use sylvie_standins::Fault;

struct OnDevices {
    threads: ThreadOptions,
    nccl: NcclOptions,
}

impl Runner for OnDevices {
    type Buffer = DeviceBytes;
    type Comm<'a> = Nccl<&'a mut Threads<Vec<u8>>>;

    fn run(
        &self,
        n_ranks: usize,
        body: impl Fn(&mut Self::Comm<'_>) -> Result<(), CommError> + Sync,
    ) -> Result<(), RankError<CommError>> {
        // The suites begin with all ranks connected: one that fails at once must not keep others from it.
        let connected = Barrier::new(n_ranks);
        let ended = run_ranks(n_ranks, &self.threads, |comm: &mut Threads<Vec<u8>>| {
            let device = Device::open(comm.rank()).expect("an emulated device");
            let mut comm = Nccl::new(comm, device, self.nccl)?;
            connected.wait();
            body(&mut comm)
        });
        ended.map(|values| assert_eq!(values.len(), n_ranks))
    }

    fn buffer(&self, bytes: Vec<u8>) -> DeviceBytes {
        if bytes.is_empty() {
            return DeviceBytes::default();
        }
        let device = Device::open(0).expect("an emulated device");
        DeviceBytes::new(device.upload(&bytes).expect("room"))
    }

    fn bytes(&self, buffer: DeviceBytes) -> Vec<u8> {
        let mut bytes = vec![0; buffer.n_bytes()];
        if let Some(memory) = buffer.memory() {
            memory.device().read(memory, &mut bytes).expect("a copy");
        }
        bytes
    }
}

fn patient() -> OnDevices {
    sylvie_standins::install();
    OnDevices { threads: ThreadOptions::default(), nccl: NcclOptions::default() }
}

fn on_sizes(sizes: &[usize], suite: impl Fn(&OnDevices, usize)) {
    for &n_ranks in sizes {
        suite(&patient(), n_ranks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn follows_plan(plan in plans(4)) {
        exchange::follows_plan(&patient(), &plan);
    }

    #[test]
    fn follows_plan_with_delays(plan in plans(4), seed in any::<u64>()) {
        exchange::follows_plan_with_delays(&patient(), &plan, seed);
    }

    #[test]
    fn follows_plan_polling_with_delays(plan in plans(4), seed in any::<u64>()) {
        polling::follows_plan_with_delays(&patient(), &plan, seed);
    }
}

macro_rules! suites {
    ($($module:ident::$name:ident $sizes:expr),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                on_sizes(&$sizes, $module::$name);
            }
        )*
    };
}

suites!(
    exchange::ring_brings_buffers_home [1, 2, 3],
    exchange::backward_mirrors_forward [1, 2, 3],
    exchange::sender_may_leave_first [1, 2, 3],
    polling::ready_after_the_last_peer_sent [1, 2, 3],
    polling::ready_late_with_delays [1, 2, 3],
    collectives::all_gather_is_in_rank_order [1, 2, 3],
    collectives::reduce_has_the_bits_of_rank_order [1, 2, 3],
    collectives::barrier_holds_everyone [1, 2, 3],
    faults::abort_reaches_everyone [1, 2, 3],
    faults::abort_wakes_by_itself [1, 2, 3],
    faults::abort_is_seen_by_later_calls [1, 2, 3],
    faults::panic_is_the_root_cause [1, 2, 3],
    faults::error_is_the_root_cause [1, 2, 3],
    faults::early_return_is_an_error [2, 3],
);

#[test]
fn silence_times_out() {
    // Connecting takes part of it.
    let deadline = Duration::from_millis(1500);
    let hasty =
        OnDevices { threads: ThreadOptions { deadline, ..Default::default() }, ..patient() };
    faults::silence_times_out(&hasty, deadline);
}

#[test]
fn faults_of_plans_are_named() {
    let runner = patient();
    faults::polling_sees_every_peer(&runner);
    faults::wrong_tag_names_both(&runner);
    faults::swapped_order_is_an_error(&runner);
    faults::wrong_length_names_both(&runner);
    faults::first_error_is_final(&runner);
    faults::unequal_collectives_are_errors(&runner);
}

const TAG: Tag = Tag { epoch: 1, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };

/// A message that NCCL loses is a timeout of the rank that waits for it, and not a hang.
#[test]
fn an_unpaired_send_is_a_timeout() {
    let deadline = Duration::from_millis(200);
    let runner = OnDevices { nccl: NcclOptions { deadline }, ..patient() };
    // No other test sends messages of this length.
    let n_bytes = 4321;
    let fault = Fault::lost_sends(n_bytes);
    let ended = runner.run(2, |comm| {
        let (peer, bytes) = (1 - comm.rank(), usize::from(n_bytes));
        let buffer = runner.buffer(vec![1; bytes]);
        let send = Outgoing { peer, buffer, payload_bytes: n_bytes.into(), metadata_bytes: 0 };
        let pending = comm.start(TAG, vec![send], &[Incoming { peer, bytes }])?;
        comm.wait(pending).map(drop)
    });
    drop(fault);
    match ended {
        Err(RankError::Failed { source: CommError::Timeout { operation, .. }, .. }) => {
            assert_eq!(operation, sylvie_comm::Operation::Exchange(TAG));
        }
        other => panic!("{other:?} instead of a timeout"),
    }
}

#[test]
fn ranks_that_share_a_device_are_refused() {
    sylvie_standins::install();
    let ended = run_ranks(2, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
        let device = Device::open(0).expect("an emulated device");
        Nccl::new(comm, device, NcclOptions::default()).map(drop)
    });
    match ended {
        Err(RankError::Failed { source: CommError::Transport { reason }, .. }) => {
            assert!(reason.contains("ncclCommInitRank"), "{reason}");
        }
        other => panic!("{other:?} instead of a refusal"),
    }
}
