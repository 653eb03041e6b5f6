//! The commands, one file each.

pub(crate) mod anchor;
mod check_proof;
mod completions;
mod demo;
mod diff;
mod fsck;
mod graph;
mod init;
mod key;
mod knowledge;
mod ledger;
mod lineage;
mod log;
mod man;
mod messages;
mod prove;
mod prune;
mod redact;
mod render;
mod run;
mod scroll;
mod seal;
mod show;
mod thread;
mod transcript;
pub(crate) mod trust;
mod verify;
mod watch;
mod witness;
mod worker;

use crate::args::Cli;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::json::FailureOutput;
use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a home with a key of each usage, and trust them
    Init(init::InitArgs),
    /// Sign what is there now: transcripts, logs, documents
    Seal(seal::SealArgs),
    /// Say what can be said of records: verified, tampered, unsigned, …
    Verify(verify::VerifyArgs),
    /// Show what is in a record, line by line
    Show(show::ShowArgs),
    /// Print the conversation that a resumed thread would take up
    Messages(messages::MessagesArgs),
    /// Print the believed part of a transcript as Markdown
    Render(render::RenderArgs),
    /// Write one turn of a record into a file that proves it to anybody, and shows no other turn
    Prove(prove::ProveArgs),
    /// Say what a proof of a turn proves, by itself
    CheckProof(check_proof::CheckProofArgs),
    /// Drop what was said or done from a record for good; every seal made before still holds
    Redact(redact::RedactArgs),
    /// Delete whole records that have ended, and leave signed tombstones
    Prune(prune::PruneArgs),
    /// Show where two records first part
    Diff(diff::DiffArgs),
    /// Seal the logs below a folder as they grow
    Watch(watch::WatchArgs),
    /// Record a thread, attack it, and show what is noticed
    Demo(demo::DemoArgs),
    /// Run a directive in a thread, recorded and sealed as it goes
    Run(run::RunArgs),
    /// Run the threads that others ordered, from a database that many machines share
    Worker(worker::WorkerArgs),
    /// Chains of sealed turns: agent-scroll
    #[command(subcommand)]
    Scroll(scroll::ScrollCommand),
    /// Ledgers of runs, AbstractRuntime's and our own: append, verify, sign, import, export
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Checkpoints of agents, igor's and our own: inspect, verify, draw, prove forks
    #[command(subcommand)]
    Lineage(lineage::LineageCommand),
    /// Threads of a project: list, show, wait, cancel, kill, search, transcript, resume, recover, exec, …
    #[command(subcommand)]
    Thread(thread::ThreadCommand),
    /// What a project knows: search
    #[command(subcommand)]
    Knowledge(knowledge::KnowledgeCommand),
    /// Transcripts in stores, also object storage: list, head, import, export
    #[command(subcommand)]
    Transcript(transcript::TranscriptCommand),
    /// State graphs of a project: run, resume, cancel, show, validate
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    /// Say whether what a store holds is whole, and mend what is torn
    Fsck(fsck::FsckArgs),
    /// What this host has sealed, written down so that nobody can take it back
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Who else saw the log of this home: policies of witnesses, and what they cosigned
    #[command(subcommand)]
    Anchor(anchor::AnchorCommand),
    /// Be a witness of other logs: serve, add, list
    #[command(subcommand)]
    Witness(witness::WitnessCommand),
    /// Your own keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Whose signatures count
    #[command(subcommand)]
    Trust(trust::TrustCommand),
    /// Print the completion script of a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all of them into a folder
    Man(man::ManArgs),
}

/// Runs the command and returns the exit of the process.
pub(crate) fn run(cli: Cli) -> Exit {
    let mut out = Out::stdout();
    let json = cli.global.json;
    let context = Context::new(&cli.global);
    let outcome = match cli.command {
        Command::Init(args) => init::run(&args, &context, &mut out),
        Command::Seal(args) => seal::run(&args, &context, &mut out),
        Command::Verify(args) => verify::run(&args, &context, &mut out),
        Command::Show(args) => show::run(&args, &context, &mut out),
        Command::Messages(args) => messages::run(&args, &context, &mut out),
        Command::Render(args) => render::run(&args, &context, &mut out),
        Command::Prove(args) => prove::run(&args, &context, &mut out),
        Command::CheckProof(args) => check_proof::run(&args, &context, &mut out),
        Command::Redact(args) => redact::run(&args, &context, &mut out),
        Command::Prune(args) => prune::run(&args, &context, &mut out),
        Command::Diff(args) => diff::run(&args, &context, &mut out),
        Command::Watch(args) => watch::run(&args, &context, &mut out),
        Command::Demo(args) => demo::run(&args, &context, &mut out),
        Command::Run(args) => run::run(&args, &context, &mut out),
        Command::Worker(args) => worker::run(&args, &context, &mut out),
        Command::Scroll(command) => scroll::run(&command, &context, &mut out),
        Command::Ledger(command) => ledger::run(&command, &context, &mut out),
        Command::Lineage(command) => lineage::run(&command, &context, &mut out),
        Command::Thread(command) => thread::run(&command, &context, &mut out),
        Command::Knowledge(command) => knowledge::run(&command, &context, &mut out),
        Command::Transcript(command) => transcript::run(&command, &context, &mut out),
        Command::Graph(command) => graph::run(&command, &context, &mut out),
        Command::Fsck(args) => fsck::run(&args, &context, &mut out),
        Command::Log(command) => log::run(&command, &context, &mut out),
        Command::Anchor(command) => anchor::run(&command, &context, &mut out),
        Command::Witness(command) => witness::run(&command, &context, &mut out),
        Command::Key(command) => key::run(&command, &context, &mut out),
        Command::Trust(command) => trust::run(&command, &context, &mut out),
        Command::Completions(args) => completions::run(&args, &mut out),
        Command::Man(args) => man::run(&args, &context, &mut out),
    };
    context.settle_log();
    let exit = settle(outcome, json, &mut out);
    out.finish(exit)
}

/// A failure prints one line on standard error and, with `--json`, one object.
fn settle(outcome: Outcome, json: bool, out: &mut Out) -> Exit {
    outcome.unwrap_or_else(|failure| {
        failure.print();
        if json {
            out.json(&FailureOutput::new(&failure));
        }
        Exit::NoVerdict
    })
}
