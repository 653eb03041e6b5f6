//! What this build of the command lacks: features, their commands, and the errors about them.

use crate::exit::{Failure, hint, with_hint};
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;
use std::fmt::Display;
#[cfg(not(all(feature = "agent", feature = "cloud")))]
use threadseal_core::error::Unbuilt;
#[cfg(not(all(feature = "agent", feature = "cloud")))]
use threadseal_verify::address::without_secrets;
use threadseal_verify::output::PathError;

/// Threads in databases need the engine and PostgreSQL.
const WORKERS: bool = cfg!(all(feature = "agent", feature = "cloud"));

/// Commands that need features: the command, the features, and whether this build has them.
const COMMANDS: [(&[&str], &str, bool); 22] = [
    (&["run"], "agent", cfg!(feature = "agent")),
    (&["thread"], "agent", cfg!(feature = "agent")),
    (&["graph"], "agent", cfg!(feature = "agent")),
    (&["knowledge"], "agent", cfg!(feature = "agent")),
    (&["worker"], "agent,cloud", WORKERS),
    (&["thread", "export"], "agent,cloud", WORKERS),
    (&["list"], "capture", cfg!(feature = "capture")),
    (&["search"], "capture", cfg!(feature = "capture")),
    (&["export"], "capture", cfg!(feature = "capture")),
    (&["forget"], "capture", cfg!(feature = "capture")),
    (&["archive"], "capture", cfg!(feature = "capture")),
    (&["hook"], "capture", cfg!(feature = "capture")),
    (&["scroll", "from"], "convert", cfg!(feature = "convert")),
    (&["scroll", "to"], "convert", cfg!(feature = "convert")),
    (&["install"], "capture", cfg!(feature = "capture")),
    (&["uninstall"], "capture", cfg!(feature = "capture")),
    (&["status"], "capture", cfg!(feature = "capture")),
    (&["doctor"], "capture", cfg!(feature = "capture")),
    (&["home"], "backup", cfg!(feature = "backup")),
    (&["view"], "view", cfg!(feature = "view")),
    (&["anchor"], "cloud", cfg!(feature = "cloud")),
    (&["witness"], "cloud", cfg!(feature = "cloud")),
];

/// The failure of an action that needs these features.
pub(crate) fn failure(action: impl Display, features: &str) -> Failure {
    let named = match features.contains(',') {
        true => "features",
        false => "feature",
    };
    Failure::new(format!(
        "cannot {action}: this program was built without the {named} {features}; {}",
        hint(features)
    ))
}

/// The failure of an action on threads in the database at `url`.
#[cfg(not(all(feature = "agent", feature = "cloud")))]
pub(crate) fn no_threads_in(url: &str) -> Failure {
    let error = Unbuilt::ThreadDatabases.error(format_args!("open {}", without_secrets(url)));
    error.into()
}

/// Names the feature that has the part which a verdict needs.
pub(crate) fn add_hint(error: &mut PathError) {
    if let Some(part) = error.unbuilt.take() {
        let message = std::mem::take(&mut error.message);
        error.message = with_hint(message, Some(part));
    }
}

/// The commands that this build lacks, by their first names.
fn commands() -> impl Iterator<Item = (&'static [&'static str], &'static str)> {
    let lacking = COMMANDS.into_iter().filter(|(_, _, is_built)| !is_built);
    lacking.map(|(path, features, _)| (path, features))
}

/// The features of the command with this path, if this build lacks it.
pub(crate) fn features_of<'w>(path: impl IntoIterator<Item = &'w str>) -> Option<&'static str> {
    let path: Vec<&str> = path.into_iter().collect();
    let mut lacking = commands();
    lacking.find_map(|(lacking, features)| path.starts_with(lacking).then_some(features))
}

/// Adds the lacking commands, hidden, so that a call of one is recognised.
pub(crate) fn with_stubs(root: Command) -> Command {
    commands().fold(root, |root, (path, _)| add(root, path))
}

fn add(command: Command, path: &[&'static str]) -> Command {
    match path {
        [name] if command.find_subcommand(name).is_none() => command.subcommand(stub(name)),
        [name, rest @ ..] if command.find_subcommand(name).is_some() && !rest.is_empty() => {
            command.mut_subcommand(name, |inner| add(inner, rest))
        }
        _ => command,
    }
}

fn stub(name: &'static str) -> Command {
    let rest = Arg::new("rest")
        .num_args(0..)
        .allow_hyphen_values(true)
        .trailing_var_arg(true)
        .value_parser(clap::value_parser!(OsString));
    Command::new(name)
        .hide(true)
        .disable_help_flag(true)
        .arg(rest)
}

/// The failure of a call of a lacking command.
pub(crate) fn called(matches: &ArgMatches) -> Option<Failure> {
    let mut path = Vec::new();
    let mut inner = matches.subcommand();
    while let Some((name, matches)) = inner {
        path.push(name);
        inner = matches.subcommand();
    }
    let features = features_of(path.iter().copied())?;
    Some(failure(
        format_args!("run `threadseal {}`", path.join(" ")),
        features,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::definition;
    use crate::help;

    #[test]
    fn each_command_is_built_or_refused_with_the_features_that_it_needs() {
        for (path, features, is_built) in COMMANDS {
            let words = std::iter::once("threadseal").chain(path.iter().copied());
            let matches =
                help::grouped(definition()).try_get_matches_from(words.chain(["--flag", "x"]));
            let failure = matches.ok().as_ref().and_then(called);
            assert_eq!(failure.is_none(), is_built, "{path:?}");
            if let Some(failure) = failure {
                let expected = format!("--features {features}");
                assert!(failure.to_string().ends_with(&expected), "{failure}");
            }
        }
    }
}
