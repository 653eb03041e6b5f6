//! The agents whose sessions are captured.
//!
//! | module | owns |
//! |---|---|
//! | [`machine`] | [`Machine`](machine::Machine): the folders, programs and variables of a user |
//! | [`places`] | where each agent has its program, its logs and its settings |
//! | [`found`] | which agents a machine has, with versions and logs |

pub mod found;
pub mod machine;
pub mod places;

use std::fmt;
use std::str::FromStr;
use threadseal_core::error::{Error, ErrorKind};

/// A program whose sessions are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// Google's Gemini CLI.
    Gemini,
    /// OpenCode.
    OpenCode,
    /// GitHub's Copilot CLI.
    Copilot,
    /// Alibaba's Qwen Code.
    Qwen,
    /// pi.
    Pi,
    /// Cline.
    Cline,
    /// Continue.
    Continue,
    /// Aider.
    Aider,
    /// Goose.
    Goose,
    /// Cursor.
    Cursor,
    /// mini-swe-agent.
    MiniSweAgent,
    /// `LangGraph`, with its SQLite checkpointer.
    LangGraph,
    /// The OpenAI Agents SDK, with sessions in SQLite.
    OpenAiAgents,
}

impl Agent {
    /// All agents, those with hooks first.
    pub const ALL: [Self; 15] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Gemini,
        Self::OpenCode,
        Self::Copilot,
        Self::Qwen,
        Self::Pi,
        Self::Cline,
        Self::Continue,
        Self::Aider,
        Self::Goose,
        Self::Cursor,
        Self::MiniSweAgent,
        Self::LangGraph,
        Self::OpenAiAgents,
    ];

    /// The name in commands, and before the colon of a session's id.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Copilot => "copilot",
            Self::Qwen => "qwen",
            Self::Pi => "pi",
            Self::Cline => "cline",
            Self::Continue => "continue",
            Self::Aider => "aider",
            Self::Goose => "goose",
            Self::Cursor => "cursor",
            Self::MiniSweAgent => "mini-swe-agent",
            Self::LangGraph => "langgraph",
            Self::OpenAiAgents => "openai-agents",
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Agent {
    type Err = Error;

    /// # Errors
    /// Kind `InvalidInput` if no agent has this name.
    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|agent| agent.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            let text = format!("no agent is called {name}; it is one of {names}");
            Error::new(ErrorKind::InvalidInput, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_parsed_and_no_other() {
        for agent in Agent::ALL {
            assert_eq!(agent.name().parse::<Agent>().unwrap(), agent);
        }
        let refused = "clyde".parse::<Agent>().unwrap_err();
        assert!(refused.to_string().contains("claude-code"), "{refused}");
    }
}
