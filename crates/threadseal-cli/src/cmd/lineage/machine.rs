//! The shared parts of the commands that move agents: a store, this machine's key, and one agent.
//!
//! ```text
//! STORE             a folder, or an address: file: sqlite: postgres: s3: gs: az: object+file:
//! --key FILE        an identity file or PEM; default: the agent's identity in STORE
//! --delegation FILE the root's delegation to that key; none if the key is the root
//! ```

use super::input::remembered;
use crate::context::Context;
use crate::exit::Failure;
use crate::key_status;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::key::{LocalSigner, Signer as _};
use threadseal_core::limits::{MAX_DELEGATION_BYTES, MAX_KEY_FILE_BYTES};
use threadseal_formats::lineage::{AgentIdentity, AgentName, Authority, Certificate, Delegation};
use threadseal_store::clock::SystemClock;
use threadseal_store::lineage::migrate::Node;
use threadseal_store::lineage::{CheckpointStore, RememberedStore, Standings};
use threadseal_store::read::read_small;

/// Whose agent, and as whom.
#[derive(Debug, Args)]
pub(super) struct MachineArgs {
    /// Place of the links: a folder, or the address of a store
    #[arg(value_name = "STORE")]
    store: String,
    /// The agent [default: the only one in the store]
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
    /// This machine's key: an identity file, or PEM [default: the agent's identity in STORE]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The root's delegation to that key; required unless the key is the root
    #[arg(long, value_name = "FILE")]
    delegation: Option<PathBuf>,
}

/// A machine with its store and key.
pub(super) struct Machine {
    store: RememberedStore,
    standings: Standings,
    signer: LocalSigner,
    certificate: Option<Certificate>,
    clock: SystemClock,
}

impl MachineArgs {
    /// Opens the store, reads the key, and finds the agent.
    ///
    /// # Errors
    /// When one of them cannot be read. When no agent is named and the store does not have exactly
    /// one.
    pub(super) fn open(&self, context: &Context) -> Result<(Machine, AgentName), Failure> {
        let store = self.open_store(context)?;
        let agent = self.agent(&store)?;
        let machine = self.machine(store, Some(&agent), context)?;
        Ok((machine, agent))
    }

    /// The store alone, for commands that need no key of this machine.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open_store(&self, context: &Context) -> Result<RememberedStore, Failure> {
        remembered(&self.store, context)
    }

    /// The named agent, or else the only one in the store.
    ///
    /// # Errors
    /// When none is named and the store does not have exactly one.
    pub(super) fn agent(&self, store: &dyn CheckpointStore) -> Result<AgentName, Failure> {
        match &self.agent {
            Some(agent) => Ok(agent.clone()),
            None => only_one(store),
        }
    }

    /// The named agent.
    pub(super) fn named(&self) -> Option<&AgentName> {
        self.agent.as_ref()
    }

    /// The named key of the agent, or else the one in the store.
    ///
    /// # Errors
    /// When it cannot be read, or there is none.
    pub(super) fn identity(
        &self,
        store: &dyn CheckpointStore,
        agent: &AgentName,
        context: &Context,
    ) -> Result<AgentIdentity, Failure> {
        if let Some(path) = &self.key {
            return read_key(path, context);
        }
        store.load_identity(agent)?.ok_or_else(|| {
            Failure::new(format!(
                "there is no identity of {agent} in {}; hint: name one with --key",
                store.place()
            ))
        })
    }

    /// As [`MachineArgs::open`], for a store that may not contain the agent yet.
    ///
    /// # Errors
    /// As [`MachineArgs::open`]; when neither the key nor an agent is named.
    pub(super) fn open_empty(&self, context: &Context) -> Result<Machine, Failure> {
        let store = self.open_store(context)?;
        let only = only_one(&store).ok();
        let agent = self.agent.as_ref().or(only.as_ref());
        self.machine(store, agent, context)
    }

    fn machine(
        &self,
        store: RememberedStore,
        agent: Option<&AgentName>,
        context: &Context,
    ) -> Result<Machine, Failure> {
        let identity = match (&self.key, agent) {
            (Some(path), _) => read_key(path, context)?,
            (None, Some(agent)) => self.identity(&store, agent, context)?,
            (None, None) => return Err(Failure::new("name the key of this machine with --key")),
        };
        let delegation = match &self.delegation {
            Some(path) => Some(read_delegation(path, context)?),
            None => None,
        };
        let signer = identity.into_native_signer();
        key_status::refuse(signer.public_key(), context)?;
        if let Some(delegation) = &delegation
            && delegation.signer != *signer.public_key()
        {
            return Err(Failure::new("the delegation is to another key"));
        }
        Ok(Machine {
            store,
            standings: Standings::new(),
            signer,
            certificate: delegation.map(|delegation| delegation.certificate),
            clock: SystemClock,
        })
    }
}

