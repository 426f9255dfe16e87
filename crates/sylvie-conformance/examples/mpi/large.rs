//! Messages that MPI does not send at once, and whose bytes move while their sender computes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use sylvie_comm::{CommError, Communicator as _, Incoming, Mpi, Outgoing, Pass, Purpose, Tag};

/// Above what is sent without the receiver having been asked, by MPI and by the transport.
const N_BYTES: usize = 9 << 20;
/// As long as a rank computes at most, should its messages never arrive.
const PATIENCE: Duration = Duration::from_secs(20);

const fn tag(layer: u16) -> Tag {
    Tag { epoch: 0, layer, pass: Pass::Forward, purpose: Purpose::Training }
}

pub(crate) fn check(comm: &mut Mpi) -> Result<(), CommError> {
    several_in_flight(comm)?;
    bytes_move_while_their_sender_computes(comm)
}

fn send(from: usize, layer: u16, peer: usize, n_bytes: usize) -> Outgoing<Vec<u8>> {
    let buffer = content(from, layer, n_bytes);
    Outgoing { peer, buffer, payload_bytes: n_bytes as u64, metadata_bytes: 0 }
}

fn content(from: usize, layer: u16, n_bytes: usize) -> Vec<u8> {
    (0..n_bytes).map(|i| (i * 31 + from * 7 + usize::from(layer)) as u8).collect()
}

/// Three exchanges with every peer, of unequal lengths, waited for from the last to the first, twice.
fn several_in_flight(comm: &mut Mpi) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let peers = || (0..size).filter(move |&peer| peer != rank);
    let n_bytes = |from: usize, layer: u16| N_BYTES / (1 + from) - usize::from(layer);
    for _ in 0..2 {
        let mut in_flight = Vec::new();
        for layer in 0..3 {
            let sends = peers().map(|peer| send(rank, layer, peer, n_bytes(rank, layer))).collect();
            let recvs: Vec<_> =
                peers().map(|peer| Incoming { peer, bytes: n_bytes(peer, layer) }).collect();
            in_flight.push((layer, comm.start(tag(layer), sends, &recvs)?));
        }
        while let Some((layer, pending)) = in_flight.pop() {
            for message in comm.wait(pending)? {
                let expected = content(message.peer, layer, n_bytes(message.peer, layer));
                assert!(message.buffer == expected, "layer {layer} from rank {}", message.peer);
            }
        }
    }
    Ok(())
}

/// Rank 0 sends to all, and makes no call until all have told it, by files, that they have got it.
fn bytes_move_while_their_sender_computes(comm: &mut Mpi) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let of_rank_0 = comm.all_gather(process::id().to_string().as_bytes())?.swap_remove(0);
    let job = String::from_utf8_lossy(&of_rank_0).into_owned();
    let folder = env::temp_dir().join(format!("sylvie-mpi-test-{job}"));
    let got = |rank: usize| -> PathBuf { folder.join(rank.to_string()) };
    if rank == 0 {
        fs::create_dir_all(&folder).expect("a folder for the answers");
        comm.barrier()?;
        let sends = (1..size).map(|peer| send(0, 9, peer, N_BYTES)).collect();
        let pending = comm.start(tag(9), sends, &[])?;
        comm.wait(pending)?;
        let began = Instant::now();
        let has_all = || (1..size).all(|peer| Path::exists(&got(peer)));
        while !has_all() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(has_all(), "bytes stood still while their sender computed");
        fs::remove_dir_all(&folder).expect("the folder goes");
    } else {
        comm.barrier()?;
        let recvs = [Incoming { peer: 0, bytes: N_BYTES }];
        let pending = comm.start(tag(9), Vec::new(), &recvs)?;
        let received = comm.wait(pending)?;
        assert!(received[0].buffer == content(0, 9, N_BYTES), "what came from rank 0");
        fs::write(got(rank), "").expect("an answer");
    }
    comm.barrier()
}
