//! A bar on a terminal, for what takes longer than a moment.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done before this is not worth a bar.
const A_MOMENT: Duration = Duration::from_millis(500);

/// Counts events replayed; shows itself only where someone looks and it takes a while.
pub struct Progress {
    started: Instant,
    total: u64,
    done: std::sync::atomic::AtomicU64,
    looked_at: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// A bar for `total` events.
    pub fn new(total: u64) -> Self {
        Progress {
            started: Instant::now(),
            total,
            done: 0.into(),
            looked_at: io::stderr().is_terminal(),
            bar: OnceLock::new(),
        }
    }

    /// So many events more are done.
    pub fn add(&self, events: u64) {
        let order = std::sync::atomic::Ordering::Relaxed;
        let done = self.done.fetch_add(events, order) + events;
        if self.looked_at && self.started.elapsed() > A_MOMENT {
            self.bar.get_or_init(|| bar(self.total)).set_position(done);
        }
    }

    /// Takes the bar away.
    pub fn end(self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = "{bar:30} {percent} % of {human_len} events, {eta} to go";
    bar.with_style(ProgressStyle::with_template(style).expect("the template is well formed"))
}
