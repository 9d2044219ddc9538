//! The `vramlab` command.
#![deny(unsafe_code)]

use std::process::ExitCode;

use vramlab::policy::Registry;

fn main() -> ExitCode {
    vramlab::cli::main(Registry::default())
}
