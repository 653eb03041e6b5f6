//! Progress of long work: on standard error, only on a terminal.

use crate::context::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work on fewer bytes needs no progress bar.
const SHORT_WORK_BYTES: u64 = 32 << 20;

/// A bar over `bytes`; hidden without a terminal, and for short work.
pub(crate) fn bar(bytes: u64, context: &Context) -> ProgressBar {
    if !context.progress || bytes < SHORT_WORK_BYTES {
        return ProgressBar::hidden();
    }
    // A higher rate than four a second shows no more, and costs time on a slow terminal.
    let target = ProgressDrawTarget::stderr_with_hz(4);
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left");
    ProgressBar::with_draw_target(Some(bytes), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
