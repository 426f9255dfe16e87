//! Ways in which the last rank of a job can fail.

use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use sylvie_comm::{CommError, Communicator, Incoming, Mpi, Outgoing, Pass, Purpose, Tag};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error,
    Panic,
    PanicAside,
    Abort,
    Departure,
    Silence,
    LateEnd,
    WrongTag,
    WrongLength,
    WrongCollective,
    UnequalReduce,
    Killed,
    Stopped,
    Exit,
}

const ALL: [(&str, Fault); 14] = [
    ("error", Fault::Error),
    ("panic", Fault::Panic),
    ("panic-aside", Fault::PanicAside),
    ("abort", Fault::Abort),
    ("departure", Fault::Departure),
    ("silence", Fault::Silence),
    ("late-end", Fault::LateEnd),
    ("wrong-tag", Fault::WrongTag),
    ("wrong-length", Fault::WrongLength),
    ("wrong-collective", Fault::WrongCollective),
    ("unequal-reduce", Fault::UnequalReduce),
    ("killed", Fault::Killed),
    ("stopped", Fault::Stopped),
    ("exit", Fault::Exit),
];

/// The fault of that name.
pub(crate) fn find(name: &str) -> Option<Fault> {
    ALL.iter().find(|(known, _)| *known == name).map(|&(_, fault)| fault)
}

/// Long where nothing must wait for it, short where nothing else ends the job.
pub(crate) fn deadline_ms(fault: Fault) -> u64 {
    match fault {
        Fault::Silence | Fault::LateEnd | Fault::Stopped | Fault::Exit => 1500,
        _ => 60_000,
    }
}

const fn tag(layer: u16) -> Tag {
    Tag { epoch: 7, layer, pass: Pass::Backward, purpose: Purpose::Training }
}

/// Some rounds in which all is well, then the fault.
pub(crate) fn run(comm: &mut Mpi, fault: Fault) -> Result<(), CommError> {
    for _ in 0..3 {
        exchange(comm, 0, 100, 100)?;
        comm.reduce(&mut [1.0; 9])?;
    }
    if comm.rank() + 1 < comm.size() { wait_for_it(comm, fault) } else { fail(comm, fault) }
}

/// What the other ranks do: they wait for the last one.
fn wait_for_it(comm: &mut Mpi, fault: Fault) -> Result<(), CommError> {
    match fault {
        Fault::WrongCollective => comm.all_gather(b"here").map(drop),
        Fault::UnequalReduce => comm.reduce(&mut [1.0; 5]),
        Fault::LateEnd => Ok(()),
        _ => exchange(comm, 1, 100, 100),
    }
}

fn fail(comm: &mut Mpi, fault: Fault) -> Result<(), CommError> {
    match fault {
        Fault::Error => {
            return Err(CommError::WrongLength { tag: tag(5), peer: 77, expected: 1, found: 2 });
        }
        Fault::Panic => panic!("gives up on purpose"),
        Fault::PanicAside => {
            let aside = thread::spawn(|| panic!("gives up aside"));
            drop(aside.join());
        }
        Fault::Abort => comm.abort("has had enough"),
        Fault::Departure => return Ok(()),
        Fault::Silence | Fault::LateEnd => thread::sleep(Duration::from_secs(60)),
        Fault::WrongTag => return exchange(comm, 2, 100, 100),
        Fault::WrongLength => return exchange(comm, 1, 101, 100),
        Fault::WrongCollective => return comm.reduce(&mut [1.0; 5]),
        Fault::UnequalReduce => return comm.reduce(&mut [1.0; 6]),
        Fault::Killed => signal("-KILL"),
        Fault::Stopped => signal("-STOP"),
        Fault::Exit => process::exit(0),
    }
    Ok(())
}

/// Sends to and awaits from every peer.
fn exchange(comm: &mut Mpi, layer: u16, n_sent: usize, n_awaited: usize) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let peers = || (0..size).filter(move |&peer| peer != rank);
    let send = |peer| {
        let payload_bytes = n_sent as u64;
        Outgoing { peer, buffer: vec![1; n_sent], payload_bytes, metadata_bytes: 0 }
    };
    let recvs: Vec<_> = peers().map(|peer| Incoming { peer, bytes: n_awaited }).collect();
    let pending = comm.start(tag(layer), peers().map(send).collect(), &recvs)?;
    comm.wait(pending).map(drop)
}

/// Has the system send a signal to this process.
fn signal(name: &str) {
    let status = Command::new("kill").args([name, &process::id().to_string()]).status();
    // Whoever comes here was not stopped in time: then silence must do.
    println!("kill ended with {status:?}");
    thread::sleep(Duration::from_secs(60));
}
