//! [`serve`]: services over HTTP, to peers that may be hostile.
//!
//! ```text
//! connection, one of a bounded number ─► hyper: head, within bounds ─► router ─► answer
//! ```
//! Every wait has an end: for a request with head and body, for a connection as a whole, and for the last answers when the
//! service stops. `peers` keeps one peer from taking the connections of all others. TLS is the task of a proxy in front.

mod pages;
mod peers;
pub use pages::{Page, Pages, serve_pages};
pub(crate) use peers::Pace;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, EXPECT, HOST, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use peers::Peers;
use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections at one time.
pub(crate) const MAX_CONNECTIONS: usize = 128;
/// Connections of one peer at one time: of an IPv4 address, or of the /64 network of an IPv6 address.
pub(crate) const MAX_PEER_CONNECTIONS: usize = 8;
/// Connections beyond them that are answered with 503; more are closed at once.
const MAX_REFUSED_CONNECTIONS: usize = 128;
/// Longest head of a request in bytes.
pub(crate) const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields of a request.
pub(crate) const MAX_HEADERS: usize = 64;
/// For a whole request, its head and its body, since the connection began or since the answer before.
pub(crate) const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);
/// For a body in any case: its head may have come late on a connection that was idle.
const MIN_BODY_TIME: Duration = Duration::from_secs(2);
/// For a connection with all of its requests: a client that reads no answers holds it no longer.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(600);
/// For the rest of a body that was refused, and how much of it is read.
const MAX_REST_TIME: Duration = Duration::from_secs(2);
const MAX_REST_BYTES: usize = 1 << 20;
/// For requests that are being answered when the service stops.
pub(crate) const MAX_LAST_TIME: Duration = Duration::from_secs(5);
/// Between two looks at whether to stop, and after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";

/// Who the peers of the service are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerLimit {
    /// Its clients: the connections of each one are bounded.
    Clients,
    /// A proxy, which bounds those of its own clients.
    Proxy,
}

/// Answers until `stop` is set, and then the requests that were sent already.
///
/// # Errors
/// Kind `External` when no thread can be started, or the socket cannot be used.
pub fn serve(
    listener: TcpListener,
    router: Router,
    limit: PeerLimit,
    warn: fn(&str),
    stop: &AtomicBool,
) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        let text = format!("cannot serve: {error}");
        Error::new(ErrorKind::External, text)
    };
    listener.set_nonblocking(true).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(MAX_CONNECTIONS)
        .enable_all()
        .build()
        .map_err(failed)?;
    let stopped = async {
        while !stop.load(Ordering::SeqCst) {
            sleep(PAUSE).await;
        }
    };
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        accept(listener, router, limit, warn, stopped).await;
        Ok(())
    });
    // An answer that is late by now may hang in the system: it is not waited for.
    runtime.shutdown_background();
    served
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    limit: PeerLimit,
    warn: fn(&str),
    stopped: impl Future<Output = ()>,
) {
    let busy = Router::new().fallback(too_many);
    let peers = Peers::new(limit);
    let refusals = Arc::new(Semaphore::new(MAX_REFUSED_CONNECTIONS));
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stopped = pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                // Too many open files, or a connection that was closed before it was accepted.
                warn(&format!("cannot accept a connection: {error}"));
                sleep(PAUSE).await;
                continue;
            }
        };
        let stopping = stopping.clone();
        if let Some(admitted) = peers.admit(peer) {
            let router = router.clone();
            connections.spawn(async move {
                let pace = Arc::clone(&admitted.pace);
                tokio::select! {
                    () = admitted.displaced() => {}
                    () = converse(stream, router, pace, stopping) => {}
                }
            });
        } else if let Ok(slot) = Arc::clone(&refusals).try_acquire_owned() {
            let busy = busy.clone();
            connections.spawn(async move {
                converse(stream, busy, Arc::default(), stopping).await;
                drop(slot);
            });
        }
    }
    drop(listener);
    // Every receiver sees the value, or is gone.
    let _ = stop.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(MAX_LAST_TIME, all).await;
}

/// Serves one connection until its client, its time or the service ends.
async fn converse(
    stream: TcpStream,
    router: Router,
    pace: Arc<Pace>,
    mut stopping: watch::Receiver<bool>,
) {
    let router = router.layer(Extension(pace));
    // Without it answers are later, and not others.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client may end its half of the connection before it reads the answer.
        .half_close(true)
        .header_read_timeout(MAX_REQUEST_TIME)
        .max_header_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .title_case_headers(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let stop = async {
        // An error means that the sender is gone, and the service with it.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    tokio::select! {
        // A client that went away needs no answer.
        _ = &mut connection => return,
        () = stop => {}
        () = sleep(MAX_CONNECTION_TIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(MAX_LAST_TIME, connection).await;
}

async fn too_many(request: Request) -> Response {
    discard(request.into_body()).await;
    let busy = text(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many connections; ask again later\n",
    );
    closing(busy)
}

pub(crate) type Wrong = (StatusCode, &'static str);

/// Refuses a head that the framing of HTTP/1.1 allows and no service here needs.
pub(crate) fn check_head(headers: &HeaderMap, version: Version) -> Result<(), Wrong> {
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 || (version == Version::HTTP_11 && hosts == 0) {
        let why = "the request names no host, or more than one";
        return Err((StatusCode::BAD_REQUEST, why));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if codings.next().is_some() {
            return Err((StatusCode::BAD_REQUEST, "the request has two lengths"));
        }
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            let why = "the only known transfer coding is chunked";
            return Err((StatusCode::NOT_IMPLEMENTED, why));
        }
    }
    let mut expected = headers.get_all(EXPECT).iter();
    match expected.all(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        true => Ok(()),
        false => Err((
            StatusCode::EXPECTATION_FAILED,
            "this expectation is not supported",
        )),
    }
}

/// Reads what still comes of a body for a moment: if the connection were closed at once, the client would lose the answer as
/// well (RFC 9112 §9.6).
pub(crate) async fn discard(mut body: Body) {
    let reading = async {
        let mut left = MAX_REST_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(length);
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(MAX_REST_TIME, reading).await;
}

/// A sentence, or a text.
pub(crate) fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    typed(status, PLAIN, body)
}

pub(crate) fn typed(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
    (status, headers, body.into()).into_response()
}

/// The last answer on its connection.
pub(crate) fn closing(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}
