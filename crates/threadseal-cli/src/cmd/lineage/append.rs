//! `lineage append STORE`: writes the next checkpoint of an agent.
//!
//! ```text
//! all links of the agent verified ─► header ─► signed ─► verified as the next
//!                                 ─► saved if no other writer was faster
//! ```
//! An existing link is not overwritten before its successor is valid, and a key is never replaced.

use super::identity;
use super::input::{digest, remembered};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_status;
use crate::keyring;
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_core::key::Reread;
use threadseal_core::limits::MAX_DELEGATION_BYTES;
use threadseal_formats::lineage::{
    AgentIdentity, AgentName, CheckpointHeader, Delegation, Epoch, IdentityForm, LinkKind,
    MediaType, NativeHeader, Standing, StateSeal, Version, seal_native, seal_original_reread,
};
use threadseal_store::heads::MAX_HEAD_NUMBER;
use threadseal_store::key_ends::SealSection;
use threadseal_store::lineage::{Advance, CheckpointStore, Newest, Saved, Standings, overtaken};
use threadseal_store::read::{Chunks, RegularFile, Source, open_regular, read_small};

/// What `lineage append` takes.
#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// A folder, or file:DIR, sqlite:FILE, postgres://…, s3://…
    #[arg(value_name = "STORE")]
    store: String,
    /// The agent [default: the only one in the store]
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
    /// File with the state
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// Media type of the state, for version 5
    #[arg(long, value_name = "TYPE/SUBTYPE", value_parser = MediaType::parse, default_value = "application/octet-stream")]
    state_type: MediaType,
    /// Number of completed ticks
    #[arg(long, value_name = "N")]
    tick: u64,
    /// Remaining budget, in microcents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    budget: i64,
    /// Price in microcents per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    price: i64,
    /// SHA-256 of the code that made the state
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    code: Digest,
    /// Counters of authority transfers and of lease renewals [default: unchanged]
    #[arg(long, value_name = "M,G", value_parser = epoch)]
    epoch: Option<Epoch>,
    /// End of the lease in nanoseconds since 1970; 0 for no lease [default: unchanged]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(i64).range(0..))]
    lease_expiry: Option<i64>,
    /// Format version: 3 without a signature, 4 with igor's signature, 5 [default: unchanged, or 5
    /// for a new agent]
    #[arg(long, value_name = "V", value_parser = version)]
    version: Option<Version>,
    /// Identity file with the signing key [default: the agent's in the store]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The root's delegation if that key is a session key, for version 5
    #[arg(long, value_name = "FILE")]
    delegation: Option<PathBuf>,
    /// SHA-256 of the head of the agent's transcript, for version 5
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    transcript: Option<Digest>,
    /// SHA-256 of the agent's tool manifest, for version 5
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    manifest: Option<Digest>,
    /// SHA-256 of the agent's file of receipts, for version 5
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    receipts: Option<Digest>,
}

#[derive(Serialize)]
struct AppendOutput<'a> {
    schema: &'static str,
    agent: &'a str,
    hash: String,
    cid: String,
    prev: Option<String>,
    version: String,
    tick: u64,
}

fn epoch(text: &str) -> Result<Epoch, String> {
    let wrong = || format!("{text:?} is not an epoch: write two numbers, M,G");
    let (major, generation) = text.split_once(',').ok_or_else(wrong)?;
    Ok(Epoch {
        major: major.parse().map_err(|_| wrong())?,
        generation: generation.parse().map_err(|_| wrong())?,
    })
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "3" => Ok(Version::V3),
        "4" => Ok(Version::V4),
        "5" => Ok(Version::V5),
        _ => Err(format!(
            "{text:?} is not a version that can be written: use 3, 4 or 5"
        )),
    }
}

