//! The program `sylvie`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sylvie_cli::run(std::env::args_os())
}
