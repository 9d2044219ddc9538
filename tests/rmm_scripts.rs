//! The policy `rmm-pool` against what the official library answered: hand-written scripts
//! and random programs of up to five streams, every line equal, waits and all.

mod common;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use vramlab::policy::Policy;
use vramlab::policy::limit::Limit;
use vramlab::policy::rmm::EventOrder;
use vramlab::policy::rmm::pool::{Pool, Spec};
use vramlab::space::{
    AddressOrder, Bench, BlockId, Device, Request, Space, SpaceConfig, Step, StepKind,
};
use vramlab::trace::StreamId;
use vramlab::units::TIB;

/// The bench's upstream counts whole quanta.
const QUANTUM: u64 = 256;
const STREAMS: u16 = 8;

/// Runs a script and prints what the official library prints.
struct Bed {
    order: EventOrder,
    limit_bytes: u64,
    gap_bytes: u64,
    down: bool,
    pool: Option<(Pool, Space)>,
    /// `None`: a request of no bytes.
    ids: HashMap<String, Option<BlockId>>,
    /// The library's event of each stream, by first use.
    events: HashMap<StreamId, u64>,
    made: u64,
    out: String,
}

impl Bed {
    fn new(descending: bool) -> Self {
        Bed {
            order: if descending {
                EventOrder::Descending
            } else {
                EventOrder::Ascending
            },
            limit_bytes: TIB,
            gap_bytes: 0,
            down: false,
            pool: None,
            ids: HashMap::new(),
            events: HashMap::new(),
            made: 0,
            out: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.out, "  {line}").expect("memory");
    }

    fn pool(&mut self) -> &mut (Pool, Space) {
        self.pool.as_mut().expect("a pool was made")
    }

    fn run(&mut self, script: &str) {
        for line in script.lines().filter(|line| !line.starts_with('#')) {
            writeln!(self.out, "> {line}").expect("memory");
            let words: Vec<&str> = line.split_whitespace().collect();
            if self.command(&words) {
                let (size, up) = self.pool.as_ref().map_or((0, 0), |(pool, space)| {
                    (pool.pool_bytes(), space.counters().page_bytes)
                });
                self.line(&format!("size {size} up {up}"));
            } else {
                self.line("EXC");
            }
        }
    }

    fn command(&mut self, words: &[&str]) -> bool {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let stream = |text: &str| text.parse::<StreamId>().expect("a stream");
        match words {
            ["limit", bytes] => self.limit_bytes = number(bytes),
            ["gap", bytes] => self.gap_bytes = number(bytes),
            ["down"] => self.down = true,
            ["pool", initial] => return self.create(number(initial), Limit::None),
            ["pool", initial, maximum] => {
                return self.create(number(initial), Limit::Bytes(number(maximum)));
            }
            ["a", id, bytes] => return self.alloc(id, number(bytes), 0),
            ["a", id, bytes, on] => return self.alloc(id, number(bytes), stream(on)),
            ["f", id] => self.free(id, 0),
            ["f", id, on] => self.free(id, stream(on)),
            _ => panic!("a command that the bench does not know: {words:?}"),
        }
        true
    }

    fn create(&mut self, initial: u64, maximum: Limit) -> bool {
        let mut device = Device::bare(self.limit_bytes);
        device.page_bytes = QUANTUM;
        // Downwards the bench leaves a gap before the first block too.
        let from = if self.down {
            0x1000_0000_0000 - self.gap_bytes
        } else {
            0x10_0000
        };
        let mut space = Space::new(SpaceConfig {
            device: Arc::new(device),
            blind: false,
            streams: usize::from(STREAMS),
            addresses: AddressOrder::Bench(Bench {
                from,
                down: self.down,
                gap_bytes: self.gap_bytes,
                reserve_from: 0,
            }),
            record_steps: true,
            ..SpaceConfig::bare(u64::MAX)
        });
        let spec = Spec {
            initial,
            maximum,
            reclaim: true,
            events: self.order,
        };
        let mut pool = Pool::new(spec).expect("valid");
        let started = pool.start(&mut space).is_ok();
        if initial > 0 {
            self.events.insert(0, 0);
        }
        self.pool = Some((pool, space));
        self.calls(false);
        started
    }

