//! `ledger sign`: writes a signed head, which seals a ledger in its present state, whatever program
//! wrote it.
//!
//! ```text
//! verify ─► run, records, last hash, times, file digest ─► C2SP note ─► FILE.head, or printed
//! ```
//! The ledger is verified first, including an older head beside it: an invalid ledger is not
//! sealed.

use super::head::{tip_of, whole};
use super::place;
use crate::context::Context;
use crate::exit::{Exit, Outcome, complain};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::key::{KeyUsage, Signer as _};
use threadseal_core::report::{Completeness, Verdict};
use threadseal_formats::ledger::{HeadStatement, RunId, signer_name};
use threadseal_store::atomic::{self, Mode};
use threadseal_store::heads::RecordKind;
use threadseal_store::ledger::known::{self, digest_of_beginning};
use threadseal_store::sys::path_text;
use threadseal_verify::verifier::head_path;

/// Mode of a head: every reader of the ledger may read it.
const HEAD_MODE: u32 = 0o644;

/// What `ledger sign` takes.
#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    /// A file of records, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// The run [default: the only one]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// File for the signed head [default: FILE.head; for a database: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the signing key [default: self]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct SignOutput<'a> {
    schema: &'static str,
    run: &'a str,
    records: u64,
    head: String,
    path: Option<String>,
    verdict_before: &'static str,
}

/// Verifies, signs, writes, and remembers the head.
pub(super) fn run(args: &SignArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let name = args.key.as_deref();
    let keyring = Keyring::of(&home);
    let signer = keyring.signer(name, KeyUsage::Native, &args.passphrase, context)?;
    let place = place::readable(&args.ledger, context)?;
    let run = place.one(args.run.as_ref())?;
    let trust = trust_file::trust_of_home(&home, context)?;
    let verifier = verifying::verifier_by(trust, context)?;
    let (file, outcome) = match place.file_of(Some(&run), context)? {
        // The digest below must be of the very bytes that were verified.
        Some(path) => {
            let (file, outcome) = verifier.ledger_at(&path)?;
            (Some(file), outcome)
        }
        None => (None, whole(&place, &run, &args.ledger, &verifier, context)?),
    };
    let tip = tip_of(&outcome)?;
    // The new head declares the end of the ledger, so the host's knowledge must be the newest.
    let host = context.host()?;
    host.refuse_doubted(&format!("run {} has records", tip.run), None)?;
    let names: Vec<_> = outcome.signers.iter().map(signer_name).collect();
    let (head, of) = (tip.head(), RecordKind::Ledger);
    host.admit((&head.record, of), (head.seq, head.size), &names)?;
    let statement = HeadStatement {
        run: tip.run.clone(),
        count: tip.count,
        hash: tip.hash,
        at: context.now()?.floor_to_second(),
        first: outcome.times.0,
        last: outcome.times.1,
        signatures: Some(outcome.signatures),
        file: file
            .as_ref()
            .map(|file| digest_of_beginning(file, file.size()))
            .transpose()?,
    };
    let _section = host.enter_seal(&[signer.public_key()])?;
    let note = statement.sign(&signer)?.to_string();
    let path = args.out.clone().or_else(|| {
        let file = file.as_ref()?;
        Some(head_path(file.path()))
    });
    if let Some(path) = &path {
        atomic::replace(&*context.fs, path, note.as_bytes(), Mode::KeepOr(HEAD_MODE))?;
    }
    known::publish(
        &host,
        tip.head(),
        Some(outcome.signatures),
        Some(signer.public_key().key_id()),
        &names,
    )?;
    let own = place.place_of(&tip.run, context);
    place::remember(&args.ledger, &tip.run, own.as_deref(), &host)?;
    warn(outcome.report.verdict, outcome.report.completeness);
    if context.json {
        out.json(&SignOutput {
            schema: "threadseal.ledger.sign/1",
            run: run.as_str(),
            records: tip.count,
            head: tip.head().to_string(),
            path: path.as_deref().map(path_text),
            verdict_before: outcome.report.verdict.as_str(),
        });
    } else if path.is_none() {
        out.bytes(note.as_bytes());
    } else if !context.quiet {
        out.line(tip.head());
    }
    Ok(Exit::Done)
}

/// Warns if the signature rests only on the signer's claim.
fn warn(verdict: Verdict, completeness: Completeness) {
    if verdict == Verdict::Verified && completeness == Completeness::Head {
        return;
    }
    complain(&format!(
        "note: the ledger was {verdict} before; its present content is sealed, but its earlier content is not proved"
    ));
}
