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
    /// That of Goose.
    Goose,
    /// That of Cursor's editor: composers, by keys.
    Cursor,
    /// That of one chat of `cursor-agent`.
    CursorAgent,
}

/// How the rows of a session are found in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A column has the id of the session.
    Column(&'static str),
    /// A column has keys `WORD:ID` and `WORD:ID:…` with one of these words.
    Keys(&'static str, &'static [&'static str]),
    /// All rows are of the only session, which is called as the folder of the database.
    Folder,
}

/// A table with rows of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) owner: Owner,
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
    pub(super) first: First,
}

/// What the first column of a query of stamps has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// The id of a session; the two others are its stamp.
    Session,
    /// A key of a session; the two others are a row id and a size, which are added up.
    Key,
    /// Nothing: the database has one session.
    Nothing,
}

const fn query(table: &'static str, columns: &'static [&'static str], sql: &'static str) -> Query {
    Query {
        table,
        columns,
        sql,
        first: First::Session,
    }
}

/// Where a database has the project of a session, and the session that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) table: &'static str,
    pub(super) id: &'static str,
    pub(super) project: &'static str,
    /// Older versions have no such column.
    pub(super) parent: &'static str,
}

const fn table(name: &'static str, session: &'static str, key: &'static [&'static str]) -> Table {
    Table {
        name,
        owner: Owner::Column(session),
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

const GOOSE: [Table; 4] = [
    Table {
        marks: &["working_dir"],
        changed: Some("updated_at"),
        ..table("sessions", "id", &["id"])
    },
    Table {
        marks: &["role", "content_json", "created_timestamp"],
        ..table("messages", "session_id", &["id"])
    },
    Table {
        is_needed: false,
        ..table("usage_ledger", "session_id", &["id"])
    },
    Table {
        is_needed: false,
        ..table("thread_messages", "session_id", &["id"])
    },
];

/// The words of keys with rows of a composer. Others have copies of files, and states of windows.
pub(super) const COMPOSER: [&str; 3] = ["composerData", "bubbleId", "messageRequestContext"];

const CURSOR: [Table; 2] = [
    Table {
        owner: Owner::Keys("key", &COMPOSER),
        marks: &["value"],
        ..table("cursorDiskKV", "", &["key"])
    },
    Table {
        is_needed: false,
        ..table("composerHeaders", "composerId", &["composerId"])
    },
];

const CURSOR_AGENT: [Table; 2] = [
    Table {
        owner: Owner::Folder,
        marks: &["value"],
        ..table("meta", "", &["key"])
    },
    Table {
        owner: Owner::Folder,
        marks: &["data"],
        ..table("blobs", "", &["id"])
    },
];

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::OpenCode,
        Self::LangGraph,
        Self::OpenAiAgents,
        Self::Goose,
        Self::Cursor,
        Self::CursorAgent,
    ];

    /// The name in the first line of a log.
    pub fn name(self) -> &'static str {
        match self {
            Self::CursorAgent => "cursor-agent",
            _ => self.agent().name(),
        }
    }

    /// The name of its file, where the names of its tables are those of many programs.
    pub(super) fn file_name(self) -> Option<&'static str> {
        match self {
            Self::CursorAgent => Some("store.db"),
            _ => None,
        }
    }

    /// Are rows found by the beginnings of keys? They are compared as bytes of UTF-8.
    pub(super) fn has_keys(self) -> bool {
        let mut tables = self.tables().iter();
        tables.any(|table| matches!(table.owner, Owner::Keys(..)))
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
            Self::Goose => Agent::Goose,
            Self::Cursor | Self::CursorAgent => Agent::Cursor,
        }
    }

    pub(super) fn tables(self) -> &'static [Table] {
        match self {
            Self::OpenCode => &OPENCODE,
            Self::LangGraph => &LANGGRAPH,
            Self::OpenAiAgents => &OPENAI_AGENTS,
            Self::Goose => &GOOSE,
            Self::Cursor => &CURSOR,
            Self::CursorAgent => &CURSOR_AGENT,
        }
    }

    pub(super) fn place(self) -> Option<Place> {
        let (table, project, parent) = match self {
            Self::OpenCode => ("session", "directory", "parent_id"),
            Self::Goose => ("sessions", "working_dir", "parent_session_id"),
            _ => return None,
        };
        Some(Place {
            table,
            id: "id",
            project,
            parent,
        })
    }

    pub(super) fn table(self, name: &str) -> Option<&'static Table> {
        self.tables().iter().find(|table| table.name == name)
    }

    /// Queries of which each gives the id of a session and two values that change when its agent writes.
    /// Each is answered from an index, or from few rows.
    pub(super) fn stamps(self) -> &'static [Query] {
        match self {
            Self::OpenCode => {
                const {
                    &[
                        query(
                            "session",
                            &["id", "time_updated"],
                            "SELECT id, time_updated, 0 FROM session",
                        ),
                        query(
                            "event_sequence",
                            &["aggregate_id", "seq"],
                            "SELECT aggregate_id, seq, 0 FROM event_sequence",
                        ),
                        query(
                            "part",
                            &["session_id"],
                            "SELECT session_id, count(*), max(rowid) FROM part GROUP BY session_id COLLATE BINARY",
                        ),
                        query(
                            "message",
                            &["session_id"],
                            "SELECT session_id, count(*), max(rowid) FROM message GROUP BY session_id COLLATE BINARY",
                        ),
                    ]
                }
            }
            Self::LangGraph => {
                const {
                    &[
                        query(
                            "checkpoints",
                            &["thread_id"],
                            "SELECT thread_id, count(*), max(rowid) FROM checkpoints GROUP BY thread_id COLLATE BINARY",
                        ),
                        query(
                            "writes",
                            &["thread_id"],
                            "SELECT thread_id, count(*), max(rowid) FROM writes GROUP BY thread_id COLLATE BINARY",
                        ),
                    ]
                }
            }
            Self::OpenAiAgents => {
                const {
                    &[
                        query(
                            "agent_sessions",
                            &["session_id", "updated_at"],
                            "SELECT session_id, updated_at, 0 FROM agent_sessions",
                        ),
                        query(
                            "agent_messages",
                            &["session_id", "id"],
                            "SELECT session_id, count(*), max(id) FROM agent_messages GROUP BY session_id COLLATE BINARY",
                        ),
                    ]
                }
            }
            Self::Goose => {
                const {
                    &[
                        query(
                            "sessions",
                            &["id", "updated_at"],
                            "SELECT id, updated_at, 0 FROM sessions",
                        ),
                        query(
                            "messages",
                            &["session_id", "id"],
                            "SELECT session_id, count(*), max(id) FROM messages GROUP BY session_id COLLATE BINARY",
                        ),
                        // Some changes of a message set no time, and others set one of the same second.
                        query(
                            "messages",
                            &["session_id", "content_json", "metadata_json"],
                            "SELECT session_id, sum(octet_length(content_json)), sum(octet_length(metadata_json)) FROM messages GROUP BY session_id COLLATE BINARY",
                        ),
                        query(
                            "usage_ledger",
                            &["session_id", "id"],
                            "SELECT session_id, count(*), max(id) FROM usage_ledger GROUP BY session_id COLLATE BINARY",
                        ),
                    ]
                }
            }
            Self::Cursor => {
                const {
                    &[
                Query {
                    first: First::Key,
                    ..query(
                        "cursorDiskKV",
                        &["key", "value"],
                        "SELECT key, rowid, octet_length(value) FROM cursorDiskKV
                         WHERE key COLLATE BINARY >= 'bubbleId:' AND key COLLATE BINARY < 'bubbleId;'
                            OR key COLLATE BINARY >= 'composerData:' AND key COLLATE BINARY < 'composerData;'
                            OR key COLLATE BINARY >= 'messageRequestContext:' AND key COLLATE BINARY < 'messageRequestContext;'",
                    )
                },
                query(
                    "composerHeaders",
                    &["composerId", "lastUpdatedAt"],
                    "SELECT composerId, lastUpdatedAt, 0 FROM composerHeaders WHERE typeof(composerId) = 'text'",
                ),
            ]
                }
            }
            Self::CursorAgent => {
                const {
                    &[
                        Query {
                            first: First::Nothing,
                            ..query(
                                "meta",
                                &["value"],
                                "SELECT NULL, max(value), count(*) FROM meta",
                            )
                        },
                        Query {
                            first: First::Nothing,
                            ..query(
                                "blobs",
                                &["id"],
                                "SELECT NULL, max(rowid), count(*) FROM blobs",
                            )
                        },
                    ]
                }
            }
        }
    }

    /// The query of a number that the agent only counts up, of the session `?1`.
    pub(super) fn clock(self) -> Option<Query> {
        match self {
            Self::OpenCode => Some(query(
                "event_sequence",
                &["aggregate_id", "seq"],
                "SELECT seq FROM event_sequence WHERE aggregate_id COLLATE BINARY = ?1",
            )),
            Self::OpenAiAgents => Some(query(
                "sqlite_sequence",
                &["name", "seq"],
                "SELECT seq FROM sqlite_sequence WHERE name = 'agent_messages' AND ?1 = ?1",
            )),
            Self::Goose => Some(query(
                "sqlite_sequence",
                &["name", "seq"],
                "SELECT sum(seq) FROM sqlite_sequence WHERE name IN ('messages', 'usage_ledger') AND ?1 = ?1",
            )),
            Self::LangGraph | Self::Cursor | Self::CursorAgent => None,
        }
    }
}

/// The session of a row with this key; `None` if the key is not one of a session.
pub(super) fn session_of_key<'k>(key: &'k str, words: &[&str]) -> Option<&'k str> {
    let (word, rest) = key.split_once(':')?;
    let session = rest.split_once(':').map_or(rest, |(session, _)| session);
    (words.contains(&word) && !session.is_empty()).then_some(session)
}
