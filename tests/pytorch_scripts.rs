//! The policy `pytorch` against what the official library answered: hand-written scripts
//! and random programs, every line equal.

mod common;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use vramlab::policy::Policy;
use vramlab::policy::pytorch::stats::{Stat, Stats3};
use vramlab::policy::pytorch::{PyTorch, Spec, Version};
use vramlab::space::{
    AddressOrder, Bench, BlockId, Device, Request, Space, SpaceConfig, State, StepKind,
};
use vramlab::trace::{PoolStep, StreamId};
use vramlab::units::{GIB, KIB, MIB};

/// Whom an address belongs to.
#[derive(Clone, Copy)]
struct Owner {
    end: u64,
    pool: u16,
    stream: StreamId,
}

/// Runs a script and prints what the official library prints.
struct Bed {
    policy: PyTorch,
    space: Space,
    total: u64,
    fraction: f64,
    down: bool,
    version: Version,
    /// `None`: named by `rec` before it existed, which makes a null pointer of it.
    ids: HashMap<String, Option<BlockId>>,
    pools: Vec<(u64, u64)>,
    routes: Vec<u16>,
    requested: HashMap<u64, u64>,
    owners: BTreeMap<u64, Owner>,
    last_conf: String,
    history: Option<(usize, VecDeque<&'static str>)>,
    out: String,
}

fn size(text: &str) -> u64 {
    let (number, scale) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], KIB),
        Some(b'M') => (&text[..text.len() - 1], MIB),
        Some(b'G') => (&text[..text.len() - 1], GIB),
        _ => (text, 1),
    };
    number.parse::<u64>().expect("a size") * scale
}

/// The handle that the bench gives stream `number`.
fn handle(number: u16) -> u64 {
    if number == 0 {
        0
    } else {
        0x10000 + 0x100 * u64::from(number)
    }
}

/// Amounts as PyTorch's message prints them.
fn amount(bytes: u64) -> String {
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    if bytes <= KIB {
        format!("{bytes} bytes")
    } else if bytes <= MIB {
        format!("{:.2} KiB", scaled(KIB))
    } else if bytes <= GIB {
        format!("{:.2} MiB", scaled(MIB))
    } else {
        format!("{:.2} GiB", scaled(GIB))
    }
}

impl Bed {
    fn new(version: Version, down: bool) -> Self {
        let (policy, space) = Self::fresh(version, down, GIB);
        Bed {
            policy,
            space,
            total: GIB,
            fraction: 1.0,
            down,
            version,
            ids: HashMap::new(),
            pools: vec![(0, 0)],
            routes: Vec::new(),
            requested: HashMap::new(),
            owners: BTreeMap::new(),
            last_conf: String::new(),
            history: None,
            out: String::new(),
        }
    }

    fn fresh(version: Version, down: bool, total: u64) -> (PyTorch, Space) {
        let bench = Bench {
            from: 0x7f00_0000_0000,
            down,
            gap_bytes: 0,
            reserve_from: 0x3_0000_0000,
        };
        let mut space = Space::new(SpaceConfig {
            device: Arc::new(Device::bare(total)),
            capacity_bytes: total,
            blind: false,
            streams: 16,
            addresses: AddressOrder::Bench(bench),
            record_steps: true,
        });
        space.name_streams(&(0..16).map(handle).collect::<Vec<u64>>());
        let mut policy = PyTorch::new(&Spec {
            conf: String::new(),
            version,
        })
        .expect("valid");
        policy.set_events_over(true);
        policy
            .start(&mut space)
            .expect("nothing is taken at the start");
        (policy, space)
    }

    fn line(&mut self, line: &str) {
        writeln!(self.out, "  {line}").expect("memory");
    }

    fn note(&mut self, kind: &'static str) {
        if let Some((most, kinds)) = &mut self.history {
            kinds.push_back(kind);
            if kinds.len() > *most {
                kinds.pop_front();
            }
        }
    }

