//! `key export`

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use std::path::PathBuf;
use threadseal_store::atomic::{self, PRIVATE_FILE, SHARED_FILE};
use zeroize::Zeroizing;

/// What `key export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The key
    name: String,
    /// Export the private half; it stays encrypted if it is encrypted here
    #[arg(long)]
    private: bool,
    /// New file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    if context.json && args.out.is_none() {
        return Err(Failure::new(
            "a PEM file is not JSON; hint: add --out, or remove --json",
        ));
    }
    let keyring = Keyring::of(&context.existing_home()?);
    let key = keyring.find(&args.name)?;
    let (pem, mode) = if args.private {
        (keyring.private_pem(&key.file)?, PRIVATE_FILE)
    } else {
        (Zeroizing::new(key.public.to_pem()), SHARED_FILE)
    };
    match &args.out {
        None => out.bytes(pem.as_bytes()),
        Some(path) => {
            atomic::create_new(&*context.fs, path, pem.as_bytes(), mode)?;
            if context.json {
                let written = path.to_string_lossy();
                out.json(
                    &serde_json::json!({"schema": "threadseal.key.export/1", "path": written}),
                );
            } else if !context.quiet {
                out.line(format_args!("wrote {}", Clean(&path.to_string_lossy())));
            }
        }
    }
    Ok(Exit::Done)
}
