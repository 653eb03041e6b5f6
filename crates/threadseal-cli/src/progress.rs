//! Progress of long work: one changing line on standard error, only on a terminal.

use crate::context::Context;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_verify::notices::Progress;

/// Work on fewer bytes needs no progress bar.
const SHORT_WORK_BYTES: u64 = 32 << 20;
/// Columns of a bar.
const BAR: u64 = 40;
/// Often enough for the eye; a terminal over a slow line costs more.
const PAUSE: Duration = Duration::from_millis(250);

/// One line of a terminal that is written again and again. It is empty again at the end.
#[derive(Debug)]
pub(crate) struct StatusLine {
    /// When it was written last.
    written: Option<Duration>,
}

impl StatusLine {
    /// None where standard error is no terminal.
    pub(crate) fn of_terminal() -> Option<Self> {
        let shown = io::stderr().is_terminal();
        shown.then_some(Self { written: None })
    }

    /// Shows `text`, unless another text is younger than [`PAUSE`].
    pub(crate) fn show(&mut self, text: impl fmt::Display) {
        let now = SystemClock.elapsed();
        let is_due = |before: Duration| now.saturating_sub(before) >= PAUSE;
        if self.written.is_none_or(is_due) {
            self.written = Some(now);
            // A line that cannot be shown is no failure.
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl StatusLine {
    /// Empties it, before a line that stays.
    pub(crate) fn clear(&mut self) {
        if self.written.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A bar that counts bytes.
#[derive(Debug, Clone)]
pub(crate) struct Bar(Arc<Mutex<Option<Count>>>);

#[derive(Debug)]
struct Count {
    line: StatusLine,
    began: Duration,
    read: u64,
    total: u64,
}

impl Bar {
    /// A bar over `bytes`; nothing is drawn where no one would see it or wait for it.
    pub(crate) fn over(bytes: u64, context: &Context) -> Self {
        if !context.progress || bytes < SHORT_WORK_BYTES {
            return Self::hidden();
        }
        let count = StatusLine::of_terminal().map(|line| Count {
            line,
            began: SystemClock.elapsed(),
            read: 0,
            total: bytes,
        });
        Self(Arc::new(Mutex::new(count)))
    }

    /// A bar that is never drawn.
    pub(crate) fn hidden() -> Self {
        Self(Arc::default())
    }
}

impl Progress for Bar {
    fn read(&self, bytes: u64) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = &mut *count {
            count.read = count.read.saturating_add(bytes).min(count.total);
            let text = drawn(count.read, count.total, count.began);
            count.line.show(text);
        }
    }

    fn done(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The bar, the bytes, and the time that is left at the speed so far.
fn drawn(read: u64, total: u64, began: Duration) -> String {
    let took = SystemClock.elapsed().saturating_sub(began).as_secs();
    let left = took.saturating_mul(total - read) / read.max(1);
    let mut text = String::new();
    for column in 0..BAR {
        let is_full = column < BAR.saturating_mul(read) / total.max(1);
        text.push(if is_full { '#' } else { '.' });
    }
    let (read, total) = (read >> 20, total >> 20);
    // Written to memory, which does not fail.
    let _ = write!(text, " {read} of {total} MiB, {left} s left");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_how_much_was_read() {
        let half = drawn(64 << 20, 128 << 20, SystemClock.elapsed());
        let bar = "#".repeat(20) + &".".repeat(20);
        assert_eq!(half, format!("{bar} 64 of 128 MiB, 0 s left"));
        assert!(drawn(0, 1 << 30, SystemClock.elapsed()).starts_with(&".".repeat(40)));
    }
}
