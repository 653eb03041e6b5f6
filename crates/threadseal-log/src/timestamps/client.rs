//! Sending requests to time-stamping authorities (RFC 3161 §3.4).

use crate::http_client::{client, send, unexpected};
use crate::timestamps::response::QUERY_CONTENT_TYPE;
use reqwest::{StatusCode, header};
use threadseal_store::runtime::wait_for;

/// Sends a request to a time-stamping authority, and answers with the body of its response.
///
/// # Errors
/// In a sentence for people, why there is no response.
pub fn ask_for_stamp(url: &str, request: Vec<u8>) -> Result<Vec<u8>, String> {
    let client = client().map_err(|error| error.to_string())?;
    let asked = wait_for(async {
        let post = client
            .post(url)
            .header(header::CONTENT_TYPE, QUERY_CONTENT_TYPE);
        let reply = send(post.body(request)).await?;
        match reply.status {
            StatusCode::OK => Ok(reply.body),
            status => Err(unexpected(status)),
        }
    });
    asked.map_err(|error| error.to_string())
}