/// Writes the next checkpoint.
pub(super) fn run(args: &AppendArgs, context: &Context, out: &mut Out) -> Outcome {
    let store = remembered(&args.store, context)?;
    let agent = agent_of(args, &store)?;
    let (newest, standing) = Standings::new().of(&store, &agent)?;
    if let Newest::Deleted(hash) = newest {
        let text = format!("{agent} was deleted here at {hash} and continues elsewhere");
        return Err(Failure::new(text));
    }
    let next = Next {
        args,
        agent: &agent,
        store: &store,
        standing: &standing,
        state: open_regular(&*context.fs, &args.state)?,
        context,
    };
    if args.tick > MAX_HEAD_NUMBER {
        return Err(Failure::new(format!(
            "this home can remember no link of tick {}; the largest tick is {MAX_HEAD_NUMBER}",
            args.tick
        )));
    }
    let (header, head, _section) = next.seal()?;
    let advance = Advance::of_file(&standing, &mut next.whole(head))?;
    match store.save(&agent, &advance, &mut next.state.chunks())? {
        Saved::Stored => {}
        Saved::Differs(now) => return Err(overtaken(&agent, &now).into()),
    }
    let hash = advance.newest();
    let hash = hash.ok_or_else(|| Failure::new("no link was saved"))?;
    let output = AppendOutput {
        schema: "threadseal.lineage.append/1",
        agent: agent.as_str(),
        hash: hash.to_hex(),
        cid: hash.to_cid(),
        prev: header.prev.map(|prev| prev.to_hex()),
        version: header.version.to_string(),
        tick: header.tick,
    };
    if context.json {
        out.json(&output);
    } else {
        out.line(hash);
    }
    Ok(Exit::Done)
}

fn agent_of(args: &AppendArgs, store: &dyn CheckpointStore) -> Result<AgentName, Failure> {
    if let Some(agent) = &args.agent {
        return Ok(agent.clone());
    }
    let mut agents = store.list(None, 2)?.into_iter();
    match (agents.next(), agents.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::new(
            "the store has no agent yet; hint: name one with --agent",
        )),
        (Some(_), Some(_)) => Err(Failure::new(
            "the store has several agents; hint: name one with --agent",
        )),
    }
}

/// All inputs of the next link.
struct Next<'a> {
    args: &'a AppendArgs,
    agent: &'a AgentName,
    store: &'a dyn CheckpointStore,
    standing: &'a Standing,
    state: RegularFile,
    context: &'a Context,
}

