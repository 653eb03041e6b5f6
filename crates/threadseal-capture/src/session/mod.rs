//! Sessions: their names, and the files that agents keep them in.
//!
//! ```text
//! path, first bytes ─► Look ─► one reader of each agent ─► SessionFile { session, part, project, growth }
//! claude-code:3f9c1a2e-…   the id     3f9c or claude-code:3f9c   a prefix, which finds it if no other id has it
//! ```
//!
//! Content decides. A path only adds what the content lacks: an id where the program writes none, and
//! the agent of a log in that agent's own folder whose first lines are still few.

mod id;
mod look;

pub use id::{Found, MARK_DIGITS, MAX_SESSION_ID_BYTES, SessionId, SessionPrefix, find, is_beside};

use crate::Agent;
use look::{Look, Outline, hash_name, is_uuid};
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes from the beginning of a file that [`identify`] reads. It may be given fewer or more.
pub const MAX_IDENTIFY_BYTES: usize = 256 << 10;

/// A folder in which an agent keeps its logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder {
    /// The agent.
    pub agent: Agent,
    /// The folder; its logs may be in folders of it.
    pub folder: PathBuf,
}

/// A file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// The session. A subagent's file belongs to the session that started the subagent.
    pub session: SessionId,
    /// Which log of the session the file is.
    pub part: Part,
    /// The project's folder, if the log names it.
    pub project: Option<String>,
    /// How the agent changes the file.
    pub growth: Growth,
}

/// One log of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The session's own log.
    Main,
    /// The log of a subagent.
    SubAgent {
        /// The subagent's id, as its agent spells it.
        name: String,
        /// The id of the session or subagent that started it.
        parent: String,
    },
}

/// How an agent changes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// It appends.
    Appends,
    /// It writes the whole file again: each version is a record of its own.
    Rewrites,
}

impl SessionFile {
    /// The name of this log among all logs: `agent:id`, and `/name` for a subagent's.
    pub fn key(&self) -> String {
        match &self.part {
            Part::Main => self.session.to_string(),
            Part::SubAgent { name, .. } => format!("{}/{name}", self.session),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => out.pad("main"),
            Self::SubAgent { name, .. } => out.pad(name),
        }
    }
}

/// The session that the file at `path` is a log of, from its first bytes; `None` if it is none.
///
/// `head` is the file from its beginning: the whole file, or at least [`MAX_IDENTIFY_BYTES`] of it.
/// `folders` are the folders of the agents that are known.
pub fn identify(path: &Path, head: &[u8], folders: &[AgentFolder]) -> Option<SessionFile> {
    let head = head.get(..MAX_IDENTIFY_BYTES).unwrap_or(head);
    let look = Look::new(path, head, folders)?;
    READERS.iter().find_map(|read| read(&look))
}

