//! `help [TOPIC…]`: prints the page of a command or of a topic.

use crate::exit::{Exit, Failure, Outcome};
use crate::help;
use crate::missing;
use crate::output::Out;
use clap::{Args, Command};

/// Arguments of `help`.
#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A command, with its subcommand if it has one, `exit-codes` or `environment`
    topic: Vec<String>,
}

pub(crate) fn run(args: &HelpArgs, definition: Command, out: &mut Out) -> Outcome {
    let Some(page) = help::page(&args.topic, definition) else {
        let topic = args.topic.join(" ");
        if let Some(features) = missing::features_of(args.topic.iter().map(String::as_str)) {
            let action = format_args!("show the help of `threadseal {topic}`");
            return Err(missing::failure(action, features));
        }
        let text = match help::nearest(&topic) {
            Some(name) => {
                format!("there is no help page {topic:?}; hint: threadseal help {name}")
            }
            None => format!(
                "there is no help page {topic:?}; topics: {}",
                help::topics()
            ),
        };
        return Err(Failure::new(text));
    };
    out.bytes(page.as_bytes());
    Ok(Exit::Done)
}
