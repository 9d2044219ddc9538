//! The `vramlab` command.
#![deny(unsafe_code)]

fn main() {}
