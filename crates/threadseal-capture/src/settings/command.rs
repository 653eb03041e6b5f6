//! The command line of a hook, as a shell reads it.
//!
//! ```text
//! '/opt/thread seal/threadseal' [--home '/srv/home'] hook claude-code [--strict]
//! ```
//! A hook is ours if its command has exactly this form and its program is called `threadseal`, or is
//! a program that this home installed. Any further word, pipe or variable makes it a hook of the
//! user.

use crate::agent::Agent;
use crate::agent::machine::System;
use std::path::{Path, PathBuf};

/// The name of the program in any version.
const PROGRAM: &str = "threadseal";

/// A command that an agent runs at its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// The agent that runs it.
    pub agent: Agent,
    /// The home, unless it is the default one.
    pub home: Option<PathBuf>,
    /// Does the agent wait for the seal?
    pub strict: bool,
}

impl HookCommand {
    /// The text for the shell of `system`.
    pub fn spelled(&self, system: System) -> String {
        let quoted = |path: &Path| quoted(&path.to_string_lossy(), system);
        // The command passes over words after the agent that it does not know, also `--home`.
        let home = self.home.as_deref().map(quoted);
        let home = home.map_or_else(String::new, |home| format!(" --home {home}"));
        let strict = if self.strict { " --strict" } else { "" };
        let program = quoted(&self.program);
        format!("{program}{home} hook {}{strict}", self.agent)
    }

    /// Reads a command of this form; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        let words = words(text)?;
        let mut words = words.iter().map(String::as_str);
        let program = PathBuf::from(words.next()?);
        let mut home = None;
        let mut word = words.next()?;
        if word == "--home" {
            home = Some(PathBuf::from(words.next()?));
            word = words.next()?;
        }
        if word != "hook" {
            return None;
        }
        let mut command = Self {
            program,
            agent: words.next()?.parse().ok()?,
            home,
            strict: false,
        };
        while let Some(option) = words.next() {
            match option {
                "--strict" if !command.strict => command.strict = true,
                "--home" if command.home.is_none() => {
                    command.home = Some(PathBuf::from(words.next()?));
                }
                _ => return None,
            }
        }
        Some(command)
    }

    /// Is `text` a hook of ours, of this version or another one?
    pub fn is_ours(text: &str, installed: &[PathBuf]) -> bool {
        Self::parse(text).is_some_and(|command| {
            let name = command.program.file_stem();
            name.is_some_and(|name| name == PROGRAM) || installed.contains(&command.program)
        })
    }
}

/// One word for a shell.
fn quoted(word: &str, system: System) -> String {
    match system {
        System::Windows => format!("\"{word}\""),
        System::Unix | System::MacOs => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The words of a command without variables, pipes or other signs of a shell.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                quote(word, &mut letters, '\'')?;
            }
            '"' => {
                let word = word.get_or_insert_default();
                let start = word.len();
                quote(word, &mut letters, '"')?;
                // A backslash before a quote, and a variable, mean more than they show.
                if word[start..].contains(['$', '`']) || word.ends_with('\\') {
                    return None;
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next()?),
            _ if is_plain(letter) => word.get_or_insert_default().push(letter),
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

/// Reads up to the closing quote.
fn quote(word: &mut String, letters: &mut impl Iterator<Item = char>, end: char) -> Option<()> {
    loop {
        match letters.next()? {
            letter if letter == end => return Some(()),
            letter => word.push(letter),
        }
    }
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || "/-_.,:+@%=~".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn command(program: &str, home: Option<&str>, strict: bool) -> HookCommand {
        HookCommand {
            program: program.into(),
            agent: Agent::ClaudeCode,
            home: home.map(PathBuf::from),
            strict,
        }
    }

    // T-CAP-01
    #[test]
    fn a_shell_runs_the_program_whatever_its_path_holds() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "plain",
            "two words",
            "it's",
            "$(touch x)",
            "a\"b",
            "; exit 3 #",
        ] {
            let program = folder.path().join(name);
            let script = "#!/bin/sh\nprintf '%s|' \"$@\"\n";
            std::fs::write(&program, script).unwrap();
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let home = "/srv/it's a home";
            let text = command(program.to_str().unwrap(), Some(home), true).spelled(System::Unix);
            let ran = Command::new("sh").arg("-c").arg(&text).output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&ran.stdout),
                format!("--home|{home}|hook|claude-code|--strict|"),
                "{text}"
            );
            let parsed = HookCommand::parse(&text).unwrap();
            assert_eq!(parsed.program, program);
            assert_eq!(parsed.home.as_deref(), Some(Path::new(home)));
            assert!(HookCommand::is_ours(&text, &[program]));
        }
    }

    // T-CAP-02
    #[test]
    fn a_hook_of_the_user_that_names_this_program_is_not_ours() {
        let ours = |text: &str| HookCommand::is_ours(text, &["/opt/renamed".into()]);
        for text in [
            "threadseal hook claude-code",
            "/old/place/threadseal hook codex",
            "'/a b/threadseal' --home '/h' hook claude-code",
            "'/a b/threadseal' hook claude-code --home '/h'",
            "\"C:/x y/threadseal.exe\" hook gemini",
            "/opt/renamed hook qwen --strict",
        ] {
            assert!(ours(text), "{text}");
        }
        for text in [
            "threadseal seal x.jsonl",
            "threadseal hook",
            "threadseal hook unknown-agent",
            "threadseal hook claude-code | tee log",
            "threadseal hook claude-code; rm x",
            "threadseal hook claude-code > /dev/null",
            "KEY=1 threadseal hook claude-code",
            "$BIN/threadseal hook claude-code",
            "threadseal hook claude-code --verbose",
            "threadseal hook claude-code --home",
            "threadseal --home /h",
            "threadseal --json hook claude-code",
            "my-threadseal hook claude-code",
            "echo threadseal hook claude-code",
            "'threadseal hook claude-code",
            "\"$HOME/threadseal\" hook claude-code",
            "",
        ] {
            assert!(!ours(text), "{text}");
        }
    }
}
