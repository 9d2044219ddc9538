//! How much memory a replay takes for each live block.

use crate::loads;
use crate::ours::Ours;

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
/// block was replaced once on average.
pub fn measure() {
    let live = 1_000_000;
    let load = loads::churn(live, live as usize);
    println!("resident bytes a live block, {}", load.label);
    for name in ["bump", "first-fit", "best-fit", "tlsf", "pytorch"] {
        let before = resident_bytes();
        let mut ours = Ours::new(name, &load).expect("the capacity is there");
        ours.feed(&load.fill);
        ours.feed(&load.turn);
        let (free, used) = ours.blocks();
        let bytes = resident_bytes().saturating_sub(before);
        println!(
            "{name:<12} {:>6.1}   {used} live blocks, {free} free ones",
            bytes as f64 / f64::from(live)
        );
    }
}
