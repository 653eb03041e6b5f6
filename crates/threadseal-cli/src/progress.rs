//! Progress of long work: on standard error, only on a terminal.

use crate::context::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `count` records; nothing is drawn where nobody would see it, or where there is
/// little to wait for.
pub(crate) fn bar(count: usize, context: &Context) -> ProgressBar {
    if !context.progress || count < 2 {
        return ProgressBar::hidden();
    }
    let length = u64::try_from(count).unwrap_or(u64::MAX);
    // Four times a second is enough for the eye; a terminal over a slow line costs more.
    let target = ProgressDrawTarget::stderr_with_hz(4);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} records, {eta} left");
    ProgressBar::with_draw_target(Some(length), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
