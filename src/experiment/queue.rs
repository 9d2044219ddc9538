//! Who runs what next.
//!
//! Every worker opens a reading and runs its cells; when no reading is left unopened, it
//! helps with those that others have open. So no more readings are in memory than there are
//! workers, a trace is read once, and all are busy until the last cell. What takes long
//! comes first: readings of sources with many events, policies that were slow so far; what
//! was never run comes before them, so that it is known. The order changes no result.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::plan::{Cell, Reading};
use crate::trace::Trace;

/// A trace with what all its cells share.
#[derive(Debug)]
pub(super) struct Opened {
    pub reading: Reading,
    pub trace: Arc<Trace>,
    pub bound_bytes: u64,
    /// The smallest capacities that were found, by card and policy.
    pub fits: Mutex<BTreeMap<(usize, usize), Option<u64>>>,
}

/// What a worker is to do.
pub(super) enum Task {
    /// Read or make a trace.
    Open(Reading),
    /// Run a cell.
    Run(Arc<Opened>, Cell),
    /// Nothing is left.
    Stop,
}

/// A reading with its cells that wait.
struct Waiting {
    reading: Reading,
    cells: Vec<Cell>,
}

struct Shelf {
    opened: Arc<Opened>,
    cells: Vec<Cell>,
}

#[derive(Default)]
struct State {
    /// By source: readings that nobody has opened.
    unopened: Vec<VecDeque<Waiting>>,
    /// Events of a trace of each source, once one is known.
    events: Vec<Option<u64>>,
    /// Nanoseconds an event of each policy, once one is known.
    event_ns: Vec<Option<f64>>,
    /// Readings whose trace is being read, with their cells.
    opening: Vec<Waiting>,
    /// Readings with cells that nobody has begun.
    shelves: Vec<Shelf>,
    stopped: bool,
}

/// The cells that are to be run, and what is known about what they take.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// All of `cells`, of so many sources and policies.
    pub fn new(cells: &[Cell], sources: usize, policies: usize) -> Self {
        let mut unopened: Vec<VecDeque<Waiting>> = Vec::new();
        unopened.resize_with(sources, VecDeque::new);
        for cells in cells.chunk_by(|a, b| a.reading == b.reading) {
            let reading = cells[0].reading;
            unopened[reading.source].push_back(Waiting {
                reading,
                cells: cells.to_vec(),
            });
        }
        Queue {
            state: Mutex::new(State {
                unopened,
                events: vec![None; sources],
                event_ns: vec![None; policies],
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no worker panics with the queue in hand")
    }

    /// What a worker does next; `own` is the reading that it opened last. Waits where all
    /// that is left is being opened by others.
    pub fn next(&self, own: Option<Reading>) -> Task {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Task::Stop;
            }
            if let Some(task) = state.task(own) {
                return task;
            }
            if state.opening.is_empty() {
                return Task::Stop;
            }
            let woken = self.changed.wait(state);
            state = woken.expect("no worker panics with the queue in hand");
        }
    }

    /// A reading's trace is there.
    pub fn opened(&self, opened: Opened) {
        let mut state = self.lock();
        let place = state
            .opening
            .iter()
            .position(|waiting| waiting.reading == opened.reading);
        let waiting = state.opening.remove(place.expect("it is being opened"));
        state.events[opened.reading.source] = Some(opened.trace.events.len() as u64);
        state.shelves.push(Shelf {
            opened: Arc::new(opened),
            cells: waiting.cells,
        });
        self.changed.notify_all();
    }

    /// A cell took so long.
    pub fn took(&self, cell: &Cell, events: usize, time: Duration) {
        let event_ns = time.as_nanos() as f64 / events.max(1) as f64;
        self.lock().event_ns[cell.policy] = Some(event_ns);
    }

    /// Nothing more is begun.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

impl State {
    fn task(&mut self, own: Option<Reading>) -> Option<Task> {
        if let Some(place) = self.shelf_of(own) {
            return Some(self.cell_of(place));
        }
        if let Some(reading) = self.open_next() {
            return Some(Task::Open(reading));
        }
        // Help where most is left.
        let fullest = (0..self.shelves.len()).max_by_key(|at| self.shelves[*at].cells.len());
        fullest.map(|place| self.cell_of(place))
    }

    fn shelf_of(&self, own: Option<Reading>) -> Option<usize> {
        let own = own?;
        self.shelves
            .iter()
            .position(|shelf| shelf.opened.reading == own)
    }

    /// Takes the longest cell of a shelf; an empty shelf goes, and its trace with the last cell.
    fn cell_of(&mut self, place: usize) -> Task {
        let shelf = &mut self.shelves[place];
        let length = |cell: &Cell| self.event_ns[cell.policy].unwrap_or(f64::INFINITY);
        let longest = (0..shelf.cells.len())
            .max_by(|a, b| length(&shelf.cells[*a]).total_cmp(&length(&shelf.cells[*b])));
        let cell = shelf.cells.remove(longest.expect("a shelf has cells"));
        let opened = Arc::clone(&shelf.opened);
        if shelf.cells.is_empty() {
            self.shelves.remove(place);
        }
        Task::Run(opened, cell)
    }

    /// The next reading of the source with the most events; one of a source that is not
    /// known yet comes first.
    fn open_next(&mut self) -> Option<Reading> {
        let waiting = (0..self.unopened.len()).filter(|at| !self.unopened[*at].is_empty());
        let source = waiting.max_by_key(|at| self.events[*at].unwrap_or(u64::MAX))?;
        let waiting = self.unopened[source].pop_front()?;
        let reading = waiting.reading;
        self.opening.push(waiting);
        Some(reading)
    }
}
