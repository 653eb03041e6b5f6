//! [`serve_pages`]: a few texts, which are made when they are asked for.

use super::{PeerLimit, check_head, closing, discard, serve, text, typed};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use threadseal_core::error::Error;
use tokio::task::spawn_blocking;

/// One text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// All is well: the status is 200, else 503.
    pub is_good: bool,
    /// Its `Content-Type`.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

/// What is served.
pub trait Pages: Send + Sync + 'static {
    /// The text at this path, if one is there. It may block.
    fn page(&self, path: &str) -> Option<Page>;
}

/// Answers GET and HEAD until `stop` is set. `warn` reports what keeps it from connections.
///
/// # Errors
/// As [`serve`].
pub fn serve_pages(
    listener: TcpListener,
    pages: Arc<dyn Pages>,
    warn: fn(&str),
    stop: &AtomicBool,
) -> Result<(), Error> {
    let router = Router::new().fallback(answer).with_state(pages);
    serve(listener, router, PeerLimit::Clients, warn, stop)
}

async fn answer(State(pages): State<Arc<dyn Pages>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if let Err((status, why)) = check_head(&head.headers, head.version) {
        discard(body).await;
        return closing(text(status, format!("{why}\n")));
    }
    discard(body).await;
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered here\n",
        );
    }
    let path = head.uri.path().to_owned();
    match spawn_blocking(move || pages.page(&path)).await {
        Ok(Some(page)) => {
            let status = match page.is_good {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            };
            typed(status, page.kind, page.text)
        }
        Ok(None) => text(StatusCode::NOT_FOUND, "nothing is here\n"),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests;
