//! The same calls give the same bits on threads and on processes.

use sylvie_comm::{
    CommError, Communicator, Incoming, Mpi, Outgoing, Pass, Purpose, Tag, ThreadOptions, Threads,
    Traffic, run_ranks,
};

const N_EPOCHS: u32 = 4;

/// Everything that a rank gets to see.
#[derive(Debug, PartialEq)]
struct Seen {
    messages: Vec<Vec<u8>>,
    sums: Vec<u32>,
    gathered: Vec<Vec<u8>>,
    traffic: Traffic,
}

/// Runs the same calls as threads of this process, and compares what this rank sees in both.
pub(crate) fn check(comm: &mut Mpi) -> Result<(), CommError> {
    drop(comm.take_traffic());
    let of_processes = run(comm)?;
    let of_threads =
        run_ranks(comm.size(), &ThreadOptions::default(), |comm: &mut Threads<_>| run(comm))
            .expect("threads do not fail");
    assert_eq!(of_processes, of_threads[comm.rank()]);
    Ok(())
}

/// Epochs with two exchanges in flight, whose bytes follow from what came before, so that one wrong
/// bit spreads.
fn run<C: Communicator<Buffer = Vec<u8>>>(comm: &mut C) -> Result<Seen, CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let peers = || (0..size).filter(move |&peer| peer != rank);
    let mut seen = Seen {
        messages: Vec::new(),
        sums: Vec::new(),
        gathered: Vec::new(),
        traffic: Traffic::default(),
    };
    let mut values: Vec<f32> = (0..1003).map(|i| term(rank as u32, i)).collect();
    for epoch in 0..N_EPOCHS {
        let mut in_flight = Vec::new();
        for pass in [Pass::Forward, Pass::Backward] {
            let tag = Tag { epoch, layer: 1, pass, purpose: Purpose::Training };
            let n_values = |from: usize, to: usize| 40 + 90 * from + 33 * to;
            let send = |peer| {
                let part = &values[..n_values(rank, peer)];
                let buffer: Vec<u8> = part.iter().flat_map(|value| value.to_le_bytes()).collect();
                let payload_bytes = buffer.len() as u64;
                Outgoing { peer, buffer, payload_bytes, metadata_bytes: 0 }
            };
            let recvs: Vec<_> =
                peers().map(|peer| Incoming { peer, bytes: 4 * n_values(peer, rank) }).collect();
            in_flight.push(comm.start(tag, peers().map(send).collect(), &recvs)?);
        }
        // The later one first.
        while let Some(pending) = in_flight.pop() {
            for message in comm.wait(pending)? {
                for (value, bytes) in values.iter_mut().zip(message.buffer.chunks_exact(4)) {
                    *value += f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
                seen.messages.push(message.buffer);
            }
        }
        comm.reduce(&mut values)?;
        seen.sums.extend(values.iter().map(|value| value.to_bits()));
        seen.gathered.extend(comm.all_gather(&values[rank].to_le_bytes())?);
        for value in &mut values {
            *value *= 0.3;
        }
    }
    seen.traffic = comm.take_traffic();
    Ok(seen)
}

/// Magnitudes over many powers of two, so that the order of adding shows.
fn term(rank: u32, i: u32) -> f32 {
    let draw = (rank * 1009 + i + 1).wrapping_mul(0x9E37_79B9);
    f32::from_bits(draw & 0x807F_FFFF | (115 + (draw >> 9) % 20) << 23)
}
