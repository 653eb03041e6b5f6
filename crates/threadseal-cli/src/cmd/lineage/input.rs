//! Input of the commands on lineages: trusted signers, expected heads, files.

use super::machine::only_one;
use crate::cmd::ledger::place::noted_address;
use crate::context::{Context, object_storage_settings};
use crate::exit::Failure;
use crate::missing;
use crate::progress::Bar;
use crate::record;
use crate::render::json::PathError;
use crate::verifying::{self, IdArgs};
use clap::Args;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Report;
use threadseal_formats::lineage::{AgentName, ContentHash, View};
use threadseal_store::address::{self, Intent};
use threadseal_store::lineage::{CheckpointStore, Newest, RememberedStore};
use threadseal_store::open;
use threadseal_verify::address::address_of;
use threadseal_verify::inputs;
use threadseal_verify::inputs::Candidate;
use threadseal_verify::notices::Progress as _;
use threadseal_verify::request::{LineageRequest, VerifyRequest};
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::{ReadCheckpoint, StoredLineages, Verifier};

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
    #[command(flatten)]
    id: IdArgs,
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

/// The store at `address`, of which this host remembers the newest links.
///
/// # Errors
/// When it cannot be opened.
pub(super) fn remembered(address: &str, context: &Context) -> Result<RememberedStore, Failure> {
    let store = open::lineages(address, Intent::Write, &object_storage_settings())?;
    let host = context.host()?;
    let is_folder = !address::is_address(address) || address::folder_of(address)?.is_some();
    let noted = (!is_folder).then(|| noted_address(address, &host));
    Ok(RememberedStore::new(store, host).at(noted))
}

/// A store, an agent in it, and one of its links, as `STORE[#AGENT[/HASH]]` names them.
#[derive(Debug, Clone)]
pub(super) struct InStore {
    pub(super) address: String,
    pub(super) agent: Option<AgentName>,
    pub(super) link: Option<ContentHash>,
}

impl InStore {
    /// What `path` names, if it is the address of a store that is no folder.
    ///
    /// # Errors
    /// When it names an agent or a link that cannot be one.
    pub(super) fn of(path: &Path) -> Result<Option<Self>, Failure> {
        let Some(text) = address_of(path) else {
            return Ok(None);
        };
        if address::folder_of(text)?.is_some() {
            return Ok(None);
        }
        let (address, name) = text.split_once('#').unwrap_or((text, ""));
        let (agent, link) = name.split_once('/').unwrap_or((name, ""));
        let agent = match agent {
            "" => None,
            agent => Some(AgentName::parse(agent)?),
        };
        let link = match link {
            "" => None,
            link => Some(ContentHash::parse_hex(link).ok_or_else(|| {
                Failure::new("a link in a store is named STORE#AGENT/HASH, with 64 hex digits")
            })?),
        };
        Ok(Some(Self {
            address: address.to_owned(),
            agent,
            link,
        }))
    }

    /// The same of one link: the named one, or else the newest of the agent.
    ///
    /// # Errors
    /// When the store cannot be read, or names no link.
    pub(super) fn one(self) -> Result<Self, Failure> {
        if self.link.is_some() {
            return Ok(self);
        }
        let store = self.open()?;
        let agent = match self.agent {
            Some(agent) => agent,
            None => only_one(&*store)?,
        };
        let Newest::Link(newest) = store.newest(&agent)? else {
            return Err(Failure::new(format!("the store has no link of {agent}")));
        };
        Ok(Self {
            agent: Some(agent),
            link: Some(newest),
            address: self.address,
        })
    }

    /// The path that names it.
    pub(super) fn path(&self) -> PathBuf {
        let agent = self.agent.as_ref().map(AgentName::as_str);
        let link = self.link.map(|link| format!("/{link}"));
        let (agent, link) = (agent.unwrap_or_default(), link.unwrap_or_default());
        PathBuf::from(format!("{}#{agent}{link}", self.address))
    }

    /// The first bytes of the state of the link, at most `limit`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn state(&self, limit: usize) -> Result<Vec<u8>, Failure> {
        let (Some(agent), Some(link)) = (&self.agent, &self.link) else {
            return Ok(Vec::new());
        };
        let stored = self.open()?.load(agent, link)?;
        let (mut bytes, mut chunk) = (Vec::new(), Vec::new());
        let Some(mut state) = stored.and_then(|stored| stored.state) else {
            return Ok(bytes);
        };
        while bytes.len() < limit {
            state.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        bytes.truncate(limit);
        Ok(bytes)
    }

