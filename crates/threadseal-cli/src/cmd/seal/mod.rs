//! `seal PATH…`: seals the present content of files.
//!
//! | file | how |
//! |---|---|
//! | native transcript | a checkpoint; a tail is moved into a file beside it, or adopted on request
//! |
//! | other `.jsonl` | a seal in `FILE.seal`; with `--profile rye` a Rye checkpoint |
//! | document | a native seal in `FILE.seal`; in a project's `.ai`, and with `--inline`, in the file |
//! | document, `--profile rye` | Rye's signature in the file |
//!
//! Each file is verified first; a file that does not fit its seals is not sealed. `--project` seals
//! the items of a project that have no seal.

mod document;
mod log;
#[cfg(feature = "agent")]
mod project;
mod transcript;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::keyring::Keyring;
#[cfg(not(feature = "agent"))]
use crate::missing;
use crate::options;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::record;
use crate::refused_path::{self, RefusedPath};
use crate::render::clean::Clean;
use crate::trust_file;
use clap::{Args, ValueEnum};
pub(crate) use log::note_moved;
use serde::Serialize;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer as _};
use threadseal_core::record::Head;
use threadseal_core::trust::Trust;
#[cfg(feature = "capture")]
use threadseal_formats::document::DocumentKind;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::sys::path_text;
use threadseal_verify::detect::{self, Kind};

/// The default of `--wait`: sealing a log of a gigabyte takes a second or two.
const DEFAULT_WAIT_SECONDS: u64 = 10;
/// The longest `--wait`: an hour.
const MAX_WAIT_SECONDS: u64 = 3600;

/// What `seal` takes.
#[derive(Debug, Args)]
pub(crate) struct SealArgs {
    /// Transcripts, logs, documents; STORE#NAME for a transcript in a store (s3://…), whose present
    /// writer is fenced off
    #[arg(required_unless_present = "project")]
    paths: Vec<PathBuf>,
    /// Seal all items of the project that have no seal: here, or in DIR. Items that were changed
    /// since they were sealed are named, and left
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".", conflicts_with_all = ["paths", "profile", "turn", "is_final", "adopt_tail", "take_over", "detached", "inline", "restart"])]
    #[cfg_attr(not(feature = "agent"), arg(hide = true))]
    project: Option<PathBuf>,
    /// Kind of the seals
    #[arg(long, value_enum, default_value = "native")]
    profile: ProfileArg,
    /// Turn number in the checkpoint [default: counted from the transcript]
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// End the record: nothing can be added afterwards. So are files sealed that are not made of
    /// lines: archives, databases, JSON over several lines
    #[arg(long = "final")]
    is_final: bool,
    /// Exit with 3 if a last, unended line of a log stays without a seal
    #[arg(long)]
    require_complete: bool,
    /// Keep the lines after the last seal of a native record, marked as unverified for ever
    /// [default: move them into a file beside the record, which the record names]
    #[arg(long)]
    adopt_tail: bool,
    /// Let the authority of a native record name its next key, if the last key is lost or on
    /// another machine; that key then seals no more
    #[arg(long)]
    take_over: bool,
    /// Seal any kind of file as a log, line by line: the seals are in FILE.seal
    #[arg(long, conflicts_with_all = ["profile", "inline"])]
    detached: bool,
    /// Write the seal of a document into it [default: in a project's .ai, and where a seal is in
    /// it; elsewhere the seal is in FILE.seal, and the file stays as it is]
    #[arg(long, conflicts_with = "profile")]
    inline: bool,
    /// End the record of a log that its seals no longer fit, and begin a new one. The home keeps
    /// the old seals, and its log gets an entry
    #[arg(long, requires = "why", conflicts_with = "profile")]
    restart: bool,
    /// Reason of --restart, which every reader of the home's tombstones can see
    #[arg(long, alias = "reason", value_name = "TEXT", requires = "restart", value_parser = options::reason)]
    why: Option<String>,
    /// Longest wait for another process that seals the same log, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_WAIT_SECONDS, value_parser = clap::value_parser!(u64).range(..=MAX_WAIT_SECONDS))]
    wait: u64,
    /// Name of the signing key [default: self, self-observed or self-rye, by the kind of the seal]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

