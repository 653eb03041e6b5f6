//! [`Viewer`]: connections, routes, and the end of the service.
//!
//! ```text
//! connection, one of a bounded number ─► hyper: head, within bounds ─► guard ─► route ─► Shelf on a thread of its own
//! ```
//! Every wait has an end but that of `api/live`, which ends with its page, or with the service.

use crate::assets;
use crate::guard::{self, Token};
use crate::range::Part;
use crate::shelf::{Drawn, MAX_FOLLOWED, MAX_HITS, MAX_ROWS, Shelf, Stamp, What};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LOCATION,
    RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Connections at one time: a browser holds six, and one for each page that follows a log.
const MAX_CONNECTIONS: usize = 64;
/// Longest head of a request in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields of a request.
const MAX_HEADERS: usize = 64;
/// For the head of a request.
const MAX_HEAD_TIME: Duration = Duration::from_secs(10);
/// For requests that are being answered when the service stops.
const MAX_LAST_TIME: Duration = Duration::from_secs(2);
/// Between two looks at whether to stop.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks at a log that is followed.
const LOOK: Duration = Duration::from_millis(250);
/// Between two looks at the logs of a list.
const LIST_LOOK: Duration = Duration::from_secs(2);
/// After which time a page that follows a log hears that the service is there.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// Bytes of a log that are sent at once, and how many of these wait for the connection.
const CHUNK_BYTES: usize = 256 << 10;
const MAX_WAITING_CHUNKS: usize = 4;

/// How long a browser may take to start.
const MAX_TICKET_TIME: Duration = Duration::from_secs(120);
/// The beginning of the path of an address for one use.
const OPEN: &str = "/open/";

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// A viewer that listens.
pub struct Viewer {
    listener: TcpListener,
    port: u16,
    token: Token,
    ticket: Option<Token>,
    shelf: Arc<dyn Shelf>,
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// What the routes share.
struct Service {
    port: u16,
    token: Token,
    /// Until it was used, or is too old.
    ticket: Mutex<Option<Token>>,
    shelf: Arc<dyn Shelf>,
    stopping: watch::Receiver<bool>,
}

impl Viewer {
    /// Listens on a port of this machine alone; 0 takes any.
    ///
    /// # Errors
    /// Kind `External` when the port cannot be had.
    pub fn listen(port: u16, token: Token, shelf: Arc<dyn Shelf>) -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::new(
                ErrorKind::External,
                format!("cannot listen on 127.0.0.1:{port}: {error}"),
            )
        };
        let listener =
            TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self {
            listener,
            port,
            token,
            ticket: None,
            shelf,
        })
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.token.base())
    }

    /// An address that leads to the page once, and soon: for the arguments of a browser, which other users of the
    /// machine can read.
    pub fn address_once(&mut self, ticket: Token) -> String {
        let address = format!("http://127.0.0.1:{}{OPEN}{}", self.port, ticket.text());
        self.ticket = Some(ticket);
        address
    }

    /// Answers until `stop` is set.
    ///
    /// # Errors
    /// Kind `External` when no thread can be started, or the socket cannot be used.
    pub fn serve(self, stop: &AtomicBool) -> Result<(), Error> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::External, format!("cannot serve: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_CONNECTIONS)
            .enable_all()
            .build()
            .map_err(failed)?;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
            let (stopped, stopping) = watch::channel(false);
            let service = Service {
                port: self.port,
                token: self.token,
                ticket: Mutex::new(self.ticket),
                shelf: self.shelf,
                stopping,
            };
            let service = Arc::new(service);
            let forgetting = Arc::clone(&service);
            tokio::spawn(async move {
                sleep(MAX_TICKET_TIME).await;
                *forgetting.ticket() = None;
            });
            let router = Router::new().fallback(answer).with_state(service);
            accept(&listener, &router, stop, stopped).await;
            Ok(())
        });
        // A read that hangs in the system is not waited for.
        runtime.shutdown_background();
        served
    }
}

impl Service {
    fn ticket(&self) -> MutexGuard<'_, Option<Token>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads the first that has the ticket to the page. The browser keeps what is behind `#` (RFC 9110 §10.2.2).
    fn redeem(&self, method: &Method, path: &str) -> Response {
        let nothing = || refused(StatusCode::NOT_FOUND, "there is nothing here");
        let Some(given) = path.strip_prefix(OPEN).filter(|_| *method == Method::GET) else {
            return nothing();
        };
        let used = self.ticket().take_if(|ticket| ticket.is(given));
        if used.is_none() {
            let why = "this address was for one use, and soon; take the one that was printed";
            return match given.len() == self.token.text().len() {
                true => refused(StatusCode::GONE, why),
                false => nothing(),
            };
        }
        let mut response = StatusCode::SEE_OTHER.into_response();
        put(&mut response, LOCATION, &self.token.base());
        response
    }
}

