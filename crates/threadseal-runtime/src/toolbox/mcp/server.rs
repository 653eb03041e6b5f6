//! [`Connection`]: the connection to one MCP server.
//!
//! ```text
//! stdio   under a supervisor, listed environment
//!           ─► handshake of its revision ─► tools/list ─► tools/call … ─► closed, all of it killed
//! http    reqwest, no redirect, headers
//!           ─► the same
//! ```
//! Every message is bounded before it is read completely. A server's requests are answered with "no
//! such method": it has nothing to ask of us.

use super::address::Address;
use super::child::ServerProcess;
use super::fault::{Fault, innermost, short};
use super::handshake::{self, Failed, Revision};
use crate::bounds::{
    KILL_GRACE, MAX_MCP_MESSAGE_BYTES, MAX_MCP_PAGES, MAX_MCP_TOOLS, MCP_PROBE_TIME,
    MODEL_CONNECT_TIMEOUT,
};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    Implementation, PaginatedRequestParams, ProtocolVersion, RequestMetaObject, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientCacheConfig, ClientHandler, Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use threadseal_core::digest::Digest;
use tokio::task::JoinHandle;

/// The member of a call's `_meta` that names it.
const CALL_MEMBER: &str = "threadseal/call";

/// A tool as a server offers it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offer {
    pub(super) description: String,
    pub(super) schema: Value,
}

impl Offer {
    /// The digest for comparison: a server must not offer a different tool under the same name.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(
            serde_json::json!([self.description, self.schema])
                .to_string()
                .as_bytes(),
        )
    }
}

pub(super) struct Connection {
    service: RunningService<RoleClient, Deaf>,
    offers: BTreeMap<String, Offer>,
    /// How often the server announced that its tools changed, and how often that was when they were
    /// listed.
    changes: Arc<AtomicU64>,
    listed: u64,
    /// Follows these announcements where a server sends them on request alone.
    following: Option<JoinHandle<()>>,
    process: Option<ServerProcess>,
}

/// Receives the notice that tools have changed, and nothing else.
#[derive(Clone)]
pub(super) struct Deaf {
    changes: Arc<AtomicU64>,
}

impl ClientHandler for Deaf {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("threadseal", env!("CARGO_PKG_VERSION"));
        let mut info = ClientConfig::new(ClientCapabilities::default(), name);
        // The newest revision that has this handshake.
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Connection {
    /// Reaches a server and lists its tools. `known` is what it speaks, where that is known.
    ///
    /// # Errors
    /// When it cannot be reached, does not use MCP, or its offer exceeds the bounds.
    pub(super) async fn open(address: &Address, known: Option<Revision>) -> Result<Self, Fault> {
        match Self::begin(address, known).await {
            Err(Failed {
                instead: Some(other),
                ..
            }) => Self::begin(address, Some(other)).await,
            begun => begun,
        }
        .map_err(|failed| failed.fault)
    }

    async fn begin(address: &Address, known: Option<Revision>) -> Result<Self, Failed> {
        let changes = Arc::new(AtomicU64::new(0));
        let handler = Deaf {
            changes: Arc::clone(&changes),
        };
        let whole = |fault| Failed {
            fault,
            instead: None,
        };
        let (service, process) = match address {
            Address::Stdio { .. } => {
                let (process, output, input) =
                    ServerProcess::start(address).await.map_err(whole)?;
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(output, input)
                    .with_max_line_length(MAX_MCP_MESSAGE_BYTES);
                match handshake::begin(handler, transport, known).await {
                    Ok(service) => (service, Some(process)),
                    Err(mut failed) => {
                        let how = process.end().await;
                        if matches!(failed.fault, Fault::Ended(_) | Fault::Broke(_)) {
                            failed.fault = Fault::Ended(how);
                        }
                        return Err(failed);
                    }
                }
            }
            Address::Http { url, headers } => {
                let transport = reach(url, headers).map_err(whole)?;
                let begin = handshake::begin(handler, transport, known);
                // A server that keeps the first question open gets no other one on this connection.
                let silent = || Failed {
                    fault: Fault::TooLong,
                    instead: Some(Revision::Handshake),
                };
                let begun = match known {
                    Some(_) => begin.await,
                    None => tokio::time::timeout(MCP_PROBE_TIME, begin)
                        .await
                        .unwrap_or_else(|_| Err(silent())),
                };
                (begun?, None)
            }
        };
        // What a server changed is not to be hidden by what it allowed to keep.
        let peer = service.peer();
        peer.set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let mut connection = Self {
            service,
            offers: BTreeMap::new(),
            changes,
            listed: 0,
            following: None,
            process,
        };
        connection.follow_changes();
        connection.list().await.map_err(whole)?;
        Ok(connection)
    }

    /// The revision that was agreed on.
    pub(super) fn revision(&self) -> Option<Revision> {
        let info = self.service.peer().peer_info()?;
        Some(Revision::of(&info.protocol_version))
    }

    /// Asks for the notices of changed tools: servers of 2026-07-28 send no others.
    fn follow_changes(&mut self) {
        let info = self.service.peer().peer_info();
        let tools = info.and_then(|info| info.capabilities.tools.clone());
        let announces = tools.is_some_and(|tools| tools.list_changed == Some(true));
        if !announces || self.revision() != Some(Revision::Discovery) {
            return;
        }
        let (peer, changes) = (self.peer(), Arc::clone(&self.changes));
        self.following = Some(tokio::spawn(async move {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut notices) = peer.listen(wanted).await {
                // What changed before it was asked for was not announced.
                changes.fetch_add(1, Ordering::AcqRel);
                while let Ok(Some(_)) = notices.next().await {
                    changes.fetch_add(1, Ordering::AcqRel);
                }
            }
        }));
    }

    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The tool of an order, as it is offered now.
    ///
    /// # Errors
    /// When the server has no such tool, or another one than the model was shown.
    pub(super) async fn offer(
        &mut self,
        tool: &str,
        shown: Option<Digest>,
    ) -> Result<Offer, Fault> {
        if self.changes.load(Ordering::Acquire) != self.listed {
            self.list().await?;
        }
        let Some(offer) = self.offers.get(tool) else {
            let names: Vec<&str> = self.offers.keys().map(String::as_str).collect();
            return Err(Fault::NoTool {
                tool: short(tool),
                has: short(&names.join(", ")),
            });
        };
        match shown.is_some_and(|shown| shown != offer.digest()) {
            true => Err(Fault::OtherTool(short(tool))),
            false => Ok(offer.clone()),
        }
    }

