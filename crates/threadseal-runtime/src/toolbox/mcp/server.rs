//! [`Connection`]: the connection to one MCP server.
//!
//! ```text
//! stdio   under a supervisor, listed environment
//!           ─► initialize ─► tools/list ─► tools/call … ─► closed, all of it killed
//! http    reqwest, no redirect, headers
//!           ─► the same
//! ```
//! Every message is bounded before it is read completely. A server's requests are answered with "no
//! such method": it has nothing to ask of us.

use super::address::Address;
use crate::bounds::{
    KILL_GRACE, MAX_MCP_MESSAGE_BYTES, MAX_MCP_PAGES, MAX_MCP_TOOLS, MODEL_CONNECT_TIMEOUT,
    POLL_INTERVAL,
};
use crate::toolbox::supervisor::{Launch, Launched, Tether};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    Implementation, PaginatedRequestParams, RequestMetaObject,
};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, Peer, RoleClient, ServiceError, serve_client};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use tokio::net::unix::pipe::Sender;
use tokio::process::ChildStdout;

/// The member of a call's `_meta` that names it.
const CALL_MEMBER: &str = "threadseal/call";

/// The tool of a server that a caller wants.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) address: Arc<Address>,
    pub(super) tool: String,
    /// The digest of the description that the model was shown, where that came from the server.
    pub(super) shown: Option<Digest>,
}

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
    /// The server announced that its tools changed.
    stale: Arc<AtomicBool>,
    process: Option<Process>,
}

/// A server that was started, or its supervisor.
struct Process {
    child: Option<Child>,
    tether: Tether,
}

