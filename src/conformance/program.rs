//! Random programs from raw ChaCha8 words: every kind of event, under pressure.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trace::{ANY_STREAM, Event, PoolStep, Slot, StreamId};

/// A program, and the card that it is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The seed that it was made from.
    pub seed: u64,
    /// What may be reserved, in bytes.
    pub capacity_bytes: u64,
    /// The card's page, in bytes.
    pub page_bytes: u64,
    /// How many streams it names.
    pub streams: usize,
    /// The events; at the end everything is freed.
    pub events: Vec<Event>,
    /// Their times, ns.
    pub times_ns: Vec<u64>,
}

/// Small and large, powers of two and not, multiples of 256 and not.
const CAPACITIES: [u64; 8] = [
    4096,
    10_000,
    65_536,
    (1 << 20) + 768,
    24 << 20,
    (200 << 20) + 512,
    1 << 30,
    255,
];
const PAGES: [u64; 2] = [1, 2 << 20];
const MINUTE_NS: u64 = 60_000_000_000;

impl Program {
    /// The program of `seed`, of about `length` events and what frees the rest.
    #[must_use]
    pub fn new(seed: u64, length: usize) -> Self {
        let mut words = Words(ChaCha8Rng::seed_from_u64(seed));
        let capacity_bytes = CAPACITIES[(seed % CAPACITIES.len() as u64) as usize];
        let page_bytes = PAGES[words.below(PAGES.len() as u64) as usize];
        let streams = 1 + words.below(3) as usize;
        let mut writer = Writer {
            words,
            program: Program {
                seed,
                capacity_bytes,
                page_bytes,
                streams,
                events: Vec::new(),
                times_ns: Vec::new(),
            },
            live: Vec::new(),
            pending: Vec::new(),
            spare: Vec::new(),
            slots: 0,
            asked_bytes: 0,
            filling: true,
            in_pool: false,
            now_ns: 0,
        };
        while writer.program.events.len() < length {
            writer.step();
        }
        writer.finish();
        writer.program
    }
}

/// Own sampling over the raw words.
struct Words(ChaCha8Rng);

impl Words {
    /// A number below `limit`, by the high half of a product.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

struct Writer {
    words: Words,
    program: Program,
    /// Slots that hold a request, with its bytes where they count as pressure.
    live: Vec<(Slot, u64)>,
    pending: Vec<Slot>,
    spare: Vec<Slot>,
    slots: Slot,
    asked_bytes: u64,
    filling: bool,
    in_pool: bool,
    now_ns: u64,
}

impl Writer {
    fn push(&mut self, event: Event) {
        self.now_ns += match self.words.below(40) {
            0 => self.words.below(10 * MINUTE_NS),
            _ => self.words.below(100_000),
        };
        self.program.events.push(event);
        self.program.times_ns.push(self.now_ns);
    }

    fn stream(&mut self) -> StreamId {
        self.words.below(self.program.streams as u64) as StreamId
    }

    fn step(&mut self) {
        let capacity = self.program.capacity_bytes;
        if self.asked_bytes > capacity + capacity / 8 {
            self.filling = false;
        } else if self.asked_bytes < capacity / 3 {
            self.filling = true;
        }
        if self.words.below(100) >= 78 {
            return self.other();
        }
        let allocs = if self.filling { 75 } else { 25 };
        if self.live.is_empty() || self.words.below(100) < allocs {
            self.alloc();
        } else {
            self.free();
        }
    }

    fn bytes(&mut self) -> u64 {
        let capacity = self.program.capacity_bytes;
        match self.words.below(24) {
            0 => 0,
            1 => u64::MAX - self.words.below(600),
            2 => capacity / 2 + self.words.below(capacity),
            3..=9 => 1 + self.words.below(1024),
            10..=13 => 256 * (1 + self.words.below(8)),
            14..=17 => 1 << self.words.below(u64::from(capacity.ilog2())),
            18..=19 => capacity / 8,
            _ => 1 + self.words.below(capacity / 6 + 1),
        }
    }

    fn align_log2(&mut self) -> u8 {
        if self.words.one_in(7) {
            self.words.below(14) as u8
        } else {
            0
        }
    }

    fn alloc(&mut self) {
        let bytes = self.bytes();
        let align_log2 = self.align_log2();
        let stream = self.stream();
        let pool = u16::from(self.in_pool);
        if self.words.one_in(20) {
            return self.push(Event::Attempt {
                bytes,
                align_log2,
                stream,
                pool,
                tag: 0,
            });
        }
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        let counted = if bytes > self.program.capacity_bytes {
            0
        } else {
            bytes
        };
        self.asked_bytes += counted;
        self.live.push((slot, counted));
        self.push(Event::Alloc {
            slot,
            bytes,
            align_log2,
            stream,
            pool,
            tag: 0,
        });
    }

    fn free(&mut self) {
        let at = self.words.below(self.live.len() as u64) as usize;
        let (slot, counted) = self.live.swap_remove(at);
        self.asked_bytes -= counted;
        let stream = self.stream();
        let deferred = self.words.one_in(6);
        if deferred {
            self.push(Event::Use { slot, stream });
            self.pending.push(slot);
        } else {
            self.spare.push(slot);
        }
        let stream = self.stream();
        self.push(Event::Free {
            slot,
            stream,
            deferred,
        });
    }

    /// A slot that holds a request, or one that never did.
    fn some_slot(&mut self) -> Slot {
        match self.live.len() as u64 {
            0 => self.slots,
            live => self.live[self.words.below(live) as usize].0,
        }
    }

    fn other(&mut self) {
        let (stream, event) = (self.stream(), self.words.below(4) as u32);
        let pool_step = |step| Event::Pool {
            step,
            pool: 1,
            stream,
        };
        let next = match self.words.below(15) {
            0 => Event::FreeAgain { id: 7 },
            1 => Event::FreeUnknown { id: 9 },
            2 => Event::FreeAt {
                address: self.words.below(self.program.capacity_bytes * 5 / 4),
            },
            3 => {
                let slot = self.some_slot();
                Event::Use { slot, stream }
            }
            4 => Event::Record { stream, event },
            5 => Event::Wait { stream, event },
            6 => Event::Sync { stream },
            7 => Event::Sync { stream: ANY_STREAM },
            8 => Event::Pin {
                slot: self.some_slot(),
            },
            9 => Event::Unpin {
                slot: self.some_slot(),
            },
            10 => Event::Compact,
            11 => Event::Trim,
            12 => Event::Mark { label: 0 },
            13 => {
                self.in_pool = !self.in_pool;
                pool_step(if self.in_pool {
                    PoolStep::Begin
                } else {
                    PoolStep::End
                })
            }
            _ => match self.pending.pop() {
                Some(slot) => {
                    self.spare.push(slot);
                    Event::Complete { slot }
                }
                None => return,
            },
        };
        self.push(next);
    }

    /// Gives everything back.
    fn finish(&mut self) {
        if self.in_pool {
            self.push(Event::Pool {
                step: PoolStep::End,
                pool: 1,
                stream: 0,
            });
        }
        for slot in std::mem::take(&mut self.pending) {
            self.push(Event::Complete { slot });
        }
        while let Some((slot, _)) = self.live.pop() {
            let stream = self.stream();
            self.push(Event::Free {
                slot,
                stream,
                deferred: false,
            });
        }
        self.push(Event::Pool {
            step: PoolStep::Release,
            pool: 1,
            stream: 0,
        });
        self.push(Event::Sync { stream: ANY_STREAM });
        self.push(Event::Trim);
    }
}
