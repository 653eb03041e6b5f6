//! Progress of long work: on standard error, only on a terminal.

use crate::context::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use threadseal_verify::notices::Progress;

/// Work on fewer bytes needs no progress bar.
const SHORT_WORK_BYTES: u64 = 32 << 20;

/// A bar that counts bytes.
#[derive(Debug, Clone)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar over `bytes`; nothing is drawn where no one would see it or wait for it.
    pub(crate) fn over(bytes: u64, context: &Context) -> Self {
        if !context.progress || bytes < SHORT_WORK_BYTES {
            return Self::hidden();
        }
        // Four times a second is enough for the eye; a terminal over a slow line costs more.
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left");
        let bar = ProgressBar::with_draw_target(Some(bytes), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// A bar that is never drawn.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }
}

impl Progress for Bar {
    fn read(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn done(&self) {
        self.0.finish_and_clear();
    }
}