impl Process {
    /// Waits until it has ended, without taking note of it: until it is waited for, no other process
    /// gets its number.
    async fn ended(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let number = self
            .child
            .as_ref()
            .and_then(|child| i32::try_from(child.id()).ok());
        while let Some(pid) = number.and_then(Pid::from_raw)
            && let Ok(None) = waitid(WaitId::Pid(pid), options)
        {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tether.cut();
        if let Some(child) = self.child.take() {
            let _ = self.tether.watch(child);
        }
    }
}

/// Receives the notice that tools have changed, and nothing else.
#[derive(Clone)]
pub(super) struct Deaf {
    stale: Arc<AtomicBool>,
}

impl ClientHandler for Deaf {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("threadseal", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.stale.store(true, Ordering::Release);
    }
}

impl Connection {
    /// Reaches a server and lists its tools.
    ///
    /// # Errors
    /// Kind `External` when it cannot be reached or does not use MCP, `Refused` when its offer
    /// exceeds the bounds.
    pub(super) async fn open(address: &Address) -> Result<Self, Error> {
        let stale = Arc::new(AtomicBool::new(false));
        let handler = Deaf {
            stale: Arc::clone(&stale),
        };
        let (service, process) = match address {
            Address::Stdio {
                argv,
                directory,
                environment,
                supervisor,
            } => {
                let launch = Launch {
                    argv,
                    directory,
                    environment,
                    // For people, and not read: a flood of it costs nothing.
                    stderr: Stdio::null(),
                };
                let Launched {
                    mut child,
                    input,
                    tether,
                } = launch.start(supervisor.as_ref())?;
                let output = child.stdout.take();
                let process = Process {
                    child: Some(child),
                    tether,
                };
                let output = output.ok_or_else(|| failed("it has no standard output"))?;
                let broken = |error: io::Error| failed(&error.to_string());
                let output = ChildStdout::from_std(output).map_err(broken)?;
                let input = Sender::from_owned_fd(input.into()).map_err(broken)?;
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(output, input)
                    .with_max_line_length(MAX_MCP_MESSAGE_BYTES);
                let service = serve_client(handler, transport).await;
                (
                    service.map_err(|error| failed(&error.to_string()))?,
                    Some(process),
                )
            }
            Address::Http { url, headers } => {
                let service = serve_client(handler, reach(url, headers)?).await;
                (service.map_err(|error| failed(&error.to_string()))?, None)
            }
        };
        let mut connection = Self {
            service,
            offers: BTreeMap::new(),
            stale,
            process,
        };
        connection.list().await?;
        Ok(connection)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The tool of an order, as it is offered now.
    ///
    /// # Errors
    /// Kind `Refused` when the server has no such tool, or another one than the model was shown.
    pub(super) async fn offer(&mut self, order: &Order) -> Result<Offer, Error> {
        if self.stale.swap(false, Ordering::AcqRel) {
            self.list().await?;
        }
        let offer = self
            .offers
            .get(&order.tool)
            .ok_or_else(|| Error::refused(format!("the server has no tool {:?}", order.tool)))?;
        if order.shown.is_some_and(|shown| shown != offer.digest()) {
            return Err(Error::refused(format!(
                "the server now offers another {:?} than this thread was shown: it is not called",
                order.tool
            )));
        }
        Ok(offer.clone())
    }

    /// The handle for calls: several calls at once.
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    async fn list(&mut self) -> Result<(), Error> {
        let mut offers = BTreeMap::new();
        let mut cursor = None;
        for _ in 0..MAX_MCP_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.peer().list_tools(Some(page)).await;
            let page = page.map_err(|error| failed(&error.to_string()))?;
            for tool in page.tools {
                let offer = Offer {
                    description: tool.description.unwrap_or_default().into_owned(),
                    schema: Value::Object((*tool.input_schema).clone()),
                };
                let name = tool.name.into_owned();
                if offers.len() >= MAX_MCP_TOOLS {
                    let text = format!("the server has more than {MAX_MCP_TOOLS} tools");
                    return Err(Error::new(ErrorKind::Limit, text));
                }
                if offers.insert(name.clone(), offer).is_some() {
                    return Err(Error::refused(format!("the server has two tools {name:?}")));
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                self.offers = offers;
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::Limit,
            format!("the server lists its tools on more than {MAX_MCP_PAGES} pages"),
        ))
    }

    pub(super) async fn close(mut self) {
        // Closing its input asks it to end. A server that does not is killed, with all that it
        // started.
        let _ = self.service.close_with_timeout(KILL_GRACE).await;
        if let Some(mut process) = self.process.take() {
            let _ = tokio::time::timeout(KILL_GRACE, process.ended()).await;
            process.tether.cut();
            let _ = tokio::time::timeout(KILL_GRACE, process.ended()).await;
        }
    }
}

pub(super) enum Called {
    /// The server answered.
    Answered(Box<CallToolResult>),
    /// There is no answer, or none that ends the call: it is unknown whether it was carried out.
    Lost(String),
}

/// Calls a tool. Dropping the call before its end notifies the server.
///
/// # Errors
/// When the server reports that it did not carry out the call.
pub(super) async fn call(
    peer: Peer<RoleClient>,
    tool: String,
    arguments: Map<String, Value>,
    key: String,
) -> Result<Called, Error> {
    let mut meta = RequestMetaObject::new();
    meta.0.insert(CALL_MEMBER.to_owned(), key.into());
    let mut params = CallToolRequestParams::new(tool).with_arguments(arguments);
    params.meta = Some(meta);
    match peer.call_tool_once(params).await {
        Ok(CallToolResponse::Complete(result)) => Ok(Called::Answered(Box::new(result))),
        // It may have begun, or may still run: this client follows no task and answers no questions
        // of a server.
        Ok(_) => Ok(Called::Lost(
            "the server did not end the call, and asks for more than was called for".to_owned(),
        )),
        // The server's own statement: it did not carry out the call.
        Err(ServiceError::McpError(error)) => Err(failed(&error.message)),
        Err(error) => Ok(Called::Lost(format!(
            "no answer, and whether it was carried out is not known: {error}"
        ))),
    }
}

fn reach(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Error> {
    // Another part of the program may have chosen it already; it is the same one then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(MODEL_CONNECT_TIMEOUT)
        // Headers hold secrets, which are for this address alone.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| failed(&error.to_string()))?;
    let mut custom = std::collections::HashMap::new();
    for (name, value) in headers {
        let name: HeaderName = name
            .parse()
            .map_err(|_| Error::invalid(format!("{name:?} is not a valid header name")))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            Error::invalid(format!("the value for {name} is not a valid header value"))
        })?;
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

fn failed(why: &str) -> Error {
    let why: String = why.chars().take(500).collect();
    Error::new(ErrorKind::External, format!("MCP server: {why}"))
}