    fn event(&mut self, kind: &'static str, address: u64, bytes: u64, owner: Owner) {
        let pool = match self.pools[usize::from(owner.pool)] {
            (0, 0) => String::new(),
            (a, b) => format!(" pool=({a},{b})"),
        };
        self.note(kind);
        let stream = handle(owner.stream);
        self.line(&format!(
            "{kind} addr=0x{address:x} size={bytes} stream={stream}{pool}"
        ));
    }

    fn owner(&self, address: u64) -> Option<Owner> {
        let (_, owner) = self.owners.range(..=address).next_back()?;
        (address < owner.end).then_some(*owner)
    }

    /// Prints the steps of the last call, for `by` where they made a segment.
    fn steps(&mut self, by: Owner) {
        let steps = self.space.steps().to_vec();
        self.space.begin_event(self.space.event() + 1, 0);
        for step in steps {
            let kind = match step.kind {
                StepKind::Map(_) | StepKind::Reserve(_) => {
                    let owner = Owner {
                        end: step.address + step.bytes,
                        ..by
                    };
                    self.owners.insert(step.address, owner);
                    if let StepKind::Reserve(_) = step.kind {
                        continue;
                    }
                    "segment_alloc"
                }
                StepKind::Unmap(_) => "segment_free",
                StepKind::Back(_) => "segment_map",
                StepKind::Unback(_) => "segment_unmap",
                StepKind::Release(_) => {
                    let requested = self.requested[&step.address];
                    let owner = self.owner(step.address).expect("freed in a segment");
                    self.event("free_completed", step.address, requested, owner);
                    continue;
                }
                _ => continue,
            };
            let owner = self.owner(step.address).expect("inside a segment");
            self.event(kind, step.address, step.bytes, owner);
        }
    }

    fn alloc(&mut self, id: &str, bytes: u64, stream: u16) {
        let pool = self.routes.last().copied().unwrap_or(0);
        let by = Owner {
            end: 0,
            pool,
            stream,
        };
        if bytes == 0 {
            return;
        }
        let request = Request {
            bytes,
            align: 1,
            stream,
            pool: 0,
            tag: 0,
        };
        match self.policy.alloc(&request, &mut self.space) {
            Ok(block) => {
                self.steps(by);
                let address = self.space.base(block);
                self.requested.insert(address, bytes);
                let owner = Owner {
                    stream,
                    ..self.owner(address).expect("inside a segment")
                };
                self.event("alloc", address, bytes, owner);
                self.ids.insert(id.to_owned(), Some(block));
            }
            Err(shortage) => {
                self.steps(by);
                let free = self.total - self.space.counters().reserved_bytes;
                self.event("oom", free, shortage.wanted_bytes, by);
                let text = self.shortage_text(shortage.wanted_bytes, free);
                self.line(&format!("EXC {text}"));
            }
        }
    }