    /// The event of a stream, as the library makes it at the first use.
    fn event(&mut self, stream: StreamId) -> u64 {
        if let Some(event) = self.events.get(&stream) {
            return *event;
        }
        self.made += 1;
        let event = match self.order {
            EventOrder::Ascending => 0x1000 + 0x10 * self.made,
            EventOrder::Descending => 0x10_0000 - 0x10 * self.made,
        };
        self.events.insert(stream, event);
        event
    }

    /// Prints the steps of a call; waits of a merge record the own event again.
    fn calls(&mut self, merged: bool) {
        let (_, space) = self.pool();
        let steps = space.steps().to_vec();
        space.begin_event(space.event() + 1, 0);
        for step in steps {
            self.call(step, merged);
        }
    }

    fn call(&mut self, step: Step, merged: bool) {
        let (address, bytes) = (step.address, step.bytes);
        match step.kind {
            StepKind::Map(_) => self.line(&format!("up_alloc {address:x} {bytes}")),
            StepKind::Unmap(_) => self.line(&format!("up_free {address:x} {bytes}")),
            StepKind::Refused => self.line(&format!("up_fail {bytes}")),
            StepKind::Wait { stream, on } => {
                // The null stream waits as the legacy stream.
                let name = if stream == 0 {
                    1
                } else {
                    u64::from(stream) * 0x1000
                };
                // A wait for a stream that never did anything is told as one for itself.
                let event = if on == stream { 0 } else { self.event(on) };
                self.line(&format!("wait {name:x} for ev{event:x}"));
                if merged {
                    let own = self.event(stream);
                    self.line(&format!("record ev{own:x} on {name:x}"));
                }
            }
            _ => {}
        }
    }

    fn merges(&mut self) -> i64 {
        let (pool, _) = self.pool();
        let statistics = pool.statistics();
        let merges = statistics.iter().find(|(name, _)| name == "merges");
        merges.expect("counted").1
    }

    fn alloc(&mut self, id: &str, bytes: u64, stream: StreamId) -> bool {
        if bytes == 0 {
            self.ids.insert(id.to_owned(), None);
            self.line("ptr 0");
            return true;
        }
        self.event(stream);
        let merges = self.merges();
        let request = Request {
            bytes,
            align: 1,
            stream,
            pool: 0,
            tag: 0,
        };
        let (pool, space) = self.pool();
        let answer = pool.alloc(&request, space);
        let merged = self.merges() > merges;
        self.calls(merged);
        let Ok(block) = answer else {
            return false;
        };
        let base = self.pool().1.base(block);
        self.line(&format!("ptr {base:x}"));
        self.ids.insert(id.to_owned(), Some(block));
        true
    }

    fn free(&mut self, id: &str, stream: StreamId) {
        let Some(held) = self.ids.remove(id) else {
            return self.line("none");
        };
        if let Some(block) = held {
            let event = self.event(stream);
            let name = u64::from(stream) * 0x1000;
            self.line(&format!("record ev{event:x} on {name:x}"));
            let (pool, space) = self.pool();
            pool.free(block, stream, false, space);
            self.calls(false);
        }
    }
}

#[test]
fn hand_written_scripts_are_equal_line_by_line() {
    let mut lines = 0;
    for (name, script, expected) in common::scripts("spec/rmm-scripts") {
        let mut bed = Bed::new(false);
        bed.run(&script);
        lines +=
            common::same_lines(&name, &expected, &bed.out).unwrap_or_else(|what| panic!("{what}"));
    }
    eprintln!("{lines} lines of scripts");
}

#[test]
fn random_programs_are_equal_line_by_line() {
    let Some(path) = common::shared("spec/rmm-corpus.jsonl.gz") else {
        return;
    };
    let (mut lines, mut programs) = (0, 0);
    let mut wrong = Vec::new();
    for row in common::gunzip(&path).lines() {
        let row: common::Program = serde_json::from_str(row).expect("a row of the corpus");
        let mut bed = Bed::new(row.events_descending);
        bed.run(&row.script.join("\n"));
        programs += 1;
        match common::same_lines(
            &format!("program {programs}"),
            &row.expected.join("\n"),
            &bed.out,
        ) {
            Ok(count) => lines += count,
            Err(what) => wrong.push(what),
        }
    }
    let shown = wrong
        .iter()
        .take(3)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(
        wrong.is_empty(),
        "{} of {programs} programs differ:\n{shown}",
        wrong.len()
    );
    assert!(lines > 30_000, "{lines} lines of {programs} programs");
    eprintln!("{lines} lines of {programs} programs");
}
