//! igor's migration message: `lineage export --igor`, and `lineage import` of files that begin with
//! `{`.
//!
//! ```text
//! export  newest checkpoint, of v0x02 to v0x04 ─► one JSON text, checked as its reader would
//! import  one JSON text ─► all of it checked ─► its checkpoint is the first here, or the next
//! ```
//! The message has one checkpoint and no history, no offer and no signed answer (`spec/lineage.md`
//! §10.1). So a checkpoint that does not follow the newest link here is refused: it could be a
//! later link or a fork.

use super::export::ExportArgs;
use super::import::ImportArgs;
use super::machine::key_named;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use serde::Serialize;
use std::fmt;
use std::path::Path;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::{MAX_PACKAGE_BYTES, MAX_RECEIPTS_BYTES};
use threadseal_formats::lineage::{
    AgentName, AgentPackage, AgentStarted, AgentTransfer, CheckedTransfer, IdentityForm, Receipt,
    Standing,
};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::lineage::{
    Advance, CheckpointStore as _, NO_STATE, Newest, RememberedStore, Saved, Standings, overtaken,
};
use threadseal_store::read::{RegularFile, read_small};
use zeroize::Zeroizing;

/// Permission bits of the folder of a message's parts.
const PRIVATE_FOLDER: u32 = 0o700;

#[derive(Serialize)]
struct TransferOutput<'a> {
    schema: &'static str,
    agent: &'a str,
    done: &'static str,
    newest: String,
    /// `shared` if the agent's private key is in the message.
    authority: Option<&'static str>,
    receipts: usize,
    path: Option<String>,
}

/// Writes the message, unless igor's reader would refuse it.
pub(super) fn export(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    let store = args.machine.open_store(context)?;
    let agent = args.machine.agent(&store)?;
    let (newest, standing) = Standings::new().of(&store, &agent)?;
    let (Newest::Link(newest), Some(header)) = (newest, standing.header()) else {
        return Err(Failure::new(format!("the store has no agent {agent}")));
    };
    if header.native.is_some() {
        let text = "the newest link is of v0x05, which igor does not read";
        return Err(Failure::new(text));
    }
    let read = |path: &Path, limit| read_small(&*context.fs, path, limit);
    let file = match store.load(&agent, &newest)? {
        Some(link) => link.whole(MAX_PACKAGE_BYTES)?,
        None => return Err(Failure::new("the newest link is missing")),
    };
    let code = args
        .code
        .as_deref()
        .map(|path| read(path, MAX_PACKAGE_BYTES));
    let manifest = args
        .manifest
        .as_deref()
        .map(|path| read(path, MAX_PACKAGE_BYTES));
    let receipts = args
        .receipts
        .as_deref()
        .map(|path| read(path, MAX_RECEIPTS_BYTES));
    let code = code.transpose()?.unwrap_or_default();
    let manifest = manifest.transpose()?.unwrap_or_default();
    let mut package = AgentPackage::of(&agent, &file, &code, &manifest).map_err(not_sent)?;
    package.receipts = receipts.transpose()?.unwrap_or_default();
    if args.with_key {
        let identity = args.machine.identity(&store, &agent, context)?;
        if identity.form() != IdentityForm::Igor {
            let text = "igor reads only keys in its own format, and this one is PEM";
            return Err(Failure::new(text));
        }
        package.identity = identity.to_file();
    }
    let transfer = AgentTransfer {
        package,
        source: args.source.clone(),
    };
    let text = transfer.to_json();
    let checked = AgentTransfer::parse(&text)?.check(None).map_err(not_sent)?;
    atomic::create_new(&*context.fs, &args.output, &text, PRIVATE_FILE)?;
    tell("exported", &checked, Some(&args.output), context, out);
    Ok(Exit::Done)
}

pub(super) fn import(
    args: &ImportArgs,
    file: &RegularFile,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let text = Zeroizing::new(file.read_whole(MAX_PACKAGE_BYTES)?);
    let root = args.root.as_deref();
    let root = root.map(|root| key_named(root, context)).transpose()?;
    let unchecked = AgentTransfer::parse(&text)?;
    let checked = unchecked.check(root.as_ref()).map_err(not_taken)?;
    if args
        .machine
        .named()
        .is_some_and(|agent| *agent != checked.name)
    {
        let text = format!("the message contains another agent, {}", checked.name);
        return Err(Failure::new(text));
    }
    let store = args.machine.open_store(context)?;
    let (newest, standing) = Standings::new().of(&store, &checked.name)?;
    check_key(&checked, root.as_ref(), &standing)?;
    let new_key = new_key(&checked, &store)?;
    let done = if newest == Newest::Link(checked.checkpoint.hash) {
        "imported before"
    } else {
        save(&checked, newest, standing, &store)?;
        "imported"
    };
    if let (Some(identity), true) = (&checked.identity, new_key) {
        store.save_identity(&checked.name, identity)?;
    }
    let forged = |receipt: &&Receipt| {
        let node = receipt.node_key();
        node.is_some_and(|node| receipt.verify(&node).is_err())
    };
    let forged = checked.receipts.iter().filter(forged).count();
    if forged > 0 {
        complain(&format!(
            "warning: {forged} receipts are not signed by the nodes that they name"
        ));
    }
    if let Some(folder) = &args.save_parts {
        save_parts(&checked, folder, context)?;
    }
    if let Some(path) = &args.output {
        let answer = AgentStarted {
            agent: checked.transfer.package.agent.clone(),
            success: true,
            ..AgentStarted::default()
        };
        atomic::create_new(&*context.fs, path, &answer.to_json(), PRIVATE_FILE)?;
    }
    tell(done, &checked, args.output.as_deref(), context, out);
    Ok(Exit::Done)
}

