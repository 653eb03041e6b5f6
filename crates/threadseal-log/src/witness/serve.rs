//! [`serve`]: a witness as a service over HTTP (C2SP tlog-witness; `spec/tlog.md`, "A witness as a service").
//!
//! ```text
//! connection, one of a bounded number ─► hyper: head, within bounds ─► router ─► body, within bounds ─► WitnessFiles ─► answer
//! ```
//! [`http_server`](crate::http_server) bounds connections, heads and waits.

use crate::http_server::{self, Pace, PeerLimit, Wrong, check_head, closing, discard, text, typed};
use crate::witness::files::{Answer, WitnessFiles, WitnessKey};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use std::collections::BTreeSet;
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_WITNESS_BODY_BYTES;
use threadseal_core::tlog::witness::{AddCheckpoint, Refusal, write_cosignatures};
use threadseal_store::clock::Clock;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

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

/// The answers of a witness.
pub fn router(service: Arc<WitnessService>) -> Router {
    Router::new().fallback(answer).with_state(service)
}

/// Answers until `stop` is set, and then the requests that were sent already.
///
/// # Errors
/// As [`http_server::serve`].
pub fn serve(
    listener: TcpListener,
    service: WitnessService,
    limit: PeerLimit,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let warn = service.warn;
    http_server::serve(listener, router(Arc::new(service)), limit, warn, stop)
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

fn refused(refusal: &Refusal) -> Response {
    let (kind, body) = refusal.body();
    let status = StatusCode::from_u16(refusal.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    typed(status, kind, body)
}

#[cfg(test)]
mod tests;