impl SealArgs {
    /// For documents alone, where their kind of seal is the default.
    #[cfg(any(feature = "agent", feature = "capture"))]
    pub(crate) fn of_documents(passphrase: PassphraseArgs) -> Self {
        Self {
            paths: Vec::new(),
            project: None,
            profile: ProfileArg::Native,
            turn: None,
            is_final: false,
            require_complete: false,
            adopt_tail: false,
            take_over: false,
            detached: false,
            inline: false,
            restart: false,
            why: None,
            wait: DEFAULT_WAIT_SECONDS,
            key: None,
            passphrase,
        }
    }

    fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }
}

/// `--profile`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProfileArg {
    /// ThreadSeal's own seals
    Native,
    /// Seals that Rye reads
    Rye,
}

/// The result for one file.
#[derive(Debug, Serialize)]
struct Sealed {
    path: String,
    profile: &'static str,
    action: Action,
    /// The head to keep elsewhere; Rye's documents have none.
    head: Option<String>,
    /// Bytes that stay marked as unverified.
    adopted: Option<[u64; 2]>,
    /// Bytes that were moved out of the record.
    set_aside: Option<SetAside>,
    /// The unended last line, which no seal covers.
    uncovered: Option<[u64; 2]>,
    /// Is the file sealed as a whole, because it is not made of lines?
    whole: bool,
}

/// The bytes without a seal, and their present place.
#[derive(Debug, Serialize)]
struct SetAside {
    bytes: [u64; 2],
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Sealed,
    Unchanged,
    NothingYet,
}

#[derive(Serialize)]
struct SealOutput {
    schema: &'static str,
    results: Vec<Sealed>,
    errors: Vec<RefusedPath>,
}

impl Sealed {
    fn new(path: &Path, profile: &'static str, action: Action) -> Self {
        Self {
            path: path_text(path),
            profile,
            action,
            head: None,
            adopted: None,
            set_aside: None,
            uncovered: None,
            whole: false,
        }
    }

    fn with_head(mut self, head: Option<&Head>) -> Self {
        self.head = head.map(Head::to_string);
        self
    }
}

/// The shared inputs of all kinds of sealing.
struct Sealing<'a> {
    args: &'a SealArgs,
    context: &'a Context,
    home: Home,
    host: Host,
    trust: Trust,
    keyring: Keyring,
    /// Opened keys: their passphrases are asked for once.
    signers: RefCell<Vec<Arc<LocalSigner>>>,
}

impl<'a> Sealing<'a> {
    /// In the home of `context`, with the keys that count there now.
    fn of(args: &'a SealArgs, host: Host, context: &'a Context) -> Result<Self, Failure> {
        let home = context.existing_home()?;
        Ok(Self {
            args,
            context,
            host,
            trust: trust_file::trust_of_home(&home, context)?,
            keyring: Keyring::of(&home),
            home,
            signers: RefCell::default(),
        })
    }

    fn signer(&self, usage: KeyUsage) -> Result<Arc<LocalSigner>, Failure> {
        let mut opened = self.signers.borrow_mut();
        if let Some(signer) = opened.iter().find(|signer| signer.usage() == usage) {
            return Ok(Arc::clone(signer));
        }
        let (name, passphrase) = (self.args.key.as_deref(), &self.args.passphrase);
        let signer = self
            .keyring
            .signer(name, usage, passphrase, self.context)
            .map(Arc::new)?;
        opened.push(Arc::clone(&signer));
        Ok(signer)
    }

