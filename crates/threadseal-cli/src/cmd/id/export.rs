//! `id export`

use super::own::Maker;
use super::{IdentityOutput, words};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::identity::Identity;
use threadseal_core::limits::MAX_IDENTITY_BYTES;
use threadseal_core::trust::TrustName;
use threadseal_store::atomic::{self, Mode, SHARED_FILE};
use threadseal_store::read::read_small;
use threadseal_store::sys::path_text;

/// What `id export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// File to write; an earlier file of your identity is replaced [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Your name, as others see it [default: the earlier one, else the name of the file]
    #[arg(long, value_parser = name)]
    name: Option<TrustName>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

fn name(text: &str) -> Result<TrustName, String> {
    TrustName::parse(text).map_err(|error| error.to_string())
}

#[derive(Serialize)]
struct ExportOutput {
    schema: &'static str,
    /// None where it was written to standard output.
    path: Option<String>,
    /// Does it state anything new?
    changed: bool,
    identity: IdentityOutput,
}

pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    if context.json && args.out.is_none() {
        return Err(Failure::new(
            "an identity is a file of its own; hint: add -o FILE, or remove --json",
        ));
    }
    let maker = Maker::begin(&args.passphrase, context)?;
    let is_first = maker.known()?.is_none();
    let of_file = args
        .out
        .as_deref()
        .filter(|_| is_first)
        .and_then(name_of_file);
    let (identity, changed) = maker.update(args.name.clone().or(of_file))?;
    write(args.out.as_deref(), &identity, changed, context, out)?;
    Ok(Exit::Done)
}

fn name_of_file(path: &Path) -> Option<TrustName> {
    TrustName::parse(path.file_stem()?.to_str()?).ok()
}

/// Writes the file, and prints its words.
///
/// # Errors
/// When it cannot be written, or another file is there.
pub(super) fn write(
    to: Option<&Path>,
    identity: &Identity,
    changed: bool,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    let bytes = identity.to_bytes()?;
    match to {
        None => out.bytes(&bytes),
        Some(path) => write_file(path, identity, &bytes, context)?,
    }
    if context.json {
        out.json(&ExportOutput {
            schema: "threadseal.id.export/1",
            path: to.map(path_text),
            changed,
            identity: IdentityOutput::of(identity),
        });
        return Ok(());
    }
    if context.quiet {
        return Ok(());
    }
    let told = format!(
        "the words of your identity, for others to compare: {}",
        words(identity)
    );
    match to {
        None => complain(&format!("note: {told}")),
        Some(path) => {
            let verb = if changed {
                "wrote"
            } else {
                "nothing new, wrote"
            };
            out.line(format_args!("{verb} {}", Clean(&path.to_string_lossy())));
            out.line(told);
        }
    }
    Ok(())
}

/// Replaces only an earlier file of the same identity.
fn write_file(
    path: &Path,
    identity: &Identity,
    bytes: &[u8],
    context: &Context,
) -> Result<(), Failure> {
    if context.fs.symlink_metadata(path).is_err() {
        return Ok(atomic::create_new(&*context.fs, path, bytes, SHARED_FILE)?);
    }
    let there = read_small(&*context.fs, path, MAX_IDENTITY_BYTES)?;
    let is_ours = Identity::read(&there).is_ok_and(|there| there.id() == identity.id());
    if !is_ours {
        return Err(Failure::new("the file exists, and is no file of your identity").about(path));
    }
    Ok(atomic::replace(
        &*context.fs,
        path,
        bytes,
        Mode::KeepOr(SHARED_FILE),
    )?)
}
