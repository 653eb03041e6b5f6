//! Progress of long work: on standard error, only on a terminal.

use crate::context::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Below this many bytes there is nothing to wait for.
const SHORT_WORK_BYTES: u64 = 32 << 20;

/// A bar over `bytes`; nothing is drawn where nobody would see it or wait for it.
pub(crate) fn bar(bytes: u64, context: &Context) -> ProgressBar {
    if !context.progress || bytes < SHORT_WORK_BYTES {
        return ProgressBar::hidden();
    }
    // Four times a second is enough for the eye; a terminal over a slow line costs more.
    let target = ProgressDrawTarget::stderr_with_hz(4);
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left");
    ProgressBar::with_draw_target(Some(bytes), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
