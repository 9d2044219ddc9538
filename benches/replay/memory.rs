//! How much memory a replay takes for each live block.

use crate::loads;
use crate::ours::Ours;

/// Live blocks.
const LIVE: u32 = 1_000_000;

/// Resident bytes of this process, as the kernel counts them.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel's count");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number of KiB")
        * 1024
}

/// Prints the resident bytes that a million live blocks add, for each policy, after every
/// block was replaced once on average. Each policy has a process of its own, which has not
/// used memory for another before.
pub fn measure() {
    println!("resident bytes a live block, churn of {LIVE} live blocks");
    let me = std::env::current_exe().expect("this program");
    for name in ["bump", "first-fit", "best-fit", "tlsf", "pytorch"] {
        let told = std::process::Command::new(&me)
            .args(["--memory-of", name])
            .output();
        let told = told.expect("this program runs again");
        print!("{}", String::from_utf8_lossy(&told.stdout));
    }
}

/// Prints what one policy takes.
pub fn measure_one(name: &str) {
    let load = loads::churn(LIVE, LIVE as usize);
    let before = resident_bytes();
    let mut ours = Ours::new(name, &load).expect("the capacity is there");
    ours.feed(&load.fill);
    ours.feed(&load.turn);
    let (free, used) = ours.blocks();
    let bytes = resident_bytes().saturating_sub(before);
    println!(
        "{name:<12} {:>6.1}   {used} live blocks, {free} free ones",
        bytes as f64 / f64::from(LIVE)
    );
}