    fn shortage_text(&self, rounded: u64, free: u64) -> String {
        let options = self.policy.options();
        let reserved = self.space.counters().reserved_bytes;
        let allocated = self.policy.statistics().allocated_bytes.all.current as u64;
        let private: u64 = self
            .space
            .walk()
            .filter(|block| self.space.state(*block) == State::Free)
            .filter(|block| self.policy.pool_of(*block) != 0)
            .map(|block| self.space.bytes(block))
            .sum();
        let allowed = if self.fraction < 1.0 {
            format!(
                "{} allowed; ",
                amount((self.fraction * self.total as f64) as u64)
            )
        } else {
            String::new()
        };
        let in_pools = if private > 0 {
            format!(
                ", with {} allocated in private pools (e.g., CUDA Graphs)",
                amount(private)
            )
        } else {
            String::new()
        };
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which \
             {} is free. {allowed}Of the allocated memory {} is allocated by PyTorch{in_pools}, \
             and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory is \
             large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid \
             fragmentation.  See documentation for Memory Management  \
             (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)\n",
            amount(options.segment_bytes(rounded)),
            amount(self.total),
            amount(free),
            amount(allocated + private),
            amount(reserved - allocated - private),
        )
    }

    fn free(&mut self, id: &str) {
        let block = match self.ids.remove(id) {
            Some(Some(block)) => block,
            Some(None) => return,
            None => return self.line("(no such id)"),
        };
        let address = self.space.base(block);
        let owner = self.owner(address).expect("inside a segment");
        self.event("free_requested", address, self.requested[&address], owner);
        self.policy
            .free(block, owner.stream, false, &mut self.space);
        self.steps(owner);
    }

    fn pool(&mut self, a: &str, b: &str) -> u16 {
        let id = (a.parse().expect("a number"), b.parse().expect("a number"));
        if let Some(at) = self.pools.iter().position(|known| *known == id) {
            return at as u16;
        }
        self.pools.push(id);
        (self.pools.len() - 1) as u16
    }

    fn conf(&mut self, text: &str) {
        self.last_conf = text.to_owned();
        if let Err(what) = self.policy.options_mut().parse(text) {
            self.line(&format!("EXC option refused: {what}"));
        }
    }

    fn limits(&mut self) {
        let cap = (self.fraction < 1.0).then_some((self.fraction * self.total as f64) as u64);
        self.policy.set_cap(cap);
    }

    fn run(&mut self, script: &str) {
        for line in script.lines() {
            if line.is_empty() || line.starts_with('#') {
                writeln!(self.out, "{line}").expect("memory");
                continue;
            }
            writeln!(self.out, "> {line}").expect("memory");
            let words: Vec<&str> = line.split_whitespace().collect();
            self.command(&words);
        }
    }

    fn command(&mut self, words: &[&str]) {
        match words {
            ["total" | "limit", bytes] => {
                self.total = size(bytes);
                (self.policy, self.space) = Self::fresh(self.version, self.down, self.total);
                self.limits();
            }
            ["frac", fraction] => {
                self.fraction = fraction.parse().expect("a number");
                self.limits();
            }
            ["conf", text] => self.conf(text),
            ["a", id, bytes] => self.alloc(id, size(bytes), 0),
            ["a", id, bytes, stream] => {
                self.alloc(id, size(bytes), stream.parse().expect("a stream"));
            }
            ["f", ids @ ..] => ids.iter().for_each(|id| self.free(id)),
            ["rec", id, stream] => {
                if let Some(block) = *self.ids.entry((*id).to_owned()).or_default() {
                    let stream = Some(stream.parse().expect("a stream"));
                    self.policy.use_on(block, stream, &mut self.space);
                }
            }
            ["events", over] => self.policy.set_events_over(*over == "1"),
            ["empty"] => {
                self.policy.trim(&mut self.space);
                self.steps(Owner {
                    end: 0,
                    pool: 0,
                    stream: 0,
                });
            }
            ["st"] => self.statistics(),
            ["snap"] => self.snapshot(),
            ["hist", _, most] => {
                self.history = Some((most.parse().expect("a number"), VecDeque::new()));
            }
            ["rounddiv", bytes] => {
                let divisions = self.policy.options().divisions_for(size(bytes));
                self.line(&format!("div={divisions}"));
            }
            ["divs"] => {
                let divisions = self.policy.options().roundup_divisions;
                let text: Vec<String> = divisions.iter().map(u64::to_string).collect();
                writeln!(self.out, " {}", text.join(" ")).expect("memory");
            }
            [step, a, b, rest @ ..] => {
                let pool = self.pool(a, b);
                self.pool_command(step, pool, rest);
            }
            _ => panic!("a command that the bench does not know: {words:?}"),
        }
    }

    fn pool_command(&mut self, step: &str, pool: u16, rest: &[&str]) {
        match step {
            "begin" => {
                self.routes.push(pool);
                self.policy.pool(PoolStep::Begin, pool, 0, &mut self.space);
            }
            "end" => {
                let at = self.routes.iter().rposition(|routed| *routed == pool);
                self.routes.remove(at.expect("begun"));
                self.policy.pool(PoolStep::End, pool, 0, &mut self.space);
            }
            "release" => self
                .policy
                .pool(PoolStep::Release, pool, 0, &mut self.space),
            "createpool" => self.policy.create_pool(pool),
            "nosplit" => self.policy.set_no_split(pool),
            "useoom" => self.policy.set_use_on_oom(pool, rest == ["1"]),
            _ => panic!("a command that the bench does not know: {step}"),
        }
    }

    fn statistics(&mut self) {
        let s = *self.policy.statistics();
        let rows: [(&str, Stats3); 9] = [
            ("allocation", s.allocation),
            ("segment", s.segment),
            ("active", s.active),
            ("inactive_split", s.inactive_split),
            ("allocated_bytes", s.allocated_bytes),
            ("reserved_bytes", s.reserved_bytes),
            ("active_bytes", s.active_bytes),
            ("inactive_split_bytes", s.inactive_split_bytes),
            ("requested_bytes", s.requested_bytes),
        ];
        for (name, row) in rows {
            let Stat {
                current,
                peak,
                allocated,
                freed,
            } = row.all;
            self.line(&format!(
                "{name}: all cur={current} peak={peak} alloc={allocated} freed={freed} | small {} \
                 large {}",
                row.small.current, row.large.current
            ));
        }
        let used = self.space.counters().reserved_bytes;
        self.line(&format!(
            "retries={} ooms={} sync={} dalloc={} dfree={} oversz_alloc={} oversz_seg={} \
             max_split=-1 devused={used}",
            s.num_alloc_retries,
            s.num_ooms,
            s.num_sync_all_streams,
            s.num_device_alloc,
            s.num_device_free,
            s.oversize_allocations.current,
            s.oversize_segments.current,
        ));
    }

    fn snapshot(&mut self) {
        let active = self.policy.statistics().active_bytes.all.current;
        self.line(&format!("snapshot addr=0x0 size={active} stream=0"));
        let mut runs: BTreeMap<u64, Vec<BlockId>> = BTreeMap::new();
        for segment in self.space.segments() {
            let mut from = None;
            for block in self.space.blocks(segment) {
                if self.space.state(block) == State::Unmapped {
                    from = None;
                    continue;
                }
                let base = *from.get_or_insert(self.space.base(block));
                runs.entry(base).or_default().push(block);
            }
        }
        for (base, blocks) in runs {
            let text = self.segment_text(base, &blocks);
            self.line(&text);
        }
        let options = self.policy.options();
        let max_split = if options.max_split_bytes == u64::MAX {
            -1
        } else {
            options.max_split_bytes as i64
        };
        self.line(&format!(
            "md max_split={max_split} gc={} exp={} last='{}'",
            options.gc_threshold,
            u8::from(options.expandable_segments),
            self.last_conf
        ));
        let kinds: Vec<&str> = self
            .history
            .iter()
            .flat_map(|(_, kinds)| kinds.iter().copied())
            .collect();
        let text = format!("trace n={}: {}", kinds.len(), kinds.join(" "));
        self.line(text.trim_end());
        self.note("snapshot");
    }

    fn segment_text(&self, base: u64, blocks: &[BlockId]) -> String {
        let (mut total, mut allocated, mut active, mut requested) = (0, 0, 0, 0);
        let mut parts = Vec::new();
        for block in blocks {
            let (bytes, asked) = (
                self.space.bytes(*block),
                self.policy.requested_bytes(*block),
            );
            total += bytes;
            let mark = match self.space.state(*block) {
                State::Used => 'A',
                State::Pending => 'P',
                _ => 'f',
            };
            if mark != 'f' {
                active += bytes;
                requested += asked;
            }
            if mark == 'A' {
                allocated += bytes;
            }
            parts.push(format!("{bytes}/{asked}{mark}"));
        }
        let first = blocks[0];
        let kind = if self.policy.is_small(first) {
            "small"
        } else {
            "large"
        };
        let expandable = self.space.segment_page(self.space.segment(first)).is_some();
        let exp = if expandable { " exp" } else { "" };
        let (a, b) = self.pools[usize::from(self.policy.pool_of(first))];
        let stream = handle(self.policy.stream_of(first));
        format!(
            "seg 0x{base:x} total={total} alloc={allocated} active={active} req={requested} \
             stream={stream} {kind}{exp} pool=({a},{b}) : {}",
            parts.join(" ")
        )
    }
}

