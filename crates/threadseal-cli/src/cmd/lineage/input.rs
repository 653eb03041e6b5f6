//! Input of the commands on lineages: trusted signers, expected heads, files.

use crate::context::Context;
use crate::exit::Failure;
use crate::missing;
use crate::progress::Bar;
use crate::record;
use crate::render::json::PathError;
use crate::verifying;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::digest::Digest;
use threadseal_core::record::ExpectedHead;
use threadseal_formats::lineage::View;
use threadseal_verify::inputs;
use threadseal_verify::inputs::Candidate;
use threadseal_verify::notices::Progress as _;
use threadseal_verify::request::{LineageRequest, VerifyRequest};
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::{ReadCheckpoint, Verifier};

/// Whose signature counts, and what must be there.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Accept only this agent's key: PEM file, 64 hex digits, did:key, or a name of the trust
    /// store; repeatable
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// Accept only this agent, by its did:key; repeatable
    #[arg(long, value_name = "DID", conflicts_with = "key")]
    did: Vec<String>,
    /// Trust these instead of the home's trust store; repeatable
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    /// A link that the lineage must contain: its content hash, or <record>:<seq>:<size>:<sha256>
    #[arg(long, value_name = "SHA256", value_parser = ExpectedHead::parse)]
    expect_head: Option<ExpectedHead>,
    /// Require the expected head to be the last one
    #[arg(long, requires = "expect_head")]
    exact_head: bool,
    /// SHA-256 of code that may have run; repeatable [default: any]
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    code: Vec<Digest>,
    /// Accept a home or trust inside the verified folders; reports mention it
    #[arg(long)]
    allow_local_trust: bool,
}

/// Reads 64 hex digits.
pub(super) fn digest(text: &str) -> Result<Digest, String> {
    Digest::parse_hex(text)
        .ok_or_else(|| format!("{text:?} is not a SHA-256 digest: write 64 lower-case hex digits"))
}

/// The files of a run, and their examiner.
pub(super) struct Input {
    pub(super) verifier: Verifier,
    /// One file, named alone, or a history?
    pub(super) view: View,
    /// Paths that could not be read.
    pub(super) errors: Vec<PathError>,
    files: Vec<Candidate>,
    bar: Bar,
}

impl Input {
    /// Finds the files below `paths` and gathers the trust; `draw` asks for all links as well.
    ///
    /// # Errors
    /// When a named path cannot be read.
    pub(super) fn of(
        paths: &[PathBuf],
        args: &TrustArgs,
        draw: bool,
        context: &Context,
    ) -> Result<Self, Failure> {
        let local = Locality::to(paths, args.allow_local_trust, &context.fs);
        let keys = match args.key.is_empty() {
            false => &args.key,
            true => &args.did,
        };
        let asked = VerifyRequest {
            exact_head: args.exact_head,
            lineage: LineageRequest {
                code: args.code.clone(),
                draw,
                head: args.expect_head,
            },
            ..VerifyRequest::by(verifying::gather(&args.trust, keys, &local, context)?)
        };
        Self::asking(paths, asked, context)
    }

    /// As [`Input::of`], with a given request.
    ///
    /// # Errors
    /// As [`Input::of`].
    pub(super) fn asking(
        paths: &[PathBuf],
        asked: VerifyRequest,
        context: &Context,
    ) -> Result<Self, Failure> {
        let mut found = inputs::find(paths, &record::stores());
        found.errors.iter_mut().for_each(missing::add_hint);
        let bar = Bar::over(found.files.iter().map(|file| file.bytes).sum(), context);
        let view = match found.files.as_slice() {
            [only] if only.named => View::Single,
            _ => View::History,
        };
        Ok(Self {
            verifier: verifying::verifier(asked, &bar, context)?.among(found.files.len()),
            view,
            errors: found.errors,
            files: found.files,
            bar,
        })
    }

    /// Reads the checkpoints.
    ///
    /// # Errors
    /// When one cannot be read, or there is none.
    pub(super) fn links(&self) -> Result<Vec<ReadCheckpoint>, Failure> {
        let found = self.verifier.links(&self.files);
        self.bar.done();
        let found = found?;
        if found.is_empty() && self.errors.is_empty() {
            return Err(Failure::new("no checkpoint was found"));
        }
        Ok(found)
    }
}