async fn accept(
    listener: &tokio::net::TcpListener,
    router: &Router,
    stop: &AtomicBool,
    stopped: watch::Sender<bool>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    while !stop.load(Ordering::SeqCst) {
        let accepted = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = timeout(PAUSE, listener.accept()) => accepted,
        };
        let Ok(Ok((stream, _))) = accepted else {
            continue;
        };
        // One connection more is closed at once.
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            let (router, stopping) = (router.clone(), stopped.subscribe());
            connections.spawn(async move {
                converse(stream, router, stopping).await;
                drop(slot);
            });
        }
    }
    // Every receiver sees the value, or is gone.
    let _ = stopped.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(MAX_LAST_TIME, all).await;
}

async fn converse(stream: TcpStream, router: Router, mut stopping: watch::Receiver<bool>) {
    // Without it answers are later, and not others.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEAD_TIME)
        .max_header_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        // A browser that went away needs no answer.
        _ = &mut connection => return,
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(MAX_LAST_TIME, connection).await;
}

async fn answer(State(service): State<Arc<Service>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let mut response = match guard::check(&head.method, &head.headers, service.port) {
        Err((status, why)) => refused(status, why),
        Ok(()) => match service.token.strip(head.uri.path()).map(str::to_owned) {
            None => service.redeem(&head.method, head.uri.path()),
            Some(path) => {
                let query = head.uri.query().unwrap_or_default().to_owned();
                route(service, &path, &query, &head.headers).await
            }
        },
    };
    guard::protect(response.headers_mut());
    response
}

