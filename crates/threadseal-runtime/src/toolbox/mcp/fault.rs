//! [`Fault`]: what is wrong with an MCP server, and what its user can do about it.

use crate::bounds::{MAX_MCP_TEXT_CHARS, MCP_FAILURE_WINDOW};
use rmcp::ServiceError;
use rmcp::model::ProtocolVersion;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};
use std::error::Error as StdError;
use std::fmt;
use threadseal_core::error::{Error, ErrorKind};

/// Where the declarations of tools are.
const DECLARED: &str = "in the tool's declaration below .ai/tools";

/// What is wrong with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its program, or the supervisor of that, does not start.
    CannotStart(String),
    /// It closed the connection: how it ended.
    Ended(String),
    /// The connection broke: why.
    Broke(String),
    /// It did not answer within the time of the tool.
    TooLong,
    /// The caller stopped waiting, for this reason.
    Stopped(String),
    /// No connection to its address.
    Unreachable(String),
    /// A header for it cannot be sent.
    Header(String),
    /// It answered with this status of HTTP.
    Status(u16),
    /// Its own error.
    Answered { code: i32, message: String },
    /// What it sent is not MCP, or not as MCP asks for.
    NotMcp(String),
    /// It speaks none of our revisions.
    Revisions(String),
    /// It has no tool of this name, but these.
    NoTool { tool: String, has: String },
    /// Its tool is another one than the thread was shown.
    OtherTool(String),
    /// Its list of tools is beyond a bound, or contradicts itself.
    List(String),
    /// It failed so often, last for this reason; tried again after so many seconds.
    TooOften {
        times: usize,
        last: String,
        seconds: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotStart(why) => write!(f, "it cannot be started: {why}"),
            Self::Ended(how) => f.write_str(how),
            Self::Broke(why) => write!(f, "its connection broke: {why}"),
            Self::TooLong => f.write_str("it took too long and was given up"),
            Self::Stopped(why) => write!(f, "the call was stopped, for {why}"),
            Self::Unreachable(why) => write!(f, "it cannot be reached: {why}"),
            Self::Header(what) => write!(f, "a header for it cannot be sent: {what}"),
            Self::Status(status) => write!(f, "it answers with status {status} of HTTP"),
            Self::Answered { code, message } => write!(f, "it answers {message:?} (code {code})"),
            Self::NotMcp(what) => write!(f, "its answer is not valid MCP: {what}"),
            Self::Revisions(its) => write!(f, "it speaks other revisions of MCP: {its}"),
            Self::NoTool { tool, .. } => write!(f, "it has no tool {tool:?}"),
            Self::OtherTool(tool) => write!(
                f,
                "it now offers another {tool:?} than this thread was shown, which is not called"
            ),
            Self::List(why) => f.write_str(why),
            Self::TooOften { times, last, .. } => write!(
                f,
                "it failed {times} times within {} s, last because: {last}",
                MCP_FAILURE_WINDOW.as_secs()
            ),
        }
    }
}

impl Fault {
    /// The error about `server`: what failed, why, and the next step.
    pub(super) fn of(&self, server: &str) -> Error {
        let text = format!("MCP server {server}: {self}; hint: {}", self.hint());
        Error::new(self.kind(), text)
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTool { .. } | Self::OtherTool(_) => ErrorKind::Refused,
            Self::List(_) => ErrorKind::Limit,
            Self::Header(_) => ErrorKind::InvalidInput,
            _ => ErrorKind::External,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::CannotStart(_) => format!("install the program, or correct `command` {DECLARED}"),
            Self::Ended(_) | Self::NotMcp(_) => {
                "run the server by hand in the folder and environment that the tool declares"
                    .to_owned()
            }
            Self::TooLong => format!("look at the server, or raise `timeout_seconds` {DECLARED}"),
            Self::Stopped(_) => {
                "run the thread again, with more time where it had too little".to_owned()
            }
            Self::Unreachable(_) => format!("start the server, or correct `url` {DECLARED}"),
            Self::Status(401 | 403) | Self::Header(_) => {
                format!("set the variable that `header_env` names {DECLARED} to a valid credential")
            }
            Self::Status(404 | 405) => format!("correct the path of `url` {DECLARED}"),
            Self::Status(429) => "wait, and call it less often".to_owned(),
            Self::Status(_) | Self::Broke(_) => "look at the log of the server".to_owned(),
            Self::Answered { .. } => "compare the arguments with the schema of the tool".to_owned(),
            Self::Revisions(_) => {
                "use a version of the server that speaks 2025-11-25 or 2026-07-28".to_owned()
            }
            Self::NoTool { has, .. } => {
                format!("name one of its tools as `tool` {DECLARED}: {has}")
            }
            Self::OtherTool(_) => "look at its new description, and start a new thread".to_owned(),
            Self::List(_) => "use a server with a shorter and valid list of tools".to_owned(),
            Self::TooOften { seconds, .. } => {
                format!("repair the server; it is tried again in {seconds} s")
            }
        }
    }

    /// Has the server certainly not seen what was sent?
    pub(super) fn is_before_it(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Status(401 | 403 | 404))
    }
}

