//! Which tables, sessions and keys the databases of each agent have (`spec/database-sources.md` §1).

use crate::Agent;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// That of OpenCode.
    OpenCode,
    /// Checkpoints of `LangGraph`.
    LangGraph,
    /// Sessions of the OpenAI Agents SDK.
    OpenAiAgents,
}

/// A table with rows of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The column with the id of the session.
    pub(super) session: &'static str,
    /// The columns that distinguish the rows of one session.
    pub(super) key: &'static [&'static str],
    /// Further columns without which it is another program's.
    pub(super) marks: &'static [&'static str],
    /// Is a database without it of another kind?
    pub(super) is_needed: bool,
    /// The column that the agent sets when it changes a row.
    pub(super) changed: Option<&'static str>,
}

/// A query of one table. Only a plain table with these columns is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) table: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) sql: &'static str,
}

const fn table(name: &'static str, session: &'static str, key: &'static [&'static str]) -> Table {
    Table {
        name,
        session,
        key,
        marks: &[],
        is_needed: true,
        changed: None,
    }
}

const fn opencode(name: &'static str, key: &'static [&'static str], is_needed: bool) -> Table {
    Table {
        is_needed,
        changed: Some("time_updated"),
        ..table(name, "session_id", key)
    }
}

const OPENCODE: [Table; 7] = [
    Table {
        marks: &["directory"],
        changed: Some("time_updated"),
        ..table("session", "id", &["id"])
    },
    Table {
        marks: &["data"],
        ..opencode("message", &["id"], true)
    },
    Table {
        marks: &["message_id", "data"],
        ..opencode("part", &["id"], true)
    },
    opencode("session_message", &["id"], false),
    Table {
        changed: None,
        ..opencode("session_input", &["id"], false)
    },
    Table {
        changed: None,
        ..opencode("session_context_epoch", &["session_id"], false)
    },
    opencode("todo", &["position"], false),
];

const LANGGRAPH: [Table; 2] = [
    table(
        "checkpoints",
        "thread_id",
        &["checkpoint_ns", "checkpoint_id"],
    ),
    table(
        "writes",
        "thread_id",
        &["checkpoint_ns", "checkpoint_id", "task_id", "idx"],
    ),
];

const OPENAI_AGENTS: [Table; 2] = [
    Table {
        changed: Some("updated_at"),
        ..table("agent_sessions", "session_id", &["session_id"])
    },
    table("agent_messages", "session_id", &["id"]),
];

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::OpenCode, Self::LangGraph, Self::OpenAiAgents];

    /// The name in the first line of a log.
    pub fn name(self) -> &'static str {
        self.agent().name()
    }

    /// The kind called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whose sessions it has.
    pub fn agent(self) -> Agent {
        match self {
            Self::OpenCode => Agent::OpenCode,
            Self::LangGraph => Agent::LangGraph,
            Self::OpenAiAgents => Agent::OpenAiAgents,
        }
    }

    pub(super) fn tables(self) -> &'static [Table] {
        match self {
            Self::OpenCode => &OPENCODE,
            Self::LangGraph => &LANGGRAPH,
            Self::OpenAiAgents => &OPENAI_AGENTS,
        }
    }

    pub(super) fn table(self, name: &str) -> Option<&'static Table> {
        self.tables().iter().find(|table| table.name == name)
    }

    /// Queries of which each gives the id of a session and two values that change when its agent writes.
    /// Each is answered from an index, or from few rows.
    pub(super) fn stamps(self) -> &'static [Query] {
        match self {
            Self::OpenCode => &[
                Query {
                    table: "session",
                    columns: &["id", "time_updated"],
                    sql: "SELECT id, time_updated, 0 FROM session",
                },
                Query {
                    table: "event_sequence",
                    columns: &["aggregate_id", "seq"],
                    sql: "SELECT aggregate_id, seq, 0 FROM event_sequence",
                },
                Query {
                    table: "part",
                    columns: &["session_id"],
                    sql: "SELECT session_id, count(*), max(rowid) FROM part GROUP BY session_id COLLATE BINARY",
                },
                Query {
                    table: "message",
                    columns: &["session_id"],
                    sql: "SELECT session_id, count(*), max(rowid) FROM message GROUP BY session_id COLLATE BINARY",
                },
            ],
            Self::LangGraph => &[
                Query {
                    table: "checkpoints",
                    columns: &["thread_id"],
                    sql: "SELECT thread_id, count(*), max(rowid) FROM checkpoints GROUP BY thread_id COLLATE BINARY",
                },
                Query {
                    table: "writes",
                    columns: &["thread_id"],
                    sql: "SELECT thread_id, count(*), max(rowid) FROM writes GROUP BY thread_id COLLATE BINARY",
                },
            ],
            Self::OpenAiAgents => &[
                Query {
                    table: "agent_sessions",
                    columns: &["session_id", "updated_at"],
                    sql: "SELECT session_id, updated_at, 0 FROM agent_sessions",
                },
                Query {
                    table: "agent_messages",
                    columns: &["session_id", "id"],
                    sql: "SELECT session_id, count(*), max(id) FROM agent_messages GROUP BY session_id COLLATE BINARY",
                },
            ],
        }
    }

    /// The query of a number that the agent only counts up, of the session `?1`.
    pub(super) fn clock(self) -> Option<Query> {
        match self {
            Self::OpenCode => Some(Query {
                table: "event_sequence",
                columns: &["aggregate_id", "seq"],
                sql: "SELECT seq FROM event_sequence WHERE aggregate_id COLLATE BINARY = ?1",
            }),
            Self::OpenAiAgents => Some(Query {
                table: "sqlite_sequence",
                columns: &["name", "seq"],
                sql: "SELECT seq FROM sqlite_sequence WHERE name = 'agent_messages' AND ?1 = ?1",
            }),
            Self::LangGraph => None,
        }
    }
}
