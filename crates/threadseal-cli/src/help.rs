//! Pages of help: the groups of commands, two examples on each page, and `help TOPIC`.
//!
//! The texts of commands and options are doc comments beside their arguments. `help/examples.txt`
//! has the examples: the name of a page on a line, then its command lines, indented.

use crate::exit;
use crate::missing;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt::Write as _;

const EXAMPLES: &str = include_str!("help/examples.txt");

/// The commands of the main page, everyday ones first.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Everyday commands",
        &[
            "init", "seal", "verify", "list", "search", "show", "view", "watch", "record", "run",
            "demo",
        ],
    ),
    (
        "Agents on this machine",
        &["install", "uninstall", "status", "doctor"],
    ),
    (
        "Reading and proving",
        &[
            "messages",
            "render",
            "prove",
            "check-proof",
            "diff",
            "redact",
            "export",
            "forget",
            "prune",
        ],
    ),
    (
        "Source formats",
        &["transcript", "scroll", "ledger", "lineage"],
    ),
    ("Projects", &["thread", "graph", "knowledge", "worker"]),
    (
        "Keys and operations",
        &[
            "key",
            "id",
            "trust",
            "home",
            "log",
            "anchor",
            "witness",
            "archive",
            "fsck",
            "hook",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// Columns before the text of a command.
const INDENT: usize = 15;
/// Columns of a page, as for all other text of help.
const WIDTH: usize = 100;

/// Fewest letters that a topic and its suggestion begin with.
const MIN_COMMON: usize = 3;

/// Topics beside the names of commands, each with what it is about and its text.
const TOPICS: [(&str, &str, &str); 2] = [
    (
        "exit-codes",
        "What the exit code of a command means",
        exit::HELP,
    ),
    (
        "environment",
        "Variables of the environment, also those with keys for models",
        ENVIRONMENT,
    ),
];

const ENVIRONMENT: &str = "\
Variables of the environment:
  THREADSEAL_HOME       Folder with keys, trusted keys and known heads, unless --home names one
  XDG_DATA_HOME, HOME   Where that folder is by default
  THREADSEAL_DATABASE   PostgreSQL database with the threads, unless --database names one
  THREADSEAL_CONTAINER  1: this process runs in a container
  THREADSEAL_PAGER      Program that shows long sessions [default: $PAGER, else less]
  NO_COLOR              Use no colours
  PGPASSWORD            Password for PostgreSQL, where the address has none
  AWS_…, GOOGLE_…, AZURE_…
                        Keys and place of object storage, as its other programs name them

Keys for models, of which `run`, `graph`, `thread` and `worker` need one:
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY
A project can name others: `key_env` of a provider in .ai/config/agent/models.yaml.";

/// Words of other programs, and the command that does the same here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("add", "import"),
    ("backup", "home backup"),
    ("check", "verify"),
    ("delete", "forget"),
    ("disable", "uninstall"),
    ("find", "search"),
    ("restore", "home restore"),
    ("rotate", "key rotate"),
    ("stop", "uninstall"),
];

/// The command line `definition` with the examples of each page.
pub(crate) fn command(definition: Command) -> Command {
    built(with_examples(definition, "threadseal"))
}

/// The same, with the commands of the main page in groups. It also has the commands that this build
/// lacks, hidden.
pub(crate) fn grouped(definition: Command) -> Command {
    let root = with_examples(definition, "threadseal");
    let root = built(missing::with_stubs(root));
    let groups = groups(&root);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}"
    );
    let names: Vec<String> = root
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect();
    let hidden = names.into_iter().fold(root, |root, name| {
        root.mut_subcommand(name, |inner| inner.hide(true))
    });
    // Without it, the usage would not show that a command follows: all are hidden from clap's list.
    let hidden = hidden.override_usage("threadseal [OPTIONS] <COMMAND>");
    hidden.help_template(template)
}

fn built(mut root: Command) -> Command {
    root.build();
    root
}

/// The page of a topic: the name of a command, with those of its subcommands, or one of [`TOPICS`].
pub(crate) fn page(topic: &[String], definition: Command) -> Option<String> {
    if let [word] = topic
        && let Some((_, _, text)) = TOPICS.iter().find(|(name, ..)| name == word)
    {
        return Some(format!("{text}\n"));
    }
    if topic.is_empty() {
        return Some(grouped(definition).render_long_help().to_string());
    }
    let mut root = command(definition);
    let mut found = &mut root;
    for word in topic {
        found = found.find_subcommand_mut(word)?;
    }
    Some(found.render_long_help().to_string())
}

/// The topics of `help`, for the message about an unknown one.
pub(crate) fn topics() -> String {
    names().join(", ")
}