type Reader = fn(&Look<'_>) -> Option<SessionFile>;

/// Formats that look like another one are before that one.
const READERS: [Reader; 13] = [
    cursor,
    qwen,
    copilot,
    pi,
    gemini,
    codex,
    opencode,
    cline,
    continue_dev,
    goose,
    mini_swe_agent,
    aider,
    claude_code,
];

/// `{"role":…,"message":{"content":[…]}}` in a folder `agent-transcripts`; the id is the name of the file.
/// A subagent's is in a folder `subagents` of its session's.
fn cursor(look: &Look<'_>) -> Option<SessionFile> {
    if !look.is_below("agent-transcripts") || look.detected() != Some("cursor") {
        return None;
    }
    let (session, part) = match look.subagent_of() {
        Some(parent) => (parent, sub_agent(look.stem(), parent)),
        None => (look.stem(), Part::Main),
    };
    let session = id(Agent::Cursor, session);
    Some(file(session, part, None, Growth::Appends))
}

/// `{"uuid":…,"parentUuid":…,"sessionId":…,"cwd":…,"type":"user","message":{"role":…,"parts":[…]}}`, and
/// `agentId` and `isSidechain` in the log of a subagent that runs in the background
fn qwen(look: &Look<'_>) -> Option<SessionFile> {
    let parts = |line: &Outline| line.has("message.parts") && line.has("parentUuid");
    let line = look.lines().find(|line| parts(line))?;
    let named = line.get("sessionId")?;
    let is_beside = line.get("isSidechain") == Some("true");
    let part = match line.get("agentId").filter(|_| is_beside) {
        Some(name) => sub_agent(name, named),
        None => Part::Main,
    };
    let session = id(Agent::Qwen, named);
    Some(file(session, part, look.first_of("cwd"), Growth::Appends))
}

/// `{"type":"session.start","data":{"sessionId":…,"context":{"cwd":…}},"id":…,"timestamp":…}`
fn copilot(look: &Look<'_>) -> Option<SessionFile> {
    let mut lines = look.lines();
    let start = lines.find(|line| line.get("type") == Some("session.start"))?;
    let session = id(Agent::Copilot, start.get("data.sessionId")?);
    let project = look.first_of("data.context.cwd");
    Some(file(session, Part::Main, project, Growth::Appends))
}

/// `{"type":"session","id":…,"timestamp":…,"cwd":…}`
fn pi(look: &Look<'_>) -> Option<SessionFile> {
    let first = look.lines().next()?;
    let ours = first.get("type") == Some("session") && first.has("timestamp");
    let session = id(Agent::Pi, first.get("id").filter(|_| ours)?);
    let project = first.get("cwd");
    Some(file(session, Part::Main, project, Growth::Appends))
}

/// `{"sessionId":…,"projectHash":…,"startTime":…,"kind":…}`, as first line or as head of a document
fn gemini(look: &Look<'_>) -> Option<SessionFile> {
    let first = look.first()?;
    let named = first
        .get("sessionId")
        .filter(|_| first.has("projectHash"))?;
    let growth = match first.has("messages") {
        true => Growth::Rewrites,
        false => Growth::Appends,
    };
    let (session, part) = match (first.get("kind"), look.folder_name()) {
        (Some("subagent"), Some(parent)) if is_uuid(parent) => {
            (id(Agent::Gemini, parent), sub_agent(named, parent))
        }
        _ => (id(Agent::Gemini, named), Part::Main),
    };
    let project = look.gemini_project(first.get("projectHash"));
    let project = project.as_deref();
    Some(file(session, part, project, growth))
}

/// `{"timestamp":…,"type":"session_meta","payload":{"id":…,"session_id":…,"cwd":…,"source":…}}`, and
/// before version 0.32 `{"id":…,"timestamp":…,"instructions":…}`
fn codex(look: &Look<'_>) -> Option<SessionFile> {
    let first = look.lines().next()?;
    let old = first.has("instructions") && first.has("timestamp") && !first.has("type");
    if old {
        let session = id(Agent::Codex, first.get("id")?);
        return Some(file(session, Part::Main, first.get("cwd"), Growth::Appends));
    }
    let mut lines = look.lines();
    let meta = lines.find(|line| line.get("type") == Some("session_meta"))?;
    let thread = meta.get("payload.id")?;
    let spawned = "payload.source.subagent.thread_spawn.parent_thread_id";
    let parent = meta.get(spawned).or(meta.get("payload.parent_thread_id"));
    let root = meta
        .get("payload.session_id")
        .filter(|root| *root != thread);
    let (session, part) = match (root, parent) {
        (None, None) => (thread, Part::Main),
        (Some(root), parent) => (root, sub_agent(thread, parent.unwrap_or(root))),
        (None, Some(parent)) => (parent, sub_agent(thread, parent)),
    };
    let session = id(Agent::Codex, session);
    let project = meta.get("payload.cwd");
    Some(file(session, part, project, Growth::Appends))
}

/// `{"info":{"id":"ses_…","directory":…},"messages":[{"info":…,"parts":[…]},…]}`
fn opencode(look: &Look<'_>) -> Option<SessionFile> {
    let head = look.first()?;
    let ours = head.has("messages") && (head.has("info.directory") || head.has("info.projectID"));
    let own = head.get("info.id").filter(|_| ours)?;
    let (session, part) = match head.get("info.parentID") {
        Some(parent) => (parent, sub_agent(own, parent)),
        None => (own, Part::Main),
    };
    let session = id(Agent::OpenCode, session);
    let project = head.get("info.directory");
    Some(file(session, part, project, Growth::Rewrites))
}

/// `{"version":1,"updated_at":…,"agent":"lead","sessionId":…,"messages":[{"role":…,…},…]}`
fn cline(look: &Look<'_>) -> Option<SessionFile> {
    let head = look.first()?;
    let ours = head.has("version") && head.has("updated_at") && head.has("messages");
    let named = head.get("sessionId").filter(|_| ours)?;
    let part = match head.get("agent") {
        None | Some("lead") => Part::Main,
        Some(name) => sub_agent(name, named),
    };
    let session = id(Agent::Cline, named);
    Some(file(session, part, None, Growth::Rewrites))
}

/// `{"sessionId":…,"title":…,"workspaceDirectory":…,"history":[{"message":…,"contextItems":…},…]}`
fn continue_dev(look: &Look<'_>) -> Option<SessionFile> {
    let head = look.first()?;
    let ours = head.has("history") && head.has("workspaceDirectory");
    let session = id(Agent::Continue, head.get("sessionId").filter(|_| ours)?);
    let project = head.get("workspaceDirectory");
    Some(file(session, Part::Main, project, Growth::Rewrites))
}

/// `{"working_dir":…,"description":…,"message_count":…,…}` as first line, the id is the name of the
/// file; `{"id":…,"working_dir":…,"conversation":[…]}` if exported
fn goose(look: &Look<'_>) -> Option<SessionFile> {
    let head = look.first()?;
    let project = head.get("working_dir")?;
    let (named, growth) = match (head.get("id"), head.has("conversation")) {
        (Some(named), true) => (named, Growth::Rewrites),
        _ if head.has("message_count") => (look.stem(), Growth::Appends),
        _ => return None,
    };
    let session = id(Agent::Goose, named);
    Some(file(session, Part::Main, Some(project), growth))
}

/// `{"info":{"mini_version":…,…},"messages":[…],"trajectory_format":"mini-swe-agent-…"}`
fn mini_swe_agent(look: &Look<'_>) -> Option<SessionFile> {
    let head = look.document();
    let versioned = head.is_some_and(|head| head.has("info.mini_version"));
    if !versioned && look.detected() != Some("mini-swe-agent") {
        return None;
    }
    let session = SessionId::new(Agent::MiniSweAgent, &look.path_id());
    let project = head.and_then(|head| head.get("info.config.environment.cwd"));
    Some(file(session, Part::Main, project, Growth::Rewrites))
}

/// Markdown with `# aider chat started at …`. All chats of a project are in one file.
fn aider(look: &Look<'_>) -> Option<SessionFile> {
    const START: &[u8] = b"# aider chat started at ";
    let mut lines = look.head().split(|byte| *byte == b'\n');
    let _ = lines.find(|line| line.starts_with(START))?;
    let session = SessionId::new(Agent::Aider, &look.path_id());
    let project = look.folder();
    Some(file(session, Part::Main, project, Growth::Appends))
}

/// Lines with `sessionId`, and `isSidechain` and `agentId` in a subagent's log.
///
/// A resumed or forked log may begin with lines of the earlier session. Claude Code itself finds a
/// session by the name of its file, so that name counts where it is an id.
fn claude_code(look: &Look<'_>) -> Option<SessionFile> {
    let stem = Some(look.stem()).filter(|stem| is_uuid(stem));
    let young = stem.is_some() && look.is_in_folder_of(Agent::ClaudeCode);
    let young = young && look.lines().any(|line| !line.is_empty());
    if look.detected() != Some("claude-code") && !young {
        return None;
    }
    let written = look.first_of("sessionId");
    let agent = look.first_of("agentId");
    let beside = || {
        look.lines()
            .any(|line| line.get("isSidechain") == Some("true"))
    };
    let named = look.stem().strip_prefix("agent-").filter(|_| beside());
    let (session, part) = match (agent.filter(|_| beside()).or(named), written) {
        (Some(name), Some(parent)) => (parent.to_owned(), sub_agent(name, parent)),
        _ => {
            let own = stem.or(written).map(str::to_owned);
            (own.unwrap_or_else(|| look.path_id()), Part::Main)
        }
    };
    let session = id(Agent::ClaudeCode, &session);
    let project = look.first_of("cwd");
    Some(file(session, part, project, Growth::Appends))
}

fn id(agent: Agent, text: &str) -> SessionId {
    SessionId::new(agent, text)
}

fn sub_agent(name: &str, parent: &str) -> Part {
    Part::SubAgent {
        name: hash_name(name),
        parent: hash_name(parent),
    }
}

fn file(session: SessionId, part: Part, project: Option<&str>, growth: Growth) -> SessionFile {
    SessionFile {
        session,
        part,
        project: project.map(str::to_owned),
        growth,
    }
}

#[cfg(test)]
mod tests;
