//! The commands, one file each.

#[cfg(feature = "cloud")]
mod anchor;
#[cfg(feature = "capture")]
pub(crate) mod archive;
mod check_proof;
mod completions;
mod demo;
mod diff;
#[cfg(feature = "capture")]
mod doctor;
#[cfg(feature = "capture")]
mod export;
#[cfg(feature = "capture")]
mod forget;
mod fsck;
#[cfg(feature = "agent")]
mod graph;
mod help;
#[cfg(feature = "backup")]
mod home;
#[cfg(feature = "capture")]
mod hook;
mod id;
mod init;
#[cfg(feature = "capture")]
mod install;
mod key;
#[cfg(feature = "agent")]
mod knowledge;
mod ledger;
mod lineage;
#[cfg(feature = "capture")]
mod list;
mod log;
mod man;
mod messages;
mod prove;
mod prune;
mod record;
mod redact;
mod render;
#[cfg(feature = "agent")]
mod run;
mod scroll;
pub(crate) mod seal;
#[cfg(feature = "capture")]
mod search;
mod show;
#[cfg(feature = "capture")]
mod status;
#[cfg(feature = "agent")]
mod thread;
mod transcript;
pub(crate) mod trust;
#[cfg(feature = "capture")]
mod uninstall;
mod verify;
#[cfg(feature = "view")]
mod view;
mod watch;
#[cfg(feature = "cloud")]
mod witness;
#[cfg(all(feature = "agent", feature = "cloud"))]
mod worker;

use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::options::Global;
use crate::output::Out;
use clap::Subcommand;

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a home with a key for each usage, and trust these keys
    Init(init::InitArgs),
    /// Seal transcripts, logs and documents as they are now
    Seal(seal::SealArgs),
    /// Verify records and print a verdict for each
    Verify(verify::VerifyArgs),
    /// List the sessions of all agents, each with its state
    #[cfg(feature = "capture")]
    List(list::ListArgs),
    /// Search for words in all archived sessions
    #[cfg(feature = "capture")]
    Search(search::SearchArgs),
    /// Show a session, or the content of a record line by line
    Show(show::ShowArgs),
    /// Show sessions in the browser, which verifies them
    #[cfg(feature = "view")]
    View(view::ViewArgs),
    /// Print the conversation that a resumed thread would get
    Messages(messages::MessagesArgs),
    /// Print the verified part of a transcript as Markdown
    Render(render::RenderArgs),
    /// Write a file that proves one turn of a record, and shows no other turn
    Prove(prove::ProveArgs),
    /// Check a proof and show its content; no record is needed
    CheckProof(check_proof::CheckProofArgs),
    /// Delete texts from a record for good; earlier seals stay valid
    Redact(redact::RedactArgs),
    /// Write the logs of a session, with their seals, into a folder
    #[cfg(feature = "capture")]
    Export(export::ExportArgs),
    /// Remove a session from the archive and the index for good, and leave a tombstone
    #[cfg(feature = "capture")]
    Forget(forget::ForgetArgs),
    /// Manage the archive of sessions: add, verify, fsck, prune, quota, on, off
    #[cfg(feature = "capture")]
    #[command(subcommand)]
    Archive(archive::ArchiveCommand),
    /// Delete whole records that have ended, and leave signed tombstones
    Prune(prune::PruneArgs),
    /// Show the first difference between two records
    Diff(diff::DiffArgs),
    /// Seal sessions of agents, or the logs below folders, as they grow
    Watch(watch::WatchArgs),
    /// Record events from standard input, one JSON object a line, into a native record
    Record(record::RecordArgs),
    /// Take a payload of an agent's hook on standard input, and have its session sealed
    #[cfg(feature = "capture")]
    Hook(hook::HookArgs),
    /// Let the agents on this machine seal their sessions: hooks, and a service that watches
    #[cfg(feature = "capture")]
    Install(install::InstallArgs),
    /// Remove what install wrote; each file is as it was before
    #[cfg(feature = "capture")]
    Uninstall(uninstall::UninstallArgs),
    /// Show which agents are recorded, which are not, and what to do; exit 0 only if all is well
    #[cfg(feature = "capture")]
    Status(status::StatusArgs),
    /// Run each installed hook as its agent would, and report which one did not arrive
    #[cfg(feature = "capture")]
    Doctor(doctor::DoctorArgs),
    /// Record a thread, attack it, and show each detected attack
    Demo(demo::DemoArgs),
    /// Run a directive in a thread, recorded and sealed at each turn
    #[cfg(feature = "agent")]
    Run(run::RunArgs),
    /// Run queued threads from a database that many machines share
    #[cfg(all(feature = "agent", feature = "cloud"))]
    Worker(worker::WorkerArgs),
    /// Work with scrolls, chains of sealed turns (agent-scroll): seal, verify, convert
    #[command(subcommand)]
    Scroll(scroll::ScrollCommand),
    /// Work with ledgers of runs, AbstractRuntime's and our own: append, verify, sign, import,
    /// export
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Work with checkpoints of agents, igor's and our own: inspect, verify, draw, prove forks
    #[command(subcommand)]
    Lineage(lineage::LineageCommand),
    /// Manage threads of a project: list, show, wait, cancel, kill, search, resume, recover, …
    #[command(subcommand)]
    #[cfg(feature = "agent")]
    Thread(thread::ThreadCommand),
    /// Search the knowledge entries of a project
    #[command(subcommand)]
    #[cfg(feature = "agent")]
    Knowledge(knowledge::KnowledgeCommand),
    /// Manage transcripts in stores, also object storage: list, head, import, export
    #[command(subcommand)]
    Transcript(transcript::TranscriptCommand),
    /// Run and manage state graphs of a project: run, resume, cancel, show, validate
    #[command(subcommand)]
    #[cfg(feature = "agent")]
    Graph(graph::GraphCommand),
    /// Check the content of a store, and repair torn writes
    Fsck(fsck::FsckArgs),
    /// Manage this host's append-only transparency log
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Manage witnesses and time stamps of this home's log
    #[command(subcommand)]
    #[cfg(feature = "cloud")]
    Anchor(anchor::AnchorCommand),
    /// Serve as a witness of other logs: serve, add, list
    #[command(subcommand)]
    #[cfg(feature = "cloud")]
    Witness(witness::WitnessCommand),
    /// Manage your own keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Give others all your public keys in one file, and keep theirs
    #[command(subcommand)]
    Id(id::IdCommand),
    /// Manage the keys whose signatures count
    #[command(subcommand)]
    Trust(trust::TrustCommand),
    /// Back up the whole home into one encrypted file, and restore it
    #[command(subcommand)]
    #[cfg(feature = "backup")]
    Home(home::HomeCommand),
    /// Print the completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all pages into a folder
    Man(man::ManArgs),
    /// Show help about a command or a topic
    Help(help::HelpArgs),
}

