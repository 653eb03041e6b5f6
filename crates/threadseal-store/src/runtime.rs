//! The one runtime that drives libraries which are only async; no part of it is visible outside.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use threadseal_core::error::{Error, ErrorKind};
use tokio::runtime::{Builder, Runtime};

/// Threads that read and write sockets; the caller's own thread drives its request.
const WORKERS: usize = 2;

/// The runtime, started by its first user.
///
/// # Errors
/// [`ErrorKind::External`] when no thread can be started.
pub(crate) fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("threadseal-io")
        .enable_all()
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::External,
                format!("cannot start a thread: {error}"),
            )
            .with_source(error)
        })?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// Waits for `work` on this thread.
///
/// The runtime's own threads move the bytes, so this also works on a thread of another runtime. It
/// blocks that thread like any call that waits for a disk.
///
/// # Errors
/// As [`runtime`], and those of `work`.
pub fn wait_for<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let _entered = runtime()?.enter();
    let mut work = pin!(work);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

/// Does both at once: each request is sent before either is answered, the first one's first.
#[cfg(any(test, feature = "postgres"))]
pub(crate) async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(context)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;

    #[test]
    fn both_are_begun_before_either_is_done() {
        let begun = Cell::new(0);
        let work = || async {
            begun.set(begun.get() + 1);
            tokio::time::sleep(Duration::from_millis(2)).await;
            begun.get()
        };
        let answers = wait_for(async { Ok(both(work(), work()).await) });
        assert_eq!(answers.unwrap(), (2, 2));
    }

    #[test]
    fn work_is_waited_for_also_on_a_thread_of_another_runtime() {
        let work = || async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(7)
        };
        assert_eq!(wait_for(work()).unwrap(), 7);
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { wait_for(work()) }).unwrap(), 7);
    }
}
