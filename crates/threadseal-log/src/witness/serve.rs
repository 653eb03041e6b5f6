//! [`serve`]: a witness as a service over HTTP (C2SP tlog-witness; `spec/tlog.md`, "A witness as a service").
//!
//! ```text
//! connection, one of a bounded number ─► hyper: head, within bounds ─► router ─► body, within bounds ─► WitnessFiles ─► answer
//! ```
//! Every wait has an end: for a request with head and body, for a connection as a whole, and for the last answers when the
//! service stops. `peers` keeps one peer from taking the connections of all others. TLS is the task of a proxy in front.

mod peers;

use crate::witness::files::{Answer, WitnessFiles, WitnessKey};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use peers::{Pace, Peers};
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_WITNESS_BODY_BYTES;
use threadseal_core::tlog::witness::{AddCheckpoint, Refusal, write_cosignatures};
use threadseal_store::clock::Clock;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Connections at one time.
const MAX_CONNECTIONS: usize = 128;
/// Connections of one peer at one time: of an IPv4 address, or of the /64 network of an IPv6 address.
const MAX_PEER_CONNECTIONS: usize = 8;
/// Connections beyond them that are answered with 503; more are closed at once.
const MAX_REFUSED_CONNECTIONS: usize = 128;
/// Longest head of a request in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields of a request.
const MAX_HEADERS: usize = 64;
/// For a whole request, its head and its body, since the connection began or since the answer before.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);
/// For a body in any case: its head may have come late on a connection that was idle.
const MIN_BODY_TIME: Duration = Duration::from_secs(2);
/// For a connection with all of its requests: a client that reads no answers holds it no longer.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(600);
/// For the rest of a body that was refused, and how much of it is read.
const MAX_REST_TIME: Duration = Duration::from_secs(2);
const MAX_REST_BYTES: usize = 1 << 20;
/// For requests that are being answered when the service stops.
const MAX_LAST_TIME: Duration = Duration::from_secs(5);
/// Between two looks at whether to stop, and after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

const PLAIN: &str = "text/plain; charset=utf-8";

/// A witness with its key.
pub struct WitnessService {
    files: WitnessFiles,
    key: WitnessKey,
    clock: Box<dyn Clock>,
    warn: fn(&str),
    /// The evidence that this process has reported; as much as is kept.
    reported: Mutex<BTreeSet<PathBuf>>,
}

impl fmt::Debug for WitnessService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WitnessService");
        shown.field("files", &self.files).field("key", &self.key);
        shown.finish_non_exhaustive()
    }
}

impl WitnessService {
    /// The witness with these files and this key. `warn` reports to its operator what must not be in an answer.
    pub fn new(
        files: WitnessFiles,
        key: WitnessKey,
        clock: Box<dyn Clock>,
        warn: fn(&str),
    ) -> Self {
        Self {
            files,
            key,
            clock,
            warn,
            reported: Mutex::default(),
        }
    }

    fn add(&self, body: &[u8]) -> Response {
        let request = match AddCheckpoint::parse(body) {
            Ok(request) => request,
            Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        match self.files.add_checkpoint(&request, &self.key, &*self.clock) {
            Ok(Answer::Cosigned(line)) => text(StatusCode::OK, write_cosignatures(&[line])),
            Ok(Answer::Refused { refusal, evidence }) => {
                if let Some(path) = evidence.filter(|path| self.is_new(path.clone())) {
                    let (origin, path) = (request.origin(), path.display());
                    (self.warn)(&format!(
                        "the log {origin} signed two histories; kept: {path}"
                    ));
                }
                refused(&refusal)
            }
            Err(error) => self.failed(&error),
        }
    }

    fn read(&self, folder: &str) -> Response {
        match self.files.cosigned(folder) {
            Ok(Some(note)) => text(StatusCode::OK, note),
            Ok(None) => text(
                StatusCode::NOT_FOUND,
                "no checkpoint of such a log was cosigned\n",
            ),
            Err(error) => self.failed(&error),
        }
    }

    fn is_new(&self, evidence: PathBuf) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert(evidence)
    }

    /// Paths and reasons are for the operator of the witness.
    fn failed(&self, error: &Error) -> Response {
        (self.warn)(&error.to_string());
        text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the witness cannot answer now; ask again later\n",
        )
    }
}

/// Who the peers of the service are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerLimit {
    /// Its clients: the connections of each one are bounded.
    Clients,
    /// A proxy, which bounds those of its own clients.
    Proxy,
}

/// The answers of a witness.
pub fn router(service: Arc<WitnessService>) -> Router {
    Router::new().fallback(answer).with_state(service)
}

