//! The `threadseal` command: the only crate that prints, reads the environment and exits.
//!
//! Each command is one file of [`cmd`]: it takes typed arguments, calls the library and renders the
//! result. Standard output is data; standard error is for people. Exit codes are [`exit::Exit`].
#![allow(
    clippy::doc_markdown,
    reason = "many doc comments are help texts, which would show the backticks"
)]

#[cfg(feature = "capture")]
mod archived;
mod args;
#[cfg(feature = "backup")]
mod backup;
#[cfg(feature = "capture")]
mod capture;
mod cmd;
mod context;
#[cfg(feature = "capture")]
mod database_seal;
#[cfg(feature = "capture")]
mod database_verify;
#[cfg(feature = "agent")]
mod engine;
mod escaped_search;
mod events;
mod evidence;
mod exit;
mod fleet;
mod help;
mod key_log;
mod key_status;
mod keyring;
mod missing;
mod options;
#[cfg(feature = "agent")]
mod orders;
#[cfg(feature = "agent")]
mod orphans;
mod output;
#[cfg(feature = "view")]
mod pages;
mod passphrase;
mod policies;
mod progress;
mod project;
mod publish_pending;
mod record;
mod recovery;
mod redact_secrets;
mod refused_path;
mod render;
#[cfg(feature = "agent")]
mod replay;
mod rotation;
mod seal_log;
#[cfg(feature = "convert")]
mod secrets;
#[cfg(feature = "capture")]
mod session_seal;
#[cfg(feature = "capture")]
mod sessions;
mod signing;
#[cfg(feature = "agent")]
mod supervise;
mod trust_file;
mod trusted_projects;
mod verified_events;
mod verifying;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::guarded(|| {
        #[cfg(feature = "agent")]
        if let Some(tool) = supervise::asked(std::env::args_os()) {
            return supervise::run(&tool);
        }
        match args::parse(std::env::args_os()) {
            Ok(cli) => cmd::run(&cli.global, cli.command, args::definition),
            Err(exit) => exit,
        }
    })
}
