//! The file that OpenCode loads: a module that pipes payloads to our hook.
//!
//! ```text
//! // threadseal sha256:<64 hex digits: the rest of the file>
//! const command = ["/opt/threadseal", "hook", "opencode"]
//! …
//! ```
//! OpenCode keeps its sessions in SQLite, so a payload names the session and the database. The first
//! line proves that no one edited the file: such a file of any version may be replaced or removed.
//!
//! The payload, on standard input of the hook:
//!
//! | member | value |
//! |---|---|
//! | `session_id` | the session |
//! | `hook_event_name` | `session.idle`, `session.compacted`, `session.error`, `tool.execute.after`, `dispose` |
//! | `cwd` | the folder of the project |
//! | `database` | the path of OpenCode's database |
//! | `tool_name`, `tool_use_id` | after a tool, its name and the id of the call |

use super::HookCommand;
use threadseal_core::digest::Digest;

/// The body, before the command is put in.
const BODY: &str = include_str!("plugin/opencode.js");
/// Where the command goes.
const COMMAND: &str = "[\"threadseal\"]";
const MARK: &str = "threadseal sha256:";
/// The end of a comment in XML.
pub(crate) const XML_END: &str = " -->";

/// The text of the plugin.
pub fn opencode(command: &HookCommand) -> String {
    let mut words = vec![command.program.to_string_lossy().into_owned()];
    if let Some(home) = &command.home {
        words.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
    }
    words.extend(["hook".to_owned(), command.agent.name().to_owned()]);
    let words = serde_json::Value::from(words).to_string();
    marked("//", "", &BODY.replacen(COMMAND, &words, 1))
}

/// The program and the arguments that a plugin of ours runs.
pub fn command_of(text: &str) -> Option<Vec<String>> {
    let line = text
        .lines()
        .find(|line| line.starts_with("const command = "))?;
    serde_json::from_str(line.trim_start_matches("const command = ")).ok()
}

/// A text with a first line that proves the rest: a comment between `start` and `end`.
pub fn marked(start: &str, end: &str, body: &str) -> String {
    let digest = Digest::of(body.as_bytes()).to_hex();
    format!("{start} {MARK}{digest}{end}\n{body}")
}

/// Has the text the first line of a file of ours?
pub fn has_mark(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.contains(MARK))
}

/// Is it a file of ours, of any version, that no one edited?
pub fn is_unedited(text: &str) -> bool {
    let Some((first, body)) = text.split_once('\n') else {
        return false;
    };
    let digest = Digest::of(body.as_bytes()).to_hex();
    first.split_once(MARK).is_some_and(|(_, rest)| {
        let end = rest.strip_prefix(&digest);
        end.is_some_and(|end| end.is_empty() || end == XML_END)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;

    // T-CAP-06
    #[test]
    fn a_plugin_proves_that_no_one_edited_it() {
        let text = opencode(&HookCommand {
            program: "/opt/it's \"quoted\"/threadseal".into(),
            agent: Agent::OpenCode,
            home: Some("/srv/home".into()),
            strict: false,
        });
        assert!(is_unedited(&text) && has_mark(&text));
        assert_eq!(
            command_of(&text).unwrap(),
            [
                "/opt/it's \"quoted\"/threadseal",
                "--home",
                "/srv/home",
                "hook",
                "opencode"
            ]
        );
        for edited in [
            format!("{text}\n"),
            text.replace("session.idle", "session.idler"),
            text.replacen("sha256:", "sha256:0", 1),
            text.lines().skip(1).collect::<Vec<_>>().join("\n"),
            String::new(),
        ] {
            assert!(!is_unedited(&edited), "{edited}");
        }
    }
}
