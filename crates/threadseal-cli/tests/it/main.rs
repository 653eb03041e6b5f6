//! The command, run as a process: one binary, one module per subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot continue fails at its line; a skipped one prints the reason"
)]

mod accuse;
mod anchor;
mod anchored;
mod anchored_kinds;
mod anchoring;
mod archive;
mod attacks;
#[cfg(feature = "backup")]
mod backup;
mod bad_input;
mod databases;
mod delegation;
mod epochs;
mod evidence;
mod fleet;
mod frame;
mod frozen;
mod graph;
mod half_ended;
mod histories;
mod home_clones;
mod hook;
mod hostile;
mod identity;
mod install;
mod kept;
mod key_events;
mod key_ids;
mod key_races;
mod key_status;
mod keyring;
mod keys;
mod kills;
mod ledger;
mod lineage;
mod links;
mod log;
mod log_made;
mod marks;
mod mirror;
mod moved_logs;
mod outputs;
mod pages;
mod pins;
mod place;
mod prelude;
mod prove;
mod prove_bodies;
mod prune;
mod prune_asks;
mod prune_elsewhere;
mod prune_held;
mod prune_kinds;
mod pruned_reports;
mod read;
mod real_runs;
mod record;
mod redact;
mod redact_kept;
mod redact_lines;
mod rotation;
mod run;
mod sandbox;
mod scene;
mod schemas;
mod scroll;
mod scroll_edges;
mod scroll_from;
mod scroll_to;
mod seal;
mod secrets;
mod status;
mod thread;
mod transcript;
mod trust;
mod tsa;
mod usage_ends;
mod vectors;
mod verify;
mod view;
mod watch;
mod witness;
mod writers;
