//! How a connection begins, in either revision of the protocol.
//!
//! | revision | begins with | later requests |
//! |---|---|---|
//! | 2026-07-28 | `server/discover` | name the revision and the client in `_meta` |
//! | 2025-11-25 and before | `initialize`, `notifications/initialized` | belong to the session |
//!
//! ```text
//! not known ─► server/discover ─┬─ answered ──────────────────────────► 2026-07-28
//!                               └─ an error, or silent for 10 s ─► initialize, on the same connection
//! closed by that question, or another answer ─► a new connection ─► initialize
//! ```
//! A slow program may answer the first question after it was given up: that answer is dropped.

use super::fault::Fault;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{ClientInitializeError, RunningService, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{IntoTransport, Transport};
use rmcp::{ClientHandler, ClientLifecycleMode, RoleClient, serve_client_with_lifecycle};

/// What a server is known to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    /// 2025-11-25, or one before.
    Handshake,
    /// 2026-07-28.
    Discovery,
}

impl Revision {
    pub(super) fn of(version: &ProtocolVersion) -> Self {
        match version.has_initialize() {
            true => Self::Handshake,
            false => Self::Discovery,
        }
    }
}

/// A beginning that failed.
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// The revision to try on a new connection, which this failure hints at.
    pub(super) instead: Option<Revision>,
}

/// Begins the protocol on a new connection.
///
/// # Errors
/// When the server does not answer as MCP asks for.
pub(super) async fn begin<H, T, E, A>(
    handler: H,
    transport: T,
    known: Option<Revision>,
) -> Result<RunningService<RoleClient, H>, Failed>
where
    H: ClientHandler,
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match known {
        Some(Revision::Handshake) => ClientLifecycleMode::Initialize,
        Some(Revision::Discovery) => ClientLifecycleMode::Discover {
            preferred_versions: modern,
        },
        None => ClientLifecycleMode::Auto {
            preferred_versions: modern,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let transport = Patient {
        inner: transport.into_transport(),
        question: None,
        given_up: false,
    };
    let began = serve_client_with_lifecycle(handler, transport, mode).await;
    began.map_err(|error| Failed {
        fault: Fault::from(&error),
        instead: known.is_none().then(|| instead(&error)).flatten(),
    })
}

fn instead(error: &ClientInitializeError) -> Option<Revision> {
    match error {
        // It was silent at the question, and refuses the handshake: slow, and of the new revision.
        ClientInitializeError::JsonRpcError(_) => Some(Revision::Discovery),
        // It ended, or gave some answer to a question that it does not know.
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_) => Some(Revision::Handshake),
        ClientInitializeError::TransportError { error, .. } => match Fault::from(error) {
            Fault::Unreachable(_) | Fault::Status(401 | 403 | 429) => None,
            _ => Some(Revision::Handshake),
        },
        _ => None,
    }
}

/// A transport that drops the late answer to a question that was given up.
struct Patient<T> {
    inner: T,
    question: Option<RequestId>,
    given_up: bool,
}

impl<T> Patient<T> {
    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let answers = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        self.given_up && answers.is_some() && answers == self.question.as_ref()
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &item {
            match &request.request {
                ClientRequest::DiscoverRequest(_) => self.question = Some(request.id.clone()),
                ClientRequest::InitializeRequest(_) => self.given_up = true,
                _ => {}
            }
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            if !self.is_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