    fn one(&self, path: &Path) -> Result<Sealed, Failure> {
        let file = record::open(&*self.host.fs, path)?;
        let rye = self.args.profile == ProfileArg::Rye;
        let kind = detect::kind(&file)?;
        if self.args.adopt_tail && (self.args.detached || kind != Some(Kind::Native)) {
            let message = "--adopt-tail is for native records, which contain their own seals";
            return Err(Failure::new(message).about(path));
        }
        if self.args.take_over && (self.args.detached || kind != Some(Kind::Native)) {
            let message = "--take-over is for native records, whose keys may be elsewhere";
            return Err(Failure::new(message).about(path));
        }
        if self.args.inline && !matches!(kind, Some(Kind::Document(_))) {
            let message = "--inline is for documents";
            return Err(Failure::new(message).about(path));
        }
        let in_store = record::address_of(path).is_some();
        let is_log = self.args.detached || matches!(kind, Some(Kind::Events | Kind::Log) | None);
        if self.args.restart && (in_store || !is_log) {
            let message = "--restart is for logs with detached seals";
            return Err(Failure::new(message).about(path));
        }
        match kind {
            Some(Kind::Native) if in_store && !rye && !self.args.detached => {
                transcript::seal_native(self, path)
            }
            _ if in_store => {
                let text = "in a store, only native records can be sealed, with their own seals";
                Err(Failure::new(text).about(path))
            }
            Some(Kind::Sidecar) => {
                Err(Failure::new("this is a seal file; name the log that it seals").about(path))
            }
            Some(Kind::Native) if self.args.detached => {
                let message = "a native record contains its own seals, which prove more than detached ones; hint: seal it without --detached";
                Err(Failure::new(message).about(path))
            }
            _ if self.args.detached => log::seal(self, path),
            Some(Kind::Scroll(_)) => {
                let text = "a scroll is sealed turn by turn; hint: threadseal scroll seal, or --detached to seal the file as a log";
                Err(Failure::new(text).about(path))
            }
            Some(Kind::Ledger(_) | Kind::LedgerHead | Kind::LedgerIndex) => {
                let text = "a ledger is sealed by a signed head; hint: threadseal ledger sign, or --detached to seal the file as a log";
                Err(Failure::new(text).about(path))
            }
            Some(Kind::Checkpoint) => {
                let text = "a checkpoint is signed when it is written; hint: threadseal lineage append, or --detached to seal the file as a log";
                Err(Failure::new(text).about(path))
            }
            Some(Kind::Native) if rye => {
                Err(Failure::new("a native record cannot be sealed in Rye's format").about(path))
            }
            Some(Kind::Native) => transcript::seal_native(self, path),
            Some(Kind::Events | Kind::Log) if rye => transcript::seal_rye(self, path),
            Some(Kind::Events | Kind::Log) => log::seal(self, path),
            Some(Kind::Document(kind)) => document::seal(self, path, kind, rye),
            None if self.args.restart => log::seal(self, path),
            None => Err(Failure::new("unknown format; hint: --detached seals any log").about(path)),
        }
    }
}

/// Seals documents that a program writes anew: each version follows the one before.
#[cfg(feature = "capture")]
pub(crate) struct Versions<'a>(Sealing<'a>);

#[cfg(feature = "capture")]
impl<'a> Versions<'a> {
    /// For the home of `context`, with the keys that count there now.
    ///
    /// # Errors
    /// When there is no home, or its trust store is damaged.
    pub(crate) fn of(
        args: &'a SealArgs,
        host: &Host,
        context: &'a Context,
    ) -> Result<Self, Failure> {
        Ok(Self(Sealing::of(args, host.clone(), context)?))
    }

    /// Seals the present version of the JSON document at `path`; `None` if it is sealed already.
    ///
    /// # Errors
    /// When it is no document, another key sealed it, or the system fails.
    pub(crate) fn seal(&self, path: &Path) -> Result<Option<Head>, Failure> {
        let sealed = document::seal(&self.0, path, DocumentKind::Json, false)?;
        let head = sealed.head.filter(|_| sealed.action == Action::Sealed);
        Ok(head.and_then(|head| Head::parse(&head)))
    }
}