    fn open(&self) -> Result<Box<dyn CheckpointStore>, Failure> {
        let settings = object_storage_settings();
        Ok(open::lineages(&self.address, Intent::Read, &settings)?)
    }

    fn read(&self, verifier: &Verifier) -> Result<StoredLineages, Failure> {
        let mut found = verifier.stored_lineages(&self.address, self.agent.as_ref())?;
        if let Some(hash) = &self.link {
            let is_it =
                |found: &ReadCheckpoint| found.facts.link().is_some_and(|l| l.hash == *hash);
            found.links.retain(is_it);
            found.faults.clear();
        }
        Ok(found)
    }
}

/// The files and stores of a run, and their examiner.
pub(in crate::cmd) struct Input {
    pub(in crate::cmd) verifier: Verifier,
    /// One file, named alone, or a history?
    pub(in crate::cmd) view: View,
    /// Paths that could not be read.
    pub(super) errors: Vec<PathError>,
    files: Vec<Candidate>,
    stores: Vec<InStore>,
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
            ..VerifyRequest::by(verifying::gather(
                &args.id.and(&args.trust),
                keys,
                &local,
                context,
            )?)
        };
        Self::asking(paths, asked, context)
    }

    /// As [`Input::of`], with a given request.
    ///
    /// # Errors
    /// As [`Input::of`].
    pub(in crate::cmd) fn asking(
        paths: &[PathBuf],
        asked: VerifyRequest,
        context: &Context,
    ) -> Result<Self, Failure> {
        let (mut stores, mut others) = (Vec::new(), Vec::new());
        for path in paths {
            match InStore::of(path)? {
                Some(store) => stores.push(store),
                None => others.push(path.clone()),
            }
        }
        let mut found = inputs::find(&others, &record::stores());
        found.errors.iter_mut().for_each(missing::add_hint);
        let bar = Bar::over(found.files.iter().map(|file| file.bytes).sum(), context);
        let view = match (found.files.as_slice(), stores.as_slice()) {
            ([only], []) if only.named => View::Single,
            ([], [only]) if only.link.is_some() => View::Single,
            _ => View::History,
        };
        Ok(Self {
            verifier: verifying::verifier(asked, &bar, context)?.among(found.files.len()),
            view,
            errors: found.errors,
            files: found.files,
            stores,
            bar,
        })
    }

    /// Reads the checkpoints.
    ///
    /// # Errors
    /// When one cannot be read, or there is none.
    pub(in crate::cmd) fn links(&self) -> Result<Vec<ReadCheckpoint>, Failure> {
        let mut found = self.links_of_files()?;
        for store in &self.stores {
            let stored = store.read(&self.verifier)?;
            if let Some(fault) = stored.faults.first() {
                let text = fault
                    .findings
                    .first()
                    .map(|finding| finding.message.clone());
                let text = format!("{}: {}", fault.path, text.unwrap_or_default());
                return Err(Failure::new(text));
            }
            found.extend(stored.links);
        }
        match found.is_empty() && self.errors.is_empty() {
            true => Err(none_found()),
            false => Ok(found),
        }
    }

    fn links_of_files(&self) -> Result<Vec<ReadCheckpoint>, Failure> {
        let found = self.verifier.links(&self.files);
        self.bar.done();
        Ok(found?)
    }

    /// Verifies the checkpoints; also reports lineages of which files show that they are gone, and those
    /// that this host sealed last in a store that was named whole, and that are gone.
    ///
    /// # Errors
    /// As [`Input::links`].
    pub(super) fn reports(&self) -> Result<Vec<Report>, Failure> {
        let mut found = self.links_of_files()?;
        let mut reports = self.verifier.newest_links_gone(&self.files)?;
        let mut whole = Vec::new();
        for store in &self.stores {
            let mut stored = store.read(&self.verifier)?;
            found.append(&mut stored.links);
            reports.append(&mut stored.faults);
            whole.extend(Some(stored).filter(|_| store.agent.is_none()));
        }
        let outcomes = self.verifier.lineages(found, self.view)?;
        let judged = outcomes.into_iter().map(|outcome| outcome.report);
        let mut reports: Vec<Report> = judged.chain(reports).collect();
        let here = reports.iter().filter_map(|report| report.record).collect();
        for store in &whole {
            reports.extend(self.verifier.lineages_gone(store, &here)?);
        }
        match reports.is_empty() && self.errors.is_empty() {
            true => Err(none_found()),
            false => Ok(reports),
        }
    }
}

fn none_found() -> Failure {
    Failure::new("no checkpoint was found")
}
