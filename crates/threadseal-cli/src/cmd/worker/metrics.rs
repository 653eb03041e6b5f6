//! `worker --metrics`: `/metrics` for Prometheus, and `/healthz`.

use crate::exit::{Failure, complain};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use threadseal_core::error::Error;
use threadseal_log::http_server::{Page, Pages, serve_pages};
use threadseal_runtime::fleet::{METRICS_TYPE, Monitor};

struct Watched(Monitor);

impl Pages for Watched {
    fn page(&self, path: &str) -> Option<Page> {
        let (is_good, kind, text) = match path {
            "/metrics" => (true, METRICS_TYPE, self.0.text()),
            "/healthz" => {
                let health = self.0.health();
                let text = health.as_ref().err().map_or("well", |why| why.as_str());
                (
                    health.is_ok(),
                    "text/plain; charset=utf-8",
                    format!("{text}\n"),
                )
            }
            _ => return None,
        };
        Some(Page {
            is_good,
            kind,
            text,
        })
    }
}

/// Does `work` while the metrics are served at this address, and names it on standard error.
///
/// # Errors
/// When the address cannot be had; errors of `work`.
pub(super) fn serving<T>(
    address: SocketAddr,
    monitor: Monitor,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Failure> {
    let failed = |error| Failure::new(format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    complain(&format!("metrics: http://{bound}/metrics"));
    let stop = AtomicBool::default();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let pages = Arc::new(Watched(monitor));
            if let Err(error) = serve_pages(listener, pages, complain, &stop) {
                complain(&format!("warning: no metrics any more: {error}"));
            }
        });
        let done = work();
        stop.store(true, Ordering::SeqCst);
        // A panic of the service was reported already.
        let _ = serving.join();
        Ok(done?)
    })
}