/// Seals new documents of a project.
///
/// # Errors
/// When one cannot be sealed.
#[cfg(feature = "agent")]
pub(crate) fn seal_new(
    paths: &[PathBuf],
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<(), Failure> {
    let args = SealArgs::of_documents(passphrase.clone());
    let sealing = Sealing::of(&args, context.host()?, context)?;
    paths
        .iter()
        .try_for_each(|path| sealing.one(path).map(drop))
}

/// What a command is to seal, and what it leaves.
struct Chosen {
    paths: Vec<PathBuf>,
    refused: Vec<RefusedPath>,
    /// The project whose items all have a seal.
    sealed: Option<PathBuf>,
}

fn chosen(
    args: &SealArgs,
    #[cfg_attr(not(feature = "agent"), expect(unused_variables))] context: &Context,
) -> Result<Chosen, Failure> {
    match &args.project {
        #[cfg(feature = "agent")]
        Some(folder) => project::unsealed(folder, context),
        #[cfg(not(feature = "agent"))]
        Some(folder) => {
            let action = format!("find the items of {}", folder.display());
            Err(missing::failure(&action, "agent"))
        }
        None => Ok(Chosen {
            paths: args.paths.clone(),
            refused: Vec::new(),
            sealed: None,
        }),
    }
}

/// Seals each path; a failure of one does not stop the others.
pub(crate) fn run(args: &SealArgs, context: &Context, out: &mut Out) -> Outcome {
    let sealing = Sealing::of(args, context.host()?, context)?;
    let chosen = chosen(args, context)?;
    let (mut results, mut errors) = (Vec::new(), chosen.refused);
    for refused in &errors {
        complain(&refused.message);
    }
    if let Some(root) = chosen.sealed.filter(|_| !context.json && !context.quiet) {
        let root = path_text(&root);
        out.line(format_args!(
            "unchanged  {}  all items are sealed",
            Clean(&root)
        ));
    }
    for path in &chosen.paths {
        match sealing.one(path) {
            Ok(sealed) => {
                if !context.json && !context.quiet {
                    out.line(line(&sealed));
                }
                results.push(sealed);
            }
            Err(failure) => {
                complain(&failure.to_string());
                errors.push(RefusedPath::of(path, &failure));
            }
        }
    }
    let is_left = |sealed: &Sealed| sealed.uncovered.is_some();
    let exit = match errors.is_empty() {
        false => refused_path::exit(&errors, Exit::NoVerdict, out),
        true if args.require_complete && results.iter().any(is_left) => Exit::Unconfirmed,
        true => Exit::Done,
    };
    if context.json {
        out.json(&SealOutput {
            schema: "threadseal.seal/1",
            results,
            errors,
        });
    }
    Ok(exit)
}

fn line(sealed: &Sealed) -> String {
    let path = Clean(&sealed.path);
    let mut line = match (sealed.action, &sealed.head) {
        (Action::Sealed, Some(head)) => format!("sealed  {path}  head {head}"),
        (Action::Sealed, None) => format!("sealed  {path}  ({})", sealed.profile),
        (Action::Unchanged, _) if sealed.uncovered.is_some() => {
            format!("unchanged  {path}  all ended lines were sealed already")
        }
        (Action::Unchanged, _) => format!("unchanged  {path}  all bytes were sealed already"),
        (Action::NothingYet, _) => format!("nothing yet  {path}  no complete line to seal"),
    };
    if sealed.whole {
        line.push_str(
            "\n  it is not made of lines, so the seal covers all bytes and ends the record",
        );
    }
    if let Some([from, to]) = sealed.uncovered {
        line.push_str(&format!(
            "\n  bytes {from}-{to}, an unended last line, have no seal yet"
        ));
    }
    if let Some([from, to]) = sealed.adopted {
        line.push_str(&format!(
            "\n  bytes {from}-{to}, which no seal covered when they were written, stay marked as unverified"
        ));
    }
    if let Some(SetAside { bytes, path }) = &sealed.set_aside {
        let ([from, to], path) = (bytes, Clean(path));
        line.push_str(&format!(
            "\n  bytes {from}-{to}, which no seal covered, were moved to {path}, and the record notes this"
        ));
    }
    line
}