/// Compares line by line; the first difference is told with its place.
fn compare(name: &str, expected: &str, got: &str, brief: bool) -> Result<usize, String> {
    let clean = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.trim_end())
            .map(|line| {
                // The library's words for a refused option are its own.
                let shortage = line.starts_with("  EXC CUDA out of memory");
                let said = line.starts_with("  EXC") && (brief || !shortage);
                if said {
                    "  EXC".into()
                } else {
                    line.to_owned()
                }
            })
            .filter(|line| !(brief && (line.starts_with("  md") || line.starts_with("  trace n="))))
            .filter(|line| !line.is_empty())
            .collect()
    };
    let (expected, got) = (clean(expected), clean(got));
    for (at, (want, have)) in expected.iter().zip(&got).enumerate() {
        if want != have {
            let from = at.saturating_sub(6);
            let before = got[from..at].join("\n");
            return Err(format!(
                "{name}, line {}:\n{before}\n- {want}\n+ {have}",
                at + 1
            ));
        }
    }
    if expected.len() != got.len() {
        return Err(format!(
            "{name}: {} lines expected, {} printed",
            expected.len(),
            got.len()
        ));
    }
    Ok(expected.len())
}

/// Scripts that show undefined behaviour of the library: the model differs on purpose.
const UNDEFINED: [&str; 2] = [
    "39_bug_expandable_private_pool_count",
    "40_bug_release_split_oversize",
];

