//! The `threadseal` command: the only crate that prints, reads the environment and exits.
//!
//! Each command is one file of [`cmd`]: it takes typed arguments, calls the library and renders the
//! result. Standard output is data; standard error is for people. Exit codes are [`exit::Exit`].
#![allow(
    clippy::doc_markdown,
    reason = "many doc comments are help texts, which would show the backticks"
)]

mod args;
mod cmd;
mod context;
mod ended;
mod engine;
mod events;
mod evidence;
mod exit;
mod fleet;
mod key_log;
mod keyring;
mod output;
mod passphrase;
mod progress;
mod publish_pending;
mod record;
mod render;
mod replay;
mod rotation;
mod said;
mod seal_log;
mod secrets;
mod signing;
mod trust_file;
mod unsaid;
mod verified_events;
mod verifying;
mod witness;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::guarded(|| match args::parse(std::env::args_os()) {
        Ok(cli) => cmd::run(cli),
        Err(exit) => exit,
    })
}