impl From<&ServiceError> for Fault {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Answered {
                code: error.code.0,
                message: short(&error.message),
            },
            ServiceError::TransportSend(error) => Self::from(error),
            ServiceError::TransportClosed => Self::Ended("it closed the connection".to_owned()),
            other => Self::NotMcp(short(&other.to_string())),
        }
    }
}

impl From<&ClientInitializeError> for Fault {
    fn from(error: &ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => Self::Answered {
                code: error.code.0,
                message: short(&error.message),
            },
            ClientInitializeError::ConnectionClosed(_) => {
                Self::Ended("it closed the connection before its first answer".to_owned())
            }
            ClientInitializeError::TransportError { error, .. } => Self::from(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::from(&**fallback),
            ClientInitializeError::NoCompatibleProtocolVersion {
                server_supported, ..
            } => {
                let its: Vec<&str> = server_supported
                    .iter()
                    .map(ProtocolVersion::as_str)
                    .collect();
                Self::Revisions(short(&its.join(", ")))
            }
            other => Self::NotMcp(short(&other.to_string())),
        }
    }
}

impl From<&DynamicTransportError> for Fault {
    fn from(error: &DynamicTransportError) -> Self {
        let mut deepest: &(dyn StdError + 'static) = &*error.error;
        loop {
            if let Some(fault) = over_http(deepest) {
                return fault;
            }
            match deepest.source() {
                Some(source) => deepest = source,
                None => break,
            }
        }
        Self::Broke(short(&deepest.to_string()))
    }
}

/// The fault that an error of HTTP is, if it is one.
fn over_http(error: &(dyn StdError + 'static)) -> Option<Fault> {
    if error.is::<AuthRequiredError>() {
        return Some(Fault::Status(401));
    }
    if error.is::<InsufficientScopeError>() {
        return Some(Fault::Status(403));
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
        StreamableHttpError::Client(error) => Some(of_request(error)),
        // A status and the begin of a body, which the library has as text alone.
        StreamableHttpError::UnexpectedServerResponse(text) => {
            let status = text
                .strip_prefix("HTTP ")
                .and_then(|text| text.get(..3)?.parse().ok());
            Some(status.map_or_else(|| Fault::NotMcp(short(text)), Fault::Status))
        }
        StreamableHttpError::HttpStatus(error) => Some(Fault::Status(error.status)),
        StreamableHttpError::SessionExpired => Some(Fault::Ended("its session ended".to_owned())),
        error @ (StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::Deserialize(_)
        | StreamableHttpError::ResponseBodyTooLarge { .. }
        | StreamableHttpError::MissingSessionIdInResponse
        | StreamableHttpError::Sse(_)) => Some(Fault::NotMcp(short(&error.to_string()))),
        _ => None,
    }
}

/// The fault of a request without its URL, whose query may hold a secret.
fn of_request(error: &reqwest::Error) -> Fault {
    let reason = match error.source() {
        Some(source) => short(&innermost(source).to_string()),
        None => "the request failed".to_owned(),
    };
    match (error.status(), error.is_connect()) {
        (Some(status), _) => Fault::Status(status.as_u16()),
        (None, true) => Fault::Unreachable(reason),
        (None, false) => Fault::Broke(reason),
    }
}

/// The cause of all causes of an error.
pub(super) fn innermost<'e>(error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

/// The begin of a text that came from a server.
pub(super) fn short(text: &str) -> String {
    text.chars().take(MAX_MCP_TEXT_CHARS).collect()
}