/// Runs the command and returns the exit of the process. `definition` is the whole command line,
/// from which help, manual pages and completions are made.
pub(crate) fn run(
    global: &Global,
    command: Command,
    definition: impl FnOnce() -> clap::Command,
) -> Exit {
    let mut out = Out::stdout();
    let json = global.json;
    let context = Context::new(global);
    let outcome = match command {
        Command::Init(args) => init::run(&args, &context, &mut out),
        Command::Seal(args) => seal::run(&args, &context, &mut out),
        Command::Verify(args) => verify::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::List(args) => list::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Search(args) => search::run(&args, &context, &mut out),
        Command::Show(args) => show::run(&args, &context, &mut out),
        #[cfg(feature = "view")]
        Command::View(args) => view::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Export(args) => export::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Forget(args) => forget::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Archive(command) => archive::run(&command, &context, &mut out),
        Command::Messages(args) => messages::run(&args, &context, &mut out),
        Command::Render(args) => render::run(&args, &context, &mut out),
        Command::Prove(args) => prove::run(&args, &context, &mut out),
        Command::CheckProof(args) => check_proof::run(&args, &context, &mut out),
        Command::Redact(args) => redact::run(&args, &context, &mut out),
        Command::Prune(args) => prune::run(&args, &context, &mut out),
        Command::Diff(args) => diff::run(&args, &context, &mut out),
        Command::Watch(args) => watch::run(&args, &context, &mut out),
        Command::Record(args) => record::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Hook(args) => hook::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Install(args) => install::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Uninstall(args) => uninstall::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Status(args) => status::run(&args, &context, &mut out),
        #[cfg(feature = "capture")]
        Command::Doctor(args) => doctor::run(&args, &context, &mut out),
        Command::Demo(args) => demo::run(&args, &context, &mut out),
        #[cfg(feature = "agent")]
        Command::Run(args) => run::run(&args, &context, &mut out),
        #[cfg(all(feature = "agent", feature = "cloud"))]
        Command::Worker(args) => worker::run(&args, &context, &mut out),
        Command::Scroll(command) => scroll::run(&command, &context, &mut out),
        Command::Ledger(command) => ledger::run(&command, &context, &mut out),
        Command::Lineage(command) => lineage::run(&command, &context, &mut out),
        #[cfg(feature = "agent")]
        Command::Thread(command) => thread::run(&command, &context, &mut out),
        #[cfg(feature = "agent")]
        Command::Knowledge(command) => knowledge::run(&command, &context, &mut out),
        Command::Transcript(command) => transcript::run(&command, &context, &mut out),
        #[cfg(feature = "agent")]
        Command::Graph(command) => graph::run(&command, &context, &mut out),
        Command::Fsck(args) => fsck::run(&args, &context, &mut out),
        Command::Log(command) => log::run(&command, &context, &mut out),
        #[cfg(feature = "cloud")]
        Command::Anchor(command) => anchor::run(&command, &context, &mut out),
        #[cfg(feature = "cloud")]
        Command::Witness(command) => witness::run(&command, &context, &mut out),
        Command::Key(command) => key::run(&command, &context, &mut out),
        Command::Id(command) => id::run(&command, &context, &mut out),
        Command::Trust(command) => trust::run(&command, &context, &mut out),
        #[cfg(feature = "backup")]
        Command::Home(command) => home::run(&command, &context, &mut out),
        Command::Completions(args) => completions::run(&args, definition(), &mut out),
        Command::Man(args) => man::run(&args, definition(), &context, &mut out),
        Command::Help(args) => help::run(&args, definition(), &mut out),
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
            out.failure(&failure);
        }
        failure.exit()
    })
}
