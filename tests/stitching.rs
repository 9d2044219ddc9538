//! Stitching: the steps carried out on a card of pages, and the claim of GMLake on
//! look-alikes of its workloads, the paper's figures and ours side by side.

use std::collections::HashMap;
use std::sync::Arc;

use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::observe::Row;
use vramlab::policy::Registry;
use vramlab::policy::registry::DEVICES;
use vramlab::replay::{Moment, Observer, Replay};
use vramlab::space::{BlockId, Device, SpaceConfig, Step, StepKind};
use vramlab::synth::Workload;
use vramlab::units::{format_bytes, format_ppm, ppm};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;

/// A card: what each page of addresses is mapped to, and whose data each physical page
/// holds.
#[derive(Default)]
struct Card {
    mapped: HashMap<u64, usize>,
    holds: Vec<Option<BlockId>>,
    stitched: u64,
    placed_on_aliases: u64,
    alias_pages: HashMap<u64, ()>,
}

impl Card {
    fn pages(step: &Step) -> impl Iterator<Item = u64> + use<> {
        (step.address..step.address + step.bytes).step_by(PAGE as usize)
    }

    fn carry_out(&mut self, step: &Step) {
        match step.kind {
            StepKind::Back(_) => {
                for page in Self::pages(step) {
                    let before = self.mapped.insert(page, self.holds.len());
                    assert_eq!(before, None, "a page is mapped twice at {page}");
                    self.holds.push(None);
                }
            }
            StepKind::Alias(_) => {
                self.stitched += 1;
                for (at, page) in Self::pages(step).enumerate() {
                    let physical = self.mapped[&(step.from + at as u64 * PAGE)];
                    let before = self.mapped.insert(page, physical);
                    assert_eq!(before, None, "a page is mapped twice at {page}");
                    self.alias_pages.insert(page, ());
                }
            }
            StepKind::Unback(_) | StepKind::Unalias(_) => {
                for page in Self::pages(step) {
                    let physical = self.mapped.remove(&page).expect("it was mapped");
                    self.alias_pages.remove(&page);
                    if matches!(step.kind, StepKind::Unback(_)) {
                        assert_eq!(self.holds[physical], None, "a page in use goes");
                        let aliased = self.mapped.values().any(|other| *other == physical);
                        assert!(!aliased, "a page goes that an alias maps");
                    }
                }
            }
            StepKind::Place(block) => {
                self.placed_on_aliases +=
                    u64::from(self.alias_pages.contains_key(&step.address));
                self.hand_over(step, None, Some(block));
            }
            StepKind::Release(block) => self.hand_over(step, Some(block), None),
            _ => {}
        }
    }

    fn hand_over(&mut self, step: &Step, from: Option<BlockId>, to: Option<BlockId>) {
        for page in Self::pages(step) {
            if let Some(physical) = self.mapped.get(&page) {
                let held = std::mem::replace(&mut self.holds[*physical], to);
                assert_eq!(held, from, "the data of a page at {page}");
            }
        }
    }
}

impl Observer for Card {
    fn see(&mut self, moment: &Moment<'_>) {
        for step in moment.space.steps() {
            self.carry_out(step);
        }
    }
}

fn churn(smallest: &str, largest: &str, live: u64) -> Workload {
    let text = format!(
        "about = \"a\"\nsource = \"b\"\nevents = 6000\n[workload.churn]\nlive = {live}\n\
         smallest_bytes = \"{smallest}\"\nlargest_bytes = \"{largest}\"\n"
    );
    Workload::from_toml("churn", &text).expect("a workload")
}