/// Names the command that does what a word of other programs asks for.
pub(crate) fn suggest(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if let Some((_, command)) = ELSEWHERE.iter().find(|(known, _)| known == word) {
        let command = ContextValue::Strings(vec![(*command).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, command);
    }
}

/// The topic that begins most like `topic`, and at least with three of its letters.
pub(crate) fn nearest(topic: &str) -> Option<&'static str> {
    let common = |name: &str| {
        let pairs = name.bytes().zip(topic.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let likely = names()
        .into_iter()
        .filter(|name| common(name) >= MIN_COMMON);
    likely.max_by_key(|name| (common(name), std::cmp::Reverse(name.len())))
}

fn names() -> Vec<&'static str> {
    let groups = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    let groups = groups.filter(|name| missing::features_of([*name]).is_none());
    groups.chain(TOPICS.map(|(name, ..)| name)).collect()
}

fn with_examples(command: Command, name: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect();
    let command = names.into_iter().fold(command, |command, inner| {
        let path = format!("{name} {inner}");
        command.mut_subcommand(inner, |inner| with_examples(inner, &path))
    });
    let Some(examples) = examples(name) else {
        return command;
    };
    let before = command.get_after_help().map(|text| format!("{text}\n\n"));
    let text = format!("{}Examples:\n{examples}", before.unwrap_or_default());
    command.after_help(text)
}

/// The examples of the page `name`, each on an indented line.
fn examples(name: &str) -> Option<String> {
    let mut lines = EXAMPLES.lines().skip_while(|line| *line != name).skip(1);
    let own: Vec<&str> = lines
        .by_ref()
        .take_while(|line| line.starts_with("  "))
        .collect();
    (!own.is_empty()).then(|| own.join("\n"))
}

fn groups(root: &Command) -> String {
    let mut out = String::new();
    for (heading, names) in GROUPS {
        let is_built = |name: &&&str| missing::features_of([**name]).is_none();
        let names: Vec<&&str> = names.iter().filter(is_built).collect();
        if names.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{heading}:");
        for name in names {
            let about = root.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            add_name(name, &about, &mut out);
        }
        out.push('\n');
    }
    out.push_str("Topics of `threadseal help TOPIC`, beside these commands:\n");
    for (name, about, _) in TOPICS {
        add_name(name, about, &mut out);
    }
    out.push('\n');
    out
}

/// A name and what it is about, in columns.
fn add_name(name: &str, about: &str, out: &mut String) {
    let _ = write!(out, "  {name:<width$}", width = INDENT - 2);
    let mut column = INDENT;
    for (index, word) in about.split_whitespace().enumerate() {
        if index > 0 && column + 1 + word.len() > WIDTH {
            let _ = write!(out, "\n{:INDENT$}", "");
            column = INDENT;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::definition;
    use std::collections::BTreeSet;

    fn pages(command: &Command, name: &str, out: &mut BTreeSet<String>) {
        out.insert(name.to_owned());
        for inner in command.get_subcommands() {
            pages(inner, &format!("{name} {}", inner.get_name()), out);
        }
    }

    #[test]
    fn every_command_has_two_examples_and_a_group() {
        let mut names = BTreeSet::new();
        pages(&definition(), "threadseal", &mut names);
        for name in &names {
            let examples = examples(name).unwrap_or_default();
            assert_eq!(examples.lines().count(), 2, "{name}");
            assert!(
                examples.lines().all(|line| line.contains("threadseal ")),
                "{name}"
            );
        }
        let is_built = |name: &&str| missing::features_of(name.split(' ').skip(1)).is_none();
        let unused = EXAMPLES.lines().filter(|line| !line.starts_with("  "));
        for name in unused.filter(is_built) {
            assert!(names.contains(name), "examples of no command: {name}");
        }
        let grouped = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        let grouped: BTreeSet<&str> = grouped
            .filter(|name| missing::features_of([*name]).is_none())
            .collect();
        let root = definition();
        let listed: BTreeSet<&str> = root.get_subcommands().map(Command::get_name).collect();
        assert_eq!(grouped, listed);
    }

    #[test]
    fn a_topic_is_a_command_or_a_word() {
        let of = |words: &[&str]| {
            page(
                &words
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect::<Vec<_>>(),
                definition(),
            )
        };
        assert!(
            of(&["key", "rotate"])
                .is_some_and(|text| text.contains("Usage: threadseal key rotate"))
        );
        assert!(of(&["exit-codes"]).is_some_and(|text| text.contains("not confirmed")));
        assert_eq!(of(&["nothing"]), None);
        // The main page names each topic, and the keys are those of the built-in providers.
        let main = of(&[]).unwrap_or_default();
        for (name, about, text) in TOPICS {
            assert!(main.contains(about), "{name}");
            assert_eq!(of(&[name]), Some(format!("{text}\n")));
        }
        let models = include_str!("../../threadseal-runtime/builtin/config/agent/models.yaml");
        let keys: Vec<&str> = models
            .split("key_env: ")
            .skip(1)
            .filter_map(|rest| rest.split('}').next())
            .collect();
        assert_eq!(keys.len(), 4);
        assert!(keys.iter().all(|key| ENVIRONMENT.contains(key)), "{keys:?}");
    }
}