async fn route(service: Arc<Service>, path: &str, query: &str, headers: &HeaderMap) -> Response {
    let Some(api) = path.strip_prefix("api/") else {
        return asset(path, &service.token);
    };
    let path = decoded(api);
    let query = Query::of(query);
    let (room, rest) = path.split_once('/').unwrap_or((path.as_str(), ""));
    let name = rest.to_owned();
    match room {
        "sessions" if rest.is_empty() => {
            let (skip, most) = (query.number("skip"), query.number("limit"));
            let most = most.unwrap_or(MAX_ROWS).min(MAX_ROWS);
            let ask = move |shelf: &dyn Shelf| shelf.sessions(skip.unwrap_or(0), most).map(Some);
            of_shelf(service, "threadseal.view.sessions/1", ask).await
        }
        "sessions" => {
            of_shelf(service, "threadseal.view.session/1", move |shelf| {
                shelf.session(&name)
            })
            .await
        }
        "search" => {
            let words = query.text("q").unwrap_or_default().to_owned();
            let most = query.number("limit").unwrap_or(MAX_HITS).min(MAX_HITS);
            let ask = move |shelf: &dyn Shelf| shelf.search(&words, most).map(Some);
            of_shelf(service, "threadseal.view.search/1", ask).await
        }
        "trust" => {
            of_shelf(service, "threadseal.view.trust/1", |shelf| {
                shelf.trust().map(Some)
            })
            .await
        }
        "graphs" | "lineages" => {
            let of = if room == "graphs" {
                Drawn::Graph
            } else {
                Drawn::Lineage
            };
            let ask = move |shelf: &dyn Shelf| shelf.drawing(of, &name);
            of_shelf(service, "threadseal.view.drawing/1", ask).await
        }
        "live" => live(service, query.all("log")),
        "logs" => of_log(service, rest, headers).await,
        _ => refused(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// What is asked of a log: `LOG/bytes`. The name of a log may have slashes.
async fn of_log(service: Arc<Service>, path: &str, headers: &HeaderMap) -> Response {
    let Some((log, what)) = path.rsplit_once('/') else {
        return refused(StatusCode::NOT_FOUND, "there is nothing here");
    };
    let (log, range) = (log.to_owned(), headers.get(RANGE).cloned());
    let what = match what {
        "bytes" => What::Bytes,
        "seals" => What::Seals,
        "bodies" => What::Bodies,
        "report" => {
            return answered(service, move |shelf| {
                Ok(shelf.report(&log)?.map(|report| bytes(JSON, report)))
            })
            .await;
        }
        _ => return refused(StatusCode::NOT_FOUND, "there is nothing here"),
    };
    answered(service, move |shelf| {
        part_of(shelf, &log, what, range.as_ref())
    })
    .await
}

/// The answer of the shelf as JSON of this schema.
async fn of_shelf<V: Serialize>(
    service: Arc<Service>,
    schema: &'static str,
    ask: impl FnOnce(&dyn Shelf) -> Result<Option<V>, Error> + Send + 'static,
) -> Response {
    answered(service, move |shelf| {
        Ok(ask(shelf)?.map(|value| json(schema, &value)))
    })
    .await
}

/// The answer of the shelf, which may wait for a disk.
async fn answered(
    service: Arc<Service>,
    ask: impl FnOnce(&dyn Shelf) -> Result<Option<Response>, Error> + Send + 'static,
) -> Response {
    match spawn_blocking(move || ask(&*service.shelf)).await {
        Ok(Ok(Some(response))) => response,
        Ok(Ok(None)) => refused(StatusCode::NOT_FOUND, "there is nothing of this name"),
        Ok(Err(error)) => {
            let status = match error.kind() {
                ErrorKind::InvalidInput | ErrorKind::Limit => StatusCode::BAD_REQUEST,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            refused(status, &error.to_string())
        }
        Err(_) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the viewer failed; see its terminal",
        ),
    }
}

/// The part of a log that the field `Range` names, as it is read.
fn part_of(
    shelf: &dyn Shelf,
    log: &str,
    what: What,
    range: Option<&HeaderValue>,
) -> Result<Option<Response>, Error> {
    // Before it is opened: what changes meanwhile has another stamp.
    let stamp = shelf.stamp(log);
    let Some(opened) = shelf.open(log, what)? else {
        return Ok(None);
    };
    let size = opened.size;
    let (status, from, to) = match Part::of(range, size) {
        Part::Whole => (StatusCode::OK, 0, size),
        Part::Bytes(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Part::Beyond => {
            let mut response = refused(StatusCode::RANGE_NOT_SATISFIABLE, "the log ends before");
            put(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok(Some(response));
        }
    };
    let mut reader = (opened.read)(from)?;
    let (send, chunks) = mpsc::channel(MAX_WAITING_CHUNKS);
    spawn_blocking(move || send_all(&mut *reader, to - from, &send));
    let body = stream::unfold(chunks, |mut chunks| async move {
        Some((chunks.recv().await?, chunks))
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = status;
    put(&mut response, CONTENT_TYPE, "application/octet-stream");
    if let Some(stamp) = stamp.filter(|_| what == What::Bytes) {
        put(&mut response, ETAG, &format!("\"{}\"", stamp.of_log()));
    }
    put(&mut response, ACCEPT_RANGES, "bytes");
    put(&mut response, CONTENT_LENGTH, &(to - from).to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        put(
            &mut response,
            CONTENT_RANGE,
            &format!("bytes {from}-{}/{size}", to - 1),
        );
    }
    Ok(Some(response))
}

/// Sends `left` bytes of the reader. A reader that ends before breaks the connection, so that no browser takes the part
/// for the whole.
fn send_all(
    reader: &mut dyn Read,
    mut left: u64,
    send: &mpsc::Sender<Result<Bytes, std::io::Error>>,
) {
    while left > 0 {
        let want = usize::try_from(left)
            .unwrap_or(CHUNK_BYTES)
            .min(CHUNK_BYTES);
        let mut chunk = vec![0; want];
        let read = match reader.read(&mut chunk) {
            Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                chunk.truncate(count);
                left -= count as u64;
                Ok(Bytes::from(chunk))
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = read.is_err();
        if send.blocking_send(read).is_err() || is_last {
            return;
        }
    }
}

/// A log that is followed: its session, its name, and its stamp when it was looked at last.
struct Followed {
    id: String,
    log: String,
    before: Option<Option<Stamp>>,
}

/// An event for each change on the disk: of the logs that are named, each once at the beginning; or of those of the
/// newest sessions.
fn live(service: Arc<Service>, logs: Vec<String>) -> Response {
    let is_list = logs.is_empty();
    let pause = if is_list { LIST_LOOK } else { LOOK };
    let named = logs.into_iter().take(MAX_FOLLOWED).map(|log| Followed {
        id: log.split('/').next().unwrap_or_default().to_owned(),
        log,
        before: None,
    });
    let begin = (service, named.collect::<Vec<_>>(), is_list);
    let events = stream::unfold(begin, move |(service, followed, mut is_first)| async move {
        let mut quiet = Duration::ZERO;
        let mut followed = followed;
        loop {
            let shelf = Arc::clone(&service.shelf);
            let looked = spawn_blocking(move || look(&*shelf, followed, is_list, is_first)).await;
            let (now, events) = looked.ok()?;
            (followed, is_first) = (now, false);
            if !events.is_empty() {
                return Some((
                    Ok::<_, Infallible>(Bytes::from(events)),
                    (service, followed, false),
                ));
            }
            if quiet >= MAX_SILENCE {
                let still = Bytes::from_static(b": nothing changed\n\n");
                return Some((Ok(still), (service, followed, false)));
            }
            let mut stopping = service.stopping.clone();
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return None,
                () = sleep(pause) => quiet += pause,
            }
        }
    });
    let mut response = Response::new(Body::from_stream(events));
    put(&mut response, CONTENT_TYPE, "text/event-stream");
    response
}

/// Looks at each log once more, and at those that a list has anew. What a list has at the beginning is no event.
fn look(
    shelf: &dyn Shelf,
    mut followed: Vec<Followed>,
    is_list: bool,
    is_first: bool,
) -> (Vec<Followed>, String) {
    if is_list {
        let known: BTreeSet<String> = followed.iter().map(|one| one.log.clone()).collect();
        let newest = shelf
            .newest()
            .into_iter()
            .filter(|(_, log)| !known.contains(log));
        followed.extend(newest.take(MAX_FOLLOWED).map(|(id, log)| Followed {
            id,
            log,
            before: None,
        }));
        followed.drain(..followed.len().saturating_sub(2 * MAX_FOLLOWED));
    }
    let mut events = String::new();
    for one in &mut followed {
        let now = shelf.stamp(&one.log);
        if one.before != Some(now) {
            one.before = Some(now);
            if !is_first {
                events.push_str(&event(one, now));
            }
        }
    }
    (followed, events)
}

/// One event (HTML, "Server-sent events").
fn event(of: &Followed, stamp: Option<Stamp>) -> String {
    #[derive(Serialize)]
    struct Data<'a> {
        id: &'a str,
        log: &'a str,
        bytes: Option<u64>,
        seals: Option<u64>,
        stamp: Option<String>,
        beside: Option<String>,
    }
    let name = if stamp.is_some() { "changed" } else { "gone" };
    let data = Data {
        id: &of.id,
        log: &of.log,
        bytes: stamp.map(|stamp| stamp.bytes),
        seals: stamp.map(|stamp| stamp.seals),
        stamp: stamp.map(|stamp| stamp.of_log()),
        beside: stamp.map(|stamp| stamp.of_beside()),
    };
    // Texts and numbers under names: JSON can express all of them, on one line.
    let data = serde_json::to_string(&data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

fn asset(path: &str, token: &Token) -> Response {
    match assets::find(path) {
        Some(asset) => {
            let mut response = bytes(asset.kind, asset.bytes(&token.base()).into_owned());
            if asset.is_packed {
                put(&mut response, CONTENT_ENCODING, "gzip");
            }
            response
        }
        None => refused(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// What is behind `?` of an address.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decoded(name), decoded(&value.replace('+', " ")))
                })
                .collect(),
        )
    }

    fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.text(name)?.parse().ok()
    }

    fn all(&self, name: &str) -> Vec<String> {
        let found = self
            .0
            .iter()
            .filter(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.clone()).collect()
    }
}

/// Percent-decoded (RFC 3986 §2.1), what is no UTF-8 replaced.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        let hex =
            hex.filter(|hex| *byte == b'%' && hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn json(schema: &'static str, value: &impl Serialize) -> Response {
    #[derive(Serialize)]
    struct Output<'v, V> {
        schema: &'static str,
        #[serde(flatten)]
        value: &'v V,
    }
    // Texts and numbers under names: JSON can express all of them.
    bytes(
        JSON,
        serde_json::to_vec(&Output { schema, value }).unwrap_or_default(),
    )
}

fn bytes(kind: &'static str, bytes: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(bytes.into()));
    put(&mut response, CONTENT_TYPE, kind);
    response
}

fn refused(status: StatusCode, why: &str) -> Response {
    let mut response = (status, format!("{why}\n")).into_response();
    put(&mut response, CONTENT_TYPE, PLAIN);
    response
}

fn put(response: &mut Response, name: axum::http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests;
