//! The suites for ranks that are processes: `cargo xtask mpi-test` builds and starts this under mpirun.
//!
//! - `mpi suites [PIECE_BYTES]` runs every suite that a process outlives; rank 0 ends with a line that
//!   says so, without which nothing has passed.
//! - `mpi fault NAME` has the last rank fail in that way; the job must end.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what a process found, it prints")]

mod faults;
mod large;
mod runner;
mod same_bits;
mod suites;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use sylvie_comm::{Communicator as _, Mpi, MpiFault, MpiOptions, mpi_library, run_mpi};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["suites"] => run_suites(MpiOptions::default()),
        ["suites", piece_bytes] => match piece_bytes.parse() {
            Ok(piece_bytes) => run_suites(MpiOptions { piece_bytes, ..MpiOptions::default() }),
            Err(error) => usage(&format!("{piece_bytes}: {error}")),
        },
        ["fault", name] => match faults::find(name) {
            Some(fault) => run_fault(fault),
            None => usage(&format!("there is no fault {name}")),
        },
        _ => usage("unknown arguments"),
    }
}

fn usage(what: &str) -> ExitCode {
    eprintln!("{what}\nmpi suites [PIECE_BYTES] | mpi fault NAME");
    ExitCode::from(2)
}

/// To stderr, as a line of its own.
fn report(fault: &MpiFault) {
    eprintln!("fault: {fault}");
}

fn run_suites(options: MpiOptions) -> ExitCode {
    let outcome = run_mpi(&options, report, |comm: &mut Mpi| {
        let ranks = (comm.rank(), comm.size());
        suites::run(comm, options.piece_bytes).map(|()| ranks)
    });
    match outcome {
        Ok((rank, size)) => {
            if rank == 0 {
                let (pieces, library) = (options.piece_bytes, mpi_library());
                println!("suites passed: {size} ranks, pieces of {pieces} bytes, {library}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("no MPI: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_fault(fault: faults::Fault) -> ExitCode {
    let deadline = Duration::from_millis(faults::deadline_ms(fault));
    let options = MpiOptions { deadline, ..MpiOptions::default() };
    let outcome = run_mpi(&options, report, |comm: &mut Mpi| faults::run(comm, fault));
    // Nobody should come here, but whoever does has not failed.
    println!("fault {fault:?} was survived: {}", outcome.is_ok());
    ExitCode::SUCCESS
}
