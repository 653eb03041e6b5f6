//! Refusals whose body has no end.
//!
//! genai reads the body of an answer that is no success until it ends, whatever its size, and has no
//! bound for it. So the status is noticed when it arrives, and the request is dropped when its body
//! brought something too often, or takes too long.

use crate::bounds::{MAX_REFUSAL_POLLS, MAX_REFUSAL_WAITS};
use crate::model::ModelError;
use reqwest::retry;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

tokio::task_local! {
    /// The status of the answer to the request that is polled; 0 before it is there.
    static STATUS: Cell<u16>;
}

/// Notices the status of each answer, and repeats no request: the runner decides about that.
pub(super) fn noticed() -> retry::Builder {
    retry::never().classify_fn(|answer| {
        if let Some(status) = answer.status() {
            // Outside of `watched` there is nothing to notice.
            let _ = STATUS.try_with(|seen| seen.set(status.as_u16()));
        }
        answer.success()
    })
}

/// A request whose status is noticed.
pub(super) async fn watched<T>(request: impl Future<Output = T>) -> T {
    STATUS.scope(Cell::new(0), request).await
}

/// How often a refusal brought something, and was waited for.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    polls: u32,
    waits: u32,
}

impl Refusal {
    /// Waits for the next event of an answer, or gives a refusal up.
    pub(super) async fn bounded<T>(
        &mut self,
        next: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let mut next = pin!(next);
        let mut is_first = true;
        poll_fn(|context| {
            let status = STATUS.try_with(Cell::get).unwrap_or(0);
            if status != 0 && !(200..300).contains(&status) {
                // The first look of each wait comes without news.
                match std::mem::take(&mut is_first) {
                    true => self.waits += 1,
                    false => self.polls += 1,
                }
                if self.polls > MAX_REFUSAL_POLLS || self.waits > MAX_REFUSAL_WAITS {
                    return Poll::Ready(Err(endless(status)));
                }
            }
            next.as_mut().poll(context).map(Ok)
        })
        .await
    }
}

fn endless(status: u16) -> ModelError {
    ModelError {
        status,
        kind: "HttpError".to_owned(),
        message: "the text of the error has no end".to_owned(),
        ..ModelError::default()
    }
}