impl Next<'_> {
    /// The header, signed if its version is, and its bytes; its key does not end before the section
    /// is dropped.
    fn seal(&self) -> Result<(CheckpointHeader, Vec<u8>, SealSection), Failure> {
        let (args, before) = (self.args, self.standing.header());
        let version = args
            .version
            .or(before.map(|before| before.version.max(Version::V3)))
            .unwrap_or(Version::V5);
        let epoch = args.epoch.or(before.map(|before| before.epoch));
        let lease = args.lease_expiry.or(before.map(|b| b.lease_expiry));
        let signed = version > Version::V3;
        let mut header = CheckpointHeader {
            version,
            budget: args.budget,
            price: args.price,
            tick: args.tick,
            code: args.code,
            epoch: epoch.unwrap_or_default(),
            lease_expiry: lease.unwrap_or(0),
            prev: self.standing.newest().filter(|_| signed),
            signer: None,
            signature: None,
            native: None,
        };
        if !signed {
            if before.is_some_and(|before| before.version.is_signed()) {
                let text = "the lineage is signed: version 3 would remove its signature";
                return Err(Failure::new(text));
            }
            let bytes = header.encode()?;
            return Ok((header, bytes, SealSection::unlocked()));
        }
        let identity = self.identity()?;
        key_status::refuse(identity.public_key(), self.context)?;
        let section = self.store.enter_seal(identity.public_key())?;
        let sealed = if version == Version::V4 {
            seal_original_reread(header, self, &identity.into_original_signer())?
        } else {
            header.signer = Some(*identity.public_key().as_bytes());
            header.native = Some(Box::new(self.native(&identity)?));
            seal_native(header, &identity.into_native_signer())?
        };
        Ok((sealed.header, sealed.bytes, section))
    }

    fn native(&self, identity: &AgentIdentity) -> Result<NativeHeader, Failure> {
        let (args, known) = (self.args, self.standing.header());
        let known = known.and_then(|before| before.native.as_ref());
        let seq = match known {
            Some(known) => known.seq.saturating_add(1),
            None => u64::try_from(self.store.history(self.agent)?.len()).unwrap_or(u64::MAX),
        };
        let mut hasher = Hasher::new();
        self.read(&mut |piece| hasher.update(piece))?;
        let delegation = self.delegation(identity)?;
        let key = *identity.public_key();
        let time = i64::try_from(self.context.now()?.as_micros()).ok();
        let time = time.and_then(|micros| micros.checked_mul(1000));
        Ok(NativeHeader {
            kind: LinkKind::Checkpoint,
            seq,
            time: time.ok_or_else(|| Failure::new("the clock is out of range"))?,
            state: StateSeal {
                length: self.state.size(),
                digest: hasher.finish(),
                media: args.state_type.clone(),
            },
            transcript: args.transcript.or(known.and_then(|known| known.transcript)),
            manifest: args.manifest.or(known.and_then(|known| known.manifest)),
            receipts: args.receipts.or(known.and_then(|known| known.receipts)),
            parent: known.and_then(|known| known.parent),
            name: self.agent.clone(),
            root: delegation.as_ref().map_or(key, |given| given.root),
            certificate: delegation.map(|given| given.certificate),
        })
    }

    fn delegation(&self, identity: &AgentIdentity) -> Result<Option<Delegation>, Failure> {
        let Some(path) = &self.args.delegation else {
            return Ok(None);
        };
        let bytes = read_small(&*self.context.fs, path, MAX_DELEGATION_BYTES)?;
        let text = String::from_utf8_lossy(&bytes);
        let given = Delegation::parse(&text).map_err(|error| Failure::from(error).about(path))?;
        if given.signer != *identity.public_key() {
            let text = "the delegation is for another session key";
            return Err(Failure::new(text).about(path));
        }
        Ok(Some(given))
    }

    /// The signing key; it is made only for the first signed link of an agent.
    fn identity(&self) -> Result<AgentIdentity, Failure> {
        if let Some(path) = &self.args.identity {
            return identity::read(path, self.context);
        }
        if let Some(identity) = self.store.load_identity(self.agent)? {
            return Ok(identity);
        }
        let before = self.standing.header();
        if before.is_some_and(|before| before.version.is_signed()) || self.args.delegation.is_some()
        {
            let text = format!(
                "{} has no key in this store; hint: name one with --identity",
                self.agent
            );
            return Err(Failure::new(text));
        }
        let made = AgentIdentity::new(keyring::generate(self.context)?, IdentityForm::Igor);
        self.store.save_identity(self.agent, &made)?;
        let trusted = identity::trust_made(self.agent, made.public_key(), self.context)?;
        if !self.context.quiet {
            let did = made.public_key().to_did_key();
            let trusted = trusted.map(|name| format!(", which this home trusts as {name}"));
            complain(&format!(
                "note: {} has the new key {did}{}",
                self.agent,
                trusted.unwrap_or_default()
            ));
        }
        Ok(made)
    }

    fn whole(&self, head: Vec<u8>) -> Whole<'_> {
        Whole {
            head,
            state: self.state.chunks(),
        }
    }
}

impl Reread for Next<'_> {
    fn read(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let (mut chunks, mut chunk) = (self.state.chunks(), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                return Ok(());
            }
            each(&chunk);
        }
    }
}

/// A header and the file with its state after it.
struct Whole<'f> {
    head: Vec<u8>,
    state: Chunks<'f>,
}

impl Source for Whole<'_> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        if self.head.is_empty() {
            return self.state.next_chunk(buffer);
        }
        *buffer = std::mem::take(&mut self.head);
        Ok(())
    }
}