#[test]
fn a_page_is_used_in_one_place_at_a_time_when_the_steps_are_carried_out() {
    let registry = Registry::default();
    for (spec, aliases) in [
        ("stitching-all", true),
        ("stitching:fragment_limit=16MiB", true),
        ("stitching-all:on_shortage=true,keep_split=false", true),
        ("stitching-all:stitched_limit=1GiB", true),
        ("stitching-pages", false),
    ] {
        let chosen = registry.find(spec).expect("a policy");
        let policy = registry.build(&chosen).expect("a policy");
        let mut config = SpaceConfig::bare(3 << 30);
        let mut device = Device::bare(3 << 30);
        device.page_bytes = PAGE;
        config.device = Arc::new(device);
        config.record_steps = true;
        let mut replay = Replay::new(policy, config).expect("it starts");
        let trace = churn("1MiB", "256MiB", 50).trace(11);
        let mut card = Card::default();
        replay.feed(&trace.events, &trace.times_ns, &mut card);
        assert_eq!(card.placed_on_aliases > 0, aliases, "{spec}");
        assert_eq!(card.stitched > 0, aliases, "{spec}");
        let (served, failed) = (replay.totals().served, replay.totals().failed);
        assert!(served > 2500, "{spec}: {served} served, {failed} not");
    }
}

/// A look-alike, the fragment limit of stitching, and the paper's efficiencies.
struct Case {
    name: &'static str,
    text: String,
    seed: u64,
    paper: Option<(u64, u64)>,
}

fn finetune(change: &[(&str, &str)]) -> String {
    let base = include_str!("../traces/synthetic/finetune-opt-1.3b.toml").to_owned();
    let changed = change.iter().fold(base, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    // Four steps are enough: from the second on a step asks for what the last one did.
    changed.replace("events = 60000", "events = 30000")
}

fn cases() -> Vec<Case> {
    let case = |name, change: &[(&str, &str)], paper| Case {
        name,
        text: finetune(change),
        seed: 1,
        paper,
    };
    vec![
        case("OPT 1.3B, LoRA, recompute, ZeRO-3", &[], Some((640_000, 880_000))),
        case("same, padded to the longest text", &[("shortest = 512", "shortest = 256")], None),
        case("OPT 1.3B, recompute, ZeRO-3", &[("lora = 128", "lora = 0"), ("shortest = 512", "shortest = 256")], None),
        case("OPT 1.3B, LoRA, recompute", &[("ranks = 4", "ranks = 1"), ("shortest = 512", "shortest = 256")], None),
        case("OPT 1.3B, LoRA, ZeRO-3", &[("recompute = true", "recompute = false"), ("batch = 160", "batch = 16"), ("shortest = 512", "shortest = 256")], None),
    ]
}

fn row(case: &Case, policy: &str) -> Row {
    let registry = Registry::default();
    let (_, body) = DEVICES.iter().find(|(name, _)| *name == "h200").expect("h200");
    let device = Arc::new(Device::from_toml(body).expect("a device"));
    let workload = Workload::from_toml(case.name, &case.text).expect("a workload");
    let scene = Scene::new(workload.trace(case.seed), device, Wanted::Bytes(80 << 30));
    let watch = Watch {
        map: false,
        progress: &|_| {},
        extra: (),
    };
    let chosen = registry.find(policy).expect("a policy");
    match run_cell(&scene, &registry, &chosen, watch).expect("it builds") {
        Ended::Replayed(seen) => seen.row,
        ended => panic!("{policy}: {ended:?}"),
    }
}

/// Active by reserved, each at its peak, as PyTorch's memory summary tells them.
fn efficiency(row: &Row) -> u64 {
    ppm(row.peak_occupied_bytes, row.peak_reserved_bytes)
}

#[test]
fn stitching_saves_fragmentation_on_look_alikes() {
    let mut saved = Vec::new();
    for case in cases() {
        for policy in ["pytorch", "stitching:fragment_limit=256MiB", "stitching-all", "pytorch-expandable"] {
            let row = row(&case, policy);
            println!(
                "{:36} {policy:34} active {:>10} reserved {:>10} {} failed {} calls {} cost {}",
                case.name,
                format_bytes(row.peak_occupied_bytes),
                format_bytes(row.peak_reserved_bytes),
                format_ppm(efficiency(&row)),
                row.failed, row.driver_calls, row.cost_ns,
            );
            saved.push(efficiency(&row));
        }
    }
}
