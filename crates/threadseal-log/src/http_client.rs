//! HTTP for requests to witnesses and time-stamping authorities: bounded in time and size, without redirects.

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode, header};
use std::fmt;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_WITNESS_BODY_BYTES;

const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

/// A client with the bounds above.
///
/// # Errors
/// Kind `External` when the client cannot be made.
pub(crate) fn client() -> Result<Client, Error> {
    // Another part of the program may have installed the provider already; it is the same one then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(CONNECT_TIME)
        .timeout(ANSWER_TIME)
        .redirect(Policy::none())
        .build()
        .map_err(|error| Error::new(ErrorKind::External, format!("cannot set up HTTP: {error}")))
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// Kind `External` when no answer comes, `Limit` when it is too long.
pub(crate) async fn send(request: RequestBuilder) -> Result<Reply, Error> {
    let mut response = request.send().await.map_err(|error| unreachable(&error))?;
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.map(|kind| kind.as_bytes().to_vec());
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| unreachable(&error))?
    {
        if piece.len() > MAX_WITNESS_BODY_BYTES - body.len() {
            return Err(Error::new(ErrorKind::Limit, "its answer is too long"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Reply {
        status: response.status(),
        content_type,
        body,
    })
}

/// The error for a status that means no answer.
pub(crate) fn unexpected(status: StatusCode) -> Error {
    let text = format!("it answered {}", status.as_u16());
    Error::new(ErrorKind::External, text)
}

/// The error for an answer that cannot be read.
pub(crate) fn malformed(error: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::External,
        format!("its answer is not valid: {error}"),
    )
}

fn unreachable(error: &reqwest::Error) -> Error {
    let why = match (error.is_timeout(), error.is_connect()) {
        (true, _) => "it did not answer in time",
        (_, true) => "it cannot be reached",
        _ => "the connection broke",
    };
    Error::new(ErrorKind::External, why)
}
