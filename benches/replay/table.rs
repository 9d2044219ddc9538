//! The tables: times of all contestants, and the ratios that are wanted of ours.

use std::collections::BTreeMap;

/// Best picoseconds an event, by contestant and load, both in the order in which they came.
#[derive(Default)]
pub struct Table {
    names: Vec<String>,
    loads: Vec<String>,
    cells: BTreeMap<(String, String), u64>,
}

/// What must be reached: ours, a peer, and how many times faster at each of [`LOADS`].
type Wanted = (&'static str, &'static str, [Option<f64>; 5]);

const LOADS: [&str; 5] = ["ml", "churn 1e3", "churn 1e4", "churn 1e5", "churn 1e6"];

const WANTED: [Wanted; 5] = [
    (
        "best-fit",
        "ordered-set",
        [Some(2.0), Some(4.0), Some(4.0), Some(5.0), Some(5.0)],
    ),
    (
        "best-fit",
        "crate offset-allocator",
        [Some(0.8), Some(0.8), Some(0.8), Some(0.8), Some(1.4)],
    ),
    (
        "best-fit",
        "crate range-alloc",
        [Some(1.0), Some(5.0), Some(15.0), Some(80.0), None],
    ),
    (
        "tlsf",
        "crate offset-allocator",
        [Some(1.1), Some(1.0), Some(1.1), Some(1.3), Some(2.2)],
    ),
    (
        "first-fit",
        "crate offset-allocator",
        [Some(0.9), Some(0.7), Some(0.6), Some(0.6), Some(1.2)],
    ),
];

/// The highest exponent of growth from a thousand to a million live blocks.
const GROWTH: [(&str, f64); 3] = [("best-fit", 0.20), ("first-fit", 0.20), ("tlsf", 0.10)];

/// The bump loop, ns an event at most.
const BUMP_NS: f64 = 12.0;

/// `pytorch` on llama_generate, times best fit's time at most.
const PYTORCH: f64 = 1.5;

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT met" }
}

impl Table {
    /// Notes a contestant's time in a load.
    pub fn put(&mut self, name: &str, load: &str, event_ps: u64) {
        for (list, word) in [(&mut self.names, name), (&mut self.loads, load)] {
            if !list.iter().any(|known| known == word) {
                list.push(word.to_owned());
            }
        }
        self.cells
            .insert((name.to_owned(), load.to_owned()), event_ps);
    }

    fn ns(&self, name: &str, load: &str) -> Option<f64> {
        let event_ps = self.cells.get(&(name.to_owned(), load.to_owned()))?;
        Some(*event_ps as f64 / 1e3)
    }

    /// Prints the times, then what is wanted with what was measured.
    pub fn print(&self) {
        println!("\nns an event, best of all turns");
        print!("{:<24}", "");
        self.loads.iter().for_each(|load| print!(" {load:>14}"));
        println!();
        for name in &self.names {
            print!("{name:<24}");
            for load in &self.loads {
                let cell = self.ns(name, load);
                print!(
                    " {:>14}",
                    cell.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"))
                );
            }
            println!();
        }
        self.print_ratios();
        self.print_rest();
    }

    fn print_ratios(&self) {
        println!("\ntimes faster: measured (wanted), ! where not met");
        print!("{:<36}", "");
        LOADS.iter().for_each(|load| print!(" {load:>14}"));
        println!();
        for (ours, peer, wanted) in WANTED {
            print!("{:<36}", format!("{ours} : {peer}"));
            for (load, wanted) in LOADS.iter().zip(wanted) {
                let cell = wanted.zip(self.ns(peer, load).zip(self.ns(ours, load)));
                let cell = cell.map_or_else(
                    || "-".to_owned(),
                    |(wanted, (peer_ns, ours_ns))| {
                        let times = peer_ns / ours_ns;
                        let mark = if times < wanted { "!" } else { " " };
                        format!("{times:.2} ({wanted}){mark}")
                    },
                );
                print!(" {cell:>14}");
            }
            println!();
        }
    }

    fn print_rest(&self) {
        println!();
        for (name, most) in GROWTH {
            let ends = self.ns(name, LOADS[1]).zip(self.ns(name, LOADS[4]));
            if let Some((small, large)) = ends {
                let exponent = (large / small).log10() / 3.0;
                let met = met(exponent <= most);
                println!(
                    "{name}: grows as n^{exponent:.2} from 1e3 to 1e6 (at most {most:.2}): {met}"
                );
            }
        }
        for load in &self.loads {
            if let Some(ns) = self.ns("bump", load) {
                println!(
                    "bump on {load}: {ns:.1} ns (at most {BUMP_NS}): {}",
                    met(ns <= BUMP_NS)
                );
            }
        }
        let llama = "llama_generate";
        if let Some((pytorch, best)) = self.ns("pytorch", llama).zip(self.ns("best-fit", llama)) {
            let times = pytorch / best;
            println!(
                "pytorch on {llama}: {times:.2} x best fit (at most {PYTORCH}): {}",
                met(times <= PYTORCH)
            );
        }
    }
}