/// A signed checkpoint must have the named key, or the key of the checkpoint here.
fn check_key(
    checked: &CheckedTransfer,
    root: Option<&PublicKey>,
    standing: &Standing,
) -> Result<(), Failure> {
    let signed = checked.checkpoint.header.signer.is_some();
    let known = standing
        .header()
        .is_some_and(|known| known.signer.is_some());
    match (signed, root) {
        (true, None) if !known => Err(Failure::new(
            "name the agent's key with --root: a message cannot confirm its own key",
        )),
        (false, None) => {
            complain("warning: this checkpoint is not signed");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Does the message contain a key that is missing here? A key that is not the agent's is refused.
fn new_key(checked: &CheckedTransfer, store: &RememberedStore) -> Result<bool, Failure> {
    let Some(came) = &checked.identity else {
        return Ok(false);
    };
    match store.load_identity(&checked.name)? {
        None => Ok(true),
        Some(here) if here.public_key() == came.public_key() => Ok(false),
        Some(_) => Err(Failure::new(format!(
            "{} has another key in this store, and keys are never replaced",
            checked.name
        ))),
    }
}

fn save(
    checked: &CheckedTransfer,
    newest: Newest,
    standing: Standing,
    store: &RememberedStore,
) -> Result<(), Failure> {
    let is_first = newest == Newest::Nothing && checked.checkpoint.header.prev.is_some();
    let from = if is_first { Standing::cut() } else { standing };
    let file = checked.transfer.package.checkpoint.as_deref();
    let advance = Advance::of_message(&from, file.unwrap_or_default())?;
    match store.save(&checked.name, &advance, &mut NO_STATE.clone())? {
        Saved::Stored => Ok(()),
        Saved::Differs(now) => Err(overtaken(&checked.name, &now).into()),
    }
}

fn save_parts(checked: &CheckedTransfer, folder: &Path, context: &Context) -> Result<(), Failure> {
    atomic::create_directories(&*context.fs, folder, PRIVATE_FOLDER)?;
    let package = &checked.transfer.package;
    let receipts = Some(&package.receipts).filter(|receipts| !receipts.is_empty());
    let parts = [
        ("code", package.code.as_ref()),
        ("manifest", package.manifest.as_ref()),
        ("receipts", receipts),
    ];
    for (name, bytes) in parts {
        if let Some(bytes) = bytes {
            atomic::create_new(&*context.fs, &folder.join(name), bytes, PRIVATE_FILE)?;
        }
    }
    Ok(())
}

fn tell(
    done: &'static str,
    checked: &CheckedTransfer,
    path: Option<&Path>,
    context: &Context,
    out: &mut Out,
) {
    let name: &AgentName = &checked.name;
    let output = TransferOutput {
        schema: "threadseal.lineage.transfer/1",
        agent: name.as_str(),
        done,
        newest: checked.checkpoint.hash.to_hex(),
        authority: checked.identity.as_ref().map(|_| "shared"),
        receipts: checked.receipts.len(),
        path: path.map(|path| path.display().to_string()),
    };
    if context.json {
        out.json(&output);
        return;
    }
    out.line(format_args!("{name}: {done}"));
    let row = |label: &str| context.palette.faint(&format!("  {label:<12}"));
    out.line(format_args!("{}{}", row("newest"), output.newest));
    if output.authority.is_some() {
        let text = "shared: every holder of the message has the agent's private key";
        out.line(format_args!("{}{text}", row("authority")));
    }
    if let Some(path) = &output.path {
        out.line(format_args!("{}{path}", row("file")));
    }
}

fn not_sent(why: impl fmt::Display) -> Failure {
    Failure::new(format!("igor would not accept this: {why}"))
}

fn not_taken(why: impl fmt::Display) -> Failure {
    Failure::new(format!("not accepted: {why}"))
}
