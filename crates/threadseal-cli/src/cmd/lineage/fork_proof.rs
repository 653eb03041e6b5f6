//! `lineage fork-proof A B -o FILE`: writes evidence of a fork that any person can check.

use super::input::{InStore, Input};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::trust::Trust;
use threadseal_formats::lineage::{Fork, LinkFacts, ProofPart, View, proof_prefix};
use threadseal_store::atomic::NewFile;
use threadseal_store::read::{Source as _, open_regular};
use threadseal_verify::request::VerifyRequest;

/// Permission bits of a proof: it is public.
const MODE: u32 = 0o644;

/// What `lineage fork-proof` takes.
#[derive(Debug, Args)]
pub(crate) struct ForkProofArgs {
    /// Two links of a fork, or files and folders that contain one
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// New file for the proof
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Serialize)]
struct ForkOutput<'a> {
    schema: &'static str,
    proof: String,
    parent: Option<String>,
    links: Vec<&'a str>,
    bytes: u64,
}

/// Finds the first fork and writes its proof.
pub(super) fn run(args: &ForkProofArgs, context: &Context, out: &mut Out) -> Outcome {
    for path in &args.paths {
        if InStore::of(path)?.is_some() {
            let text = "a proof is made of files and folders, not of a store";
            return Err(Failure::new(text).about(path));
        }
    }
    let asked = VerifyRequest::by(Trust::default());
    let input = Input::asking(&args.paths, asked, context)?;
    let found = input.links()?;
    let files: Vec<(PathBuf, LinkFacts)> = found
        .iter()
        .map(|found| (found.path.clone(), found.facts.clone()))
        .collect();
    let outcomes = input.verifier.lineages(found, View::History)?;
    let mut forks = outcomes.iter().flat_map(|outcome| &outcome.forks);
    let fork = forks
        .next()
        .ok_or_else(|| Failure::new("no agent signed two links in one place"))?;
    let Parts { files, names } = parts(fork, &files)?;
    let bytes = write(&files, &args.output, context)?;
    if context.json {
        out.json(&ForkOutput {
            schema: "threadseal.lineage.fork/1",
            proof: args.output.display().to_string(),
            parent: fork.parent.map(|parent| parent.to_hex()),
            links: names,
            bytes,
        });
    } else if !context.quiet {
        let path = args.output.display();
        out.line(format_args!("{path}: {bytes} bytes prove the fork"));
    }
    Ok(Exit::Done)
}

/// The parts of a proof.
struct Parts<'f> {
    files: Vec<(&'f Path, ProofPart)>,
    /// The names of the two links.
    names: Vec<&'f str>,
}

/// The two links with the smallest hashes and, if they have different keys, the link before them.
fn parts<'f>(fork: &'f Fork, files: &'f [(PathBuf, LinkFacts)]) -> Result<Parts<'f>, Failure> {
    let mut children: Vec<_> = fork.children.iter().collect();
    children.sort_by_key(|child| child.hash);
    children.truncate(2);
    let signer = |file: usize| {
        let link = files.get(file).and_then(|(_, facts)| facts.link());
        link.and_then(|link| link.header.signer)
    };
    let mut signers = children.iter().map(|child| signer(child.file));
    let one_key = signers.next() == signers.next();
    let parent = fork.parent_file.filter(|_| !one_key);
    if !one_key && parent.is_none() {
        let text =
            "two keys signed, and the link that shows which of them had the authority is missing";
        return Err(Failure::new(text));
    }
    let names = children.iter().map(|child| &*child.name).collect();
    let chosen = children.iter().map(|child| child.file).chain(parent);
    let part = |file: usize| {
        let (path, facts) = files
            .get(file)
            .ok_or_else(|| Failure::new("a file of the fork is missing"))?;
        Ok((path.as_path(), ProofPart::of(facts)?))
    };
    Ok(Parts {
        files: chosen.map(part).collect::<Result<_, Failure>>()?,
        names,
    })
}

fn write(parts: &[(&Path, ProofPart)], output: &Path, context: &Context) -> Result<u64, Failure> {
    let mut file = NewFile::begin(&*context.fs, output, MODE)?;
    let prefix = proof_prefix(parts.len() > 2);
    file.write(&prefix)?;
    let mut written = prefix.len() as u64;
    for (path, part) in parts {
        let prefix = part.prefix();
        file.write(&prefix)?;
        written += prefix.len() as u64 + part.bytes;
        let source = open_regular(&*context.fs, path)?;
        let (mut chunks, mut chunk) = (source.range(part.from, part.from + part.bytes), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            file.write(&chunk)?;
        }
    }
    file.commit_new()?;
    Ok(written)
}