#[test]
fn hand_written_scripts_are_equal_line_by_line() {
    let Some(folder) = common::shared("spec/pytorch-scripts") else {
        return;
    };
    let mut names: Vec<String> = std::fs::read_dir(folder.clone())
        .expect("a folder")
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .strip_suffix(".txt")
                .map(Into::into)
        })
        .collect();
    names.sort();
    let (mut lines, mut wrong) = (0, Vec::new());
    for name in names
        .iter()
        .filter(|name| !UNDEFINED.contains(&name.as_str()))
    {
        let script = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a script");
        let expected = std::fs::read_to_string(folder.join(format!("{name}.out"))).expect("lines");
        let down = script.contains("STUB_DOWN=1");
        let mut bed = Bed::new(Version::V2_11, down);
        bed.run(&script);
        match compare(name, &expected, &bed.out, false) {
            Ok(count) => lines += count,
            Err(what) => wrong.push(what),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        names.len(),
        wrong.join("\n\n")
    );
    assert!(lines > 1000, "{lines} lines compared");
}

#[derive(serde::Deserialize)]
struct Program {
    torch: String,
    seed: u64,
    descending_addresses: bool,
    script: String,
    expected: Vec<String>,
}

#[test]
fn random_programs_are_equal_line_by_line() {
    let Some(path) = common::shared("spec/pytorch-corpus.jsonl.gz") else {
        return;
    };
    let (mut lines, mut programs, mut wrong) = (0, 0, Vec::new());
    for row in common::gunzip(&path).lines() {
        let program: Program = serde_json::from_str(row).expect("a row of the corpus");
        let version = match program.torch.as_str() {
            "2.11.0" => Version::V2_11,
            "2.12.0" => Version::V2_12,
            _ => Version::V2_13,
        };
        let mut bed = Bed::new(version, program.descending_addresses);
        bed.run(&program.script);
        let name = format!("{} seed {}", program.torch, program.seed);
        programs += 1;
        match compare(&name, &program.expected.join("\n"), &bed.out, true) {
            Ok(count) => lines += count,
            Err(what) => wrong.push(what),
        }
    }
    let shown = wrong
        .iter()
        .take(4)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(
        wrong.is_empty(),
        "{} of {programs} programs differ:\n{shown}",
        wrong.len()
    );
    assert!(lines > 100_000, "{lines} lines compared");
}