impl Machine {
    /// The node for the library that moves agents.
    pub(super) fn node<'m>(&'m self, context: &'m Context) -> Node<'m> {
        Node {
            store: &self.store,
            standings: &self.standings,
            signer: &self.signer,
            certificate: self.certificate,
            clock: &self.clock,
            random: &context.random,
        }
    }
}

/// The result of a command, for programs.
#[derive(Serialize)]
pub(super) struct Moved<'a> {
    pub(super) schema: &'static str,
    pub(super) agent: &'a str,
    pub(super) done: &'static str,
    pub(super) newest: Option<String>,
    /// did:key of the machine that may write the next checkpoint; none during an offer.
    pub(super) holder: Option<String>,
    /// did:key of the machine that may accept the agent.
    pub(super) offered_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
}

/// Reports the action, and the present state of the agent.
///
/// # Errors
/// When the store cannot be read.
pub(super) fn tell(
    done: &'static str,
    node: &Node<'_>,
    agent: &AgentName,
    path: Option<&Path>,
    context: &Context,
    out: &mut crate::output::Out,
) -> Result<(), Failure> {
    let (_, standing) = node.standing(agent)?;
    let offered_to = match standing.authority() {
        Authority::Released(offer) => Some(offer.target.to_did_key()),
        _ => None,
    };
    let moved = Moved {
        schema: "threadseal.lineage.moved/1",
        agent: agent.as_str(),
        done,
        newest: standing.newest().map(|hash| hash.to_hex()),
        holder: standing
            .authority()
            .holder()
            .map(threadseal_core::key::PublicKey::to_did_key),
        offered_to,
        path: path.map(|path| path.display().to_string()),
    };
    if context.json {
        out.json(&moved);
        return Ok(());
    }
    out.line(format_args!("{agent}: {done}"));
    let rows = [
        ("newest", &moved.newest),
        ("holder", &moved.holder),
        ("offered to", &moved.offered_to),
        ("file", &moved.path),
    ];
    for (label, text) in rows {
        if let Some(text) = text {
            out.line(format_args!(
                "{}{text}",
                context.palette.faint(&format!("  {label:<12}"))
            ));
        }
    }
    Ok(())
}

/// The delegation in a file, with the root's signature verified.
///
/// # Errors
/// When it cannot be read, is none, or its signature is invalid.
pub(super) fn read_delegation(path: &Path, context: &Context) -> Result<Delegation, Failure> {
    let bytes = read_small(&*context.fs, path, MAX_DELEGATION_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let delegation = Delegation::parse(&text).map_err(|error| Failure::from(error).about(path))?;
    match delegation.verify() {
        Ok(()) => Ok(delegation),
        Err(_) => {
            Err(Failure::new("the delegation is not signed by the root that it names").about(path))
        }
    }
}

fn read_key(path: &Path, context: &Context) -> Result<AgentIdentity, Failure> {
    let bytes = match threadseal_store::owned_files::read_private_key_file(&*context.fs, path) {
        Ok(bytes) if bytes.len() <= MAX_KEY_FILE_BYTES => bytes,
        Ok(_) => return Err(Failure::new("the key file is too large").about(path)),
        Err(error) => return Err(error.into()),
    };
    AgentIdentity::read(&bytes).map_err(|error| Failure::from(error).about(path))
}

/// The only agent of a store.
///
/// # Errors
/// When it has none or several.
pub(super) fn only_one(store: &dyn CheckpointStore) -> Result<AgentName, Failure> {
    match &store.list(None, 2)?[..] {
        [agent] => Ok(agent.clone()),
        [] => Err(Failure::new(format!(
            "there is no agent in {}",
            store.place()
        ))),
        _ => Err(Failure::new(format!(
            "there are several agents in {}; hint: name one with --agent",
            store.place()
        ))),
    }
}

/// The key that a text names.
///
/// # Errors
/// When the text names none.
pub(super) fn key_named(
    text: &str,
    context: &Context,
) -> Result<threadseal_core::key::PublicKey, Failure> {
    verifying::public_key(text, context)
}