    /// The handle for calls: several calls at once.
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    async fn list(&mut self) -> Result<(), Fault> {
        let changes = self.changes.load(Ordering::Acquire);
        let mut offers = BTreeMap::new();
        let mut cursor = None;
        for _ in 0..MAX_MCP_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.peer().list_tools(Some(page)).await;
            let page = page.map_err(|error| Fault::from(&error))?;
            for tool in page.tools {
                let offer = Offer {
                    description: tool.description.unwrap_or_default().into_owned(),
                    schema: Value::Object((*tool.input_schema).clone()),
                };
                let name = tool.name.into_owned();
                if offers.len() >= MAX_MCP_TOOLS {
                    let text = format!("it has more than {MAX_MCP_TOOLS} tools");
                    return Err(Fault::List(text));
                }
                if offers.insert(name.clone(), offer).is_some() {
                    return Err(Fault::List(format!("it has two tools {:?}", short(&name))));
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                (self.offers, self.listed) = (offers, changes);
                return Ok(());
            }
        }
        Err(Fault::List(format!(
            "it lists its tools on more than {MAX_MCP_PAGES} pages"
        )))
    }

    /// Closes it. Returns how the server ended.
    pub(super) async fn close(mut self) -> String {
        // Closing its input asks it to end. A server that does not is killed, with all that it
        // started.
        let _ = self.service.close_with_timeout(KILL_GRACE).await;
        match self.process.take() {
            Some(process) => process.end().await,
            None => "it closed the connection".to_owned(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
    }
}

pub(super) enum Called {
    /// The server answered.
    Answered(Box<CallToolResult>),
    /// The server asks for more, in place of an end of the call: it may have begun, or may still run.
    Open,
    /// There is no answer: it is unknown whether the call was carried out.
    Lost(Fault),
}

/// Calls a tool. Dropping the call before its end notifies the server.
///
/// # Errors
/// When the server reports that it did not carry out the call, or was certainly not reached.
pub(super) async fn call(
    peer: Peer<RoleClient>,
    tool: String,
    arguments: Map<String, Value>,
    key: String,
) -> Result<Called, Fault> {
    let mut meta = RequestMetaObject::new();
    meta.0.insert(CALL_MEMBER.to_owned(), key.into());
    let mut params = CallToolRequestParams::new(tool).with_arguments(arguments);
    params.meta = Some(meta);
    let error = match peer.call_tool_once(params).await {
        Ok(CallToolResponse::Complete(result)) => return Ok(Called::Answered(Box::new(result))),
        // This client follows no task and answers no questions of a server.
        Ok(_) => return Ok(Called::Open),
        Err(error) => error,
    };
    let fault = Fault::from(&error);
    // The server's own statement: it did not carry out the call.
    match matches!(error, ServiceError::McpError(_)) || fault.is_before_it() {
        true => Err(fault),
        false => Ok(Called::Lost(fault)),
    }
}

fn reach(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Fault> {
    // Another part of the program may have chosen it already; it is the same one then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(MODEL_CONNECT_TIMEOUT)
        // Headers hold secrets, which are for this address alone.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Fault::Unreachable(short(&innermost(&error).to_string())))?;
    let mut custom = std::collections::HashMap::new();
    for (name, value) in headers {
        let name: HeaderName = name
            .parse()
            .map_err(|_| Fault::Header(format!("{name:?} is not a valid name")))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| Fault::Header(format!("the value for {name} is not valid")))?;
        value.set_sensitive(true);
        custom.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(custom)
        .max_sse_event_size(MAX_MCP_MESSAGE_BYTES)
        .max_json_response_size(MAX_MCP_MESSAGE_BYTES)
        // A call that failed is never repeated automatically.
        .reinit_on_expired_session(false);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