/// Answers until `stop` is set, and then the requests that were sent already.
///
/// # Errors
/// Kind `External` when no thread can be started, or the socket cannot be used.
pub fn serve(
    listener: TcpListener,
    service: WitnessService,
    limit: PeerLimit,
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
        accept(listener, service, limit, stopped).await;
        Ok(())
    });
    // An answer that is late by now may hang in the system: it is not waited for.
    runtime.shutdown_background();
    served
}

async fn accept(
    listener: tokio::net::TcpListener,
    service: WitnessService,
    limit: PeerLimit,
    stopped: impl Future<Output = ()>,
) {
    let warn = service.warn;
    let router = router(Arc::new(service));
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

async fn answer(State(service): State<Arc<WitnessService>>, request: Request) -> Response {
    let pace = request.extensions().get::<Arc<Pace>>().cloned();
    let pace = pace.unwrap_or_default();
    let response = answer_in(&pace, service, request).await;
    pace.answered();
    response
}

async fn answer_in(pace: &Pace, service: Arc<WitnessService>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if let Err((status, why)) = check_head(&head.headers, head.version) {
        discard(body).await;
        return closing(text(status, format!("{why}\n")));
    }
    let path = head.uri.path();
    let folder = path
        .strip_prefix('/')
        .and_then(|path| path.strip_suffix("/checkpoint"));
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let work: Box<dyn FnOnce() -> Response + Send> = match (path, folder) {
        ("/add-checkpoint", _) if head.method == Method::POST => {
            let body = match read(&head.headers, body, pace.left()).await {
                Ok(body) => body,
                Err((status, why)) => return closing(text(status, format!("{why}\n"))),
            };
            Box::new(move || service.add(&body))
        }
        (_, Some(folder)) if is_read => {
            let folder = folder.to_owned();
            Box::new(move || service.read(&folder))
        }
        ("/add-checkpoint", _) | (_, Some(_)) => {
            discard(body).await;
            return text(
                StatusCode::METHOD_NOT_ALLOWED,
                "POST /add-checkpoint, or GET a checkpoint\n",
            );
        }
        _ => {
            discard(body).await;
            return text(StatusCode::NOT_FOUND, "nothing is here\n");
        }
    };
    pace.arrived();
    // Locks and fsync block: they must not hold up other connections.
    let internal = |_| StatusCode::INTERNAL_SERVER_ERROR.into_response();
    spawn_blocking(work).await.unwrap_or_else(internal)
}

type Wrong = (StatusCode, &'static str);

/// Refuses a head that the framing of HTTP/1.1 allows and a witness does not need.
fn check_head(headers: &HeaderMap, version: Version) -> Result<(), Wrong> {
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
            "a witness does not support this expectation",
        )),
    }
}

/// The body of a request, which is no longer than a request of a witness can be, and comes in time.
async fn read(headers: &HeaderMap, mut body: Body, left: Duration) -> Result<Vec<u8>, Wrong> {
    const TOO_LARGE: Wrong = (StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
    let length = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
    let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_WITNESS_BODY_BYTES as u64) {
        // A client that waits for leave to send must not get it.
        if !headers.contains_key(EXPECT) {
            discard(body).await;
        }
        return Err(TOO_LARGE);
    }
    let mut whole = Vec::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| (StatusCode::BAD_REQUEST, "the body is damaged"))?;
            // Trailers mean nothing to a witness.
            let data: Bytes = frame
                .into_data()
                .map_err(|_| (StatusCode::BAD_REQUEST, "trailers are not accepted"))?;
            if data.len() > MAX_WITNESS_BODY_BYTES - whole.len() {
                return Err(TOO_LARGE);
            }
            whole.extend_from_slice(&data);
        }
        Ok(())
    };
    let late = (StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
    let done = timeout(left, reading).await;
    match done.unwrap_or(Err(late)) {
        Ok(()) => Ok(whole),
        Err(wrong) => {
            if wrong == TOO_LARGE {
                discard(body).await;
            }
            Err(wrong)
        }
    }
}

/// Reads what still comes of a body for a moment: if the connection were closed at once, the client would lose the answer as
/// well (RFC 9112 §9.6).
async fn discard(mut body: Body) {
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

fn refused(refusal: &Refusal) -> Response {
    let (kind, body) = refusal.body();
    let status = StatusCode::from_u16(refusal.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    typed(status, kind, body)
}

/// A sentence, or a text.
fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    typed(status, PLAIN, body)
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
    (status, headers, body.into()).into_response()
}

/// The last answer on its connection.
fn closing(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

#[cfg(test)]
mod tests;
