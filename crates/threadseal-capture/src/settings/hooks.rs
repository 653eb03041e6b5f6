//! Which events of which agent run a hook, with the time limit in the agent's own unit.
//!
//! | agent | unit |
//! |---|---|
//! | Claude Code, Codex, Copilot | seconds |
//! | Gemini, Qwen | milliseconds |
//!
//! A matcher is written only where tools are matched: elsewhere it would match sources or reasons.

use super::HookCommand;
use crate::agent::Agent;
use crate::agent::machine::System;

/// The name of our hooks, where an agent shows or disables hooks by name.
pub const HOOK_NAME: &str = "threadseal";

/// Longest time in seconds that an agent waits for a hook.
const LIMIT: u32 = 20;
/// Codex cuts the hook at the end of a session after three seconds.
const LIMIT_OF_CODEX_END: u32 = 3;
const EACH_TOOL: Option<&str> = Some("*");

/// One hook, as a file of settings holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEntry {
    /// The event.
    pub event: &'static str,
    /// Which tools, where tools are matched.
    pub matcher: Option<&'static str>,
    /// The name, if the agent takes one.
    pub name: Option<&'static str>,
    /// The command line.
    pub command: String,
    /// The time limit in the unit of the agent.
    pub timeout: u32,
}

/// The hooks of an agent that takes them from JSON; none for another.
pub fn entries(command: &HookCommand, system: System) -> Vec<HookEntry> {
    let agent = command.agent;
    let events = events(agent).iter();
    let strict = before_tool(agent).filter(|_| command.strict);
    let events = events.copied().chain(strict);
    let entry = |(event, matcher): (&'static str, Option<&'static str>)| {
        let strict = strict.is_some_and(|strict| strict.0 == event);
        let command = HookCommand {
            strict,
            ..command.clone()
        };
        HookEntry {
            event,
            matcher,
            name: named(agent),
            command: command.spelled(system),
            timeout: limit(agent, event),
        }
    };
    events.map(entry).collect()
}

type Event = (&'static str, Option<&'static str>);

/// Where a turn begins and ends, a tool has run, the conversation is shortened, the session ends.
fn events(agent: Agent) -> &'static [Event] {
    match agent {
        Agent::ClaudeCode | Agent::Qwen => &[
            ("SessionStart", None),
            ("UserPromptSubmit", None),
            ("PostToolUse", EACH_TOOL),
            ("PostToolUseFailure", EACH_TOOL),
            ("SubagentStop", None),
            ("PreCompact", None),
            ("Stop", None),
            ("SessionEnd", None),
        ],
        Agent::Codex => &[
            ("SessionStart", None),
            ("UserPromptSubmit", None),
            ("PostToolUse", EACH_TOOL),
            ("SubagentStop", None),
            ("PreCompact", None),
            ("Stop", None),
            ("SessionEnd", None),
        ],
        Agent::Gemini => &[
            ("SessionStart", None),
            ("BeforeAgent", None),
            ("AfterTool", EACH_TOOL),
            ("PreCompress", None),
            ("AfterAgent", None),
            ("SessionEnd", None),
        ],
        Agent::Copilot => &[
            ("sessionStart", None),
            ("userPromptSubmitted", None),
            ("postToolUse", None),
            ("subagentStop", None),
            ("preCompact", None),
            ("agentStop", None),
            ("sessionEnd", None),
        ],
        _ => &[],
    }
}

/// The event that can refuse a tool.
fn before_tool(agent: Agent) -> Option<Event> {
    match agent {
        Agent::ClaudeCode | Agent::Qwen | Agent::Codex => Some(("PreToolUse", EACH_TOOL)),
        Agent::Gemini => Some(("BeforeTool", EACH_TOOL)),
        Agent::Copilot => Some(("preToolUse", None)),
        _ => None,
    }
}

fn named(agent: Agent) -> Option<&'static str> {
    matches!(agent, Agent::Gemini | Agent::Qwen).then_some(HOOK_NAME)
}

fn limit(agent: Agent, event: &str) -> u32 {
    match (agent, event) {
        (Agent::Codex, "SessionEnd") => LIMIT_OF_CODEX_END,
        (Agent::Gemini | Agent::Qwen, _) => LIMIT * 1000,
        _ => LIMIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(agent: Agent, strict: bool) -> Vec<HookEntry> {
        let command = HookCommand {
            program: "/opt/threadseal".into(),
            agent,
            home: None,
            strict,
        };
        entries(&command, System::Unix)
    }

    #[test]
    fn only_strict_hooks_run_before_tools() {
        for agent in Agent::ALL {
            let plain = of(agent, false);
            let before = before_tool(agent).map(|event| event.0);
            assert!(plain.iter().all(|entry| Some(entry.event) != before));
            assert!(plain.iter().all(|entry| !entry.command.contains("strict")));
            let strict = of(agent, true);
            let added = strict.len() - plain.len();
            assert_eq!(added, usize::from(before.is_some()), "{agent}");
            let waiting = strict
                .iter()
                .filter(|entry| entry.command.contains("--strict"));
            assert_eq!(waiting.count(), added, "{agent}");
        }
    }

    #[test]
    fn time_limits_are_in_the_unit_of_the_agent() {
        let longest = |agent| of(agent, true).iter().map(|entry| entry.timeout).max();
        assert_eq!(longest(Agent::ClaudeCode), Some(20));
        assert_eq!(longest(Agent::Gemini), Some(20_000));
        let codex = of(Agent::Codex, false);
        let end = codex.iter().find(|entry| entry.event == "SessionEnd");
        assert_eq!(end.unwrap().timeout, 3);
    }
}
