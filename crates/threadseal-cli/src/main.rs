//! The `threadseal` command: the one crate that prints, reads the environment and exits.
//!
//! Each command is one file of [`cmd`]: typed arguments in, a call of the library, a rendering
//! out. Standard output is data; standard error is for people. Exit codes are [`exit::Exit`].
#![allow(
    clippy::doc_markdown,
    reason = "many doc comments are help texts, which would show the backticks"
)]

mod args;
mod believed;
mod cmd;
mod context;
mod detect;
mod ended;
mod engine;
mod events;
mod evidence;
mod examine;
mod exit;
mod fleet;
mod gather;
mod key_log;
mod keyring;
mod lines;
mod local;
mod output;
mod passphrase;
mod progress;
mod record;
mod render;
mod replaying;
mod rotation;
mod said;
mod seal_log;
mod secrets;
mod signing;
mod trusting;
mod unsaid;
mod walk;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::guarded(|| match args::parse(std::env::args_os()) {
        Ok(cli) => cmd::run(cli),
        Err(exit) => exit,
    })
}
