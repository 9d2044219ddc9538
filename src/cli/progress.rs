//! A bar on a terminal, for what takes longer than a moment.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done before this is not worth a bar.
const A_MOMENT: Duration = Duration::from_millis(500);

/// What a bar counts.
const EVENTS: &str = "{percent} % of {human_len} events, {eta} to go {wide_bar}";
const CELLS: &str = "{human_pos} of {human_len} cells, {eta} to go {wide_bar}";

const WORDS: &str = "{spinner} {wide_msg}";

/// Counts what is done; shows itself only where someone looks and it takes a while.
pub struct Progress {
    started: Instant,
    total: u64,
    done: std::sync::atomic::AtomicU64,
    looked_at: bool,
    style: &'static str,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// A bar for `total` events.
    pub fn new(total: u64) -> Self {
        Self::styled(total, EVENTS)
    }

    /// A bar for `total` cells.
    pub fn cells(total: usize) -> Self {
        Self::styled(total as u64, CELLS)
    }

    fn styled(total: u64, style: &'static str) -> Self {
        Progress {
            started: Instant::now(),
            total,
            done: 0.into(),
            looked_at: io::stderr().is_terminal(),
            style,
            bar: OnceLock::new(),
        }
    }

    /// So many more are done.
    pub fn add(&self, more: u64) {
        let order = std::sync::atomic::Ordering::Relaxed;
        let done = self.done.fetch_add(more, order) + more;
        if self.looked_at && self.started.elapsed() > A_MOMENT {
            let bar = self.bar.get_or_init(|| bar(self.total, self.style));
            bar.set_position(done);
        }
    }

    /// Takes the bar away.
    pub fn end(self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// A line that says what is being done, where nobody knows how much there is to do; shown
/// only where someone looks and it takes a while.
pub struct LiveLine {
    started: Instant,
    looked_at: bool,
    bar: OnceLock<ProgressBar>,
}

impl LiveLine {
    /// An empty line.
    pub fn new() -> Self {
        LiveLine {
            started: Instant::now(),
            looked_at: io::stderr().is_terminal(),
            bar: OnceLock::new(),
        }
    }

    /// Says something else from now on.
    pub fn say(&self, text: impl FnOnce() -> String) {
        if self.looked_at && self.started.elapsed() > A_MOMENT {
            let bar = self.bar.get_or_init(|| {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                bar.with_style(ProgressStyle::with_template(WORDS).expect("it is well formed"))
            });
            bar.set_message(text());
            bar.tick();
        }
    }

    /// Takes the line away.
    pub fn end(self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: u64, style: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(style).expect("the template is well formed"))
}
