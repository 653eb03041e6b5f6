//! Settings of a project, a user and this program for running threads.
//!
//! ```text
//! config item                 sets
//! agent/coordination          handoff, waiting, how strictly records are read
//! agent/resilience            default limits, retries, children
//! agent/error_classification  which errors are retried
//! agent/capability_risk       the risk of each capability
//! agent/hook_conditions       hooks of the program and its infrastructure
//! agent/hooks                 hooks of the project, of the user
//! agent/agent                 which provider
//! agent/models                models: windows, prices, tiers; providers: addresses
//! ```
//! Each is read from the program, then the user's space, then the project; the later one counts,
//! key by key. Every file is an item, verified before it is read.
//!
//! Normative: `spec/declarations.md` §7.

pub mod agent;
pub mod coordination;
pub mod errors;
mod fields;
pub mod hooks;
pub(crate) mod missing;
pub mod models;
pub mod resilience;
mod risk;

use crate::capability::RiskTable;
use crate::item::{Finder, Grounds, Item, ItemId, Standing, Used};
use crate::yaml::{self, Node};
use agent::Agent;
use coordination::Coordination;
use errors::ErrorTable;
use hooks::Hooks;
use models::Models;
use resilience::Resilience;
use threadseal_core::error::Error;

/// All settings, and the files they come from.
#[derive(Debug, Clone)]
pub struct Config {
    /// Handoff, waiting, how strictly records are read.
    pub coordination: Coordination,
    /// Default limits, retries, children.
    pub resilience: Resilience,
    /// Which errors are retried.
    pub errors: ErrorTable,
    /// The risk of each capability.
    pub risks: RiskTable,
    /// Hooks that no directive or graph declares.
    pub hooks: Hooks,
    /// Which provider.
    pub agent: Agent,
    /// Models and their providers.
    pub models: Models,
    /// The files that were read, for the transcript.
    pub used: Vec<Used>,
}
impl Config {
    /// Reads the settings of `agent/coordination` alone, and the files they come from.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn coordination(
        finder: &Finder,
        grounds: &Grounds<'_>,
    ) -> Result<(Coordination, Vec<Used>), Error> {
        let id = ItemId::parse("agent/coordination")?;
        let items = finder.settings(&id, grounds)?;
        let mut coordination = Coordination::default();
        for item in items.iter().rev() {
            coordination.overlay(&yaml::parse(item.path(), item.text())?)?;
        }
        Ok((coordination, items.iter().map(Item::used).collect()))
    }

    /// Reads all settings.
    ///
    /// # Errors
    /// Kind `Refused` when a file may not be used, `InvalidInput` with file and line when it is
    /// wrong.
    pub fn load(finder: &Finder, grounds: &Grounds<'_>) -> Result<Self, Error> {
        let (coordination, mut used) = Self::coordination(finder, grounds)?;
        let mut layers = |name: &str| -> Result<Vec<Node>, Error> {
            let id = ItemId::parse(&format!("agent/{name}"))?;
            let items = finder.settings(&id, grounds)?;
            used.extend(items.iter().map(Item::used));
            let read = |item: &Item| yaml::parse(item.path(), item.text());
            items.iter().rev().map(read).collect()
        };
        let mut resilience = Resilience::default();
        for layer in layers("resilience")? {
            resilience.overlay(&layer)?;
        }
        let mut errors = ErrorTable::default();
        for layer in layers("error_classification")? {
            errors.overlay(&layer, &resilience.retry_policies)?;
        }
        let mut risks = RiskTable::shipped()?;
        for layer in layers("capability_risk")? {
            risks = risk::read(&layer)?;
        }
        let mut hooks = Hooks::default();
        for layer in layers("hook_conditions")? {
            hooks.overlay(&layer)?;
        }
        let mut agent = Agent::default();
        for layer in layers("agent")? {
            agent.overlay(&layer)?;
        }
        let mut models = Models::default();
        let files = finder.settings(&ItemId::parse("agent/models")?, grounds)?;
        for item in files.iter().rev() {
            let layer = yaml::parse(item.path(), item.text())?;
            models.overlay(&layer, item.standing().vouches())?;
        }
        used.extend(files.iter().map(Item::used));
        let own = finder.settings(&ItemId::parse("agent/hooks")?, grounds)?;
        for item in own.iter().rev() {
            let layer = match finder.is_first(item) {
                true => hooks::PROJECT_LAYER,
                false => hooks::USER_LAYER,
            };
            hooks.declare(&yaml::parse(item.path(), item.text())?, layer)?;
        }
        used.extend(own.iter().map(Item::used));
        used.retain(|used| used.standing != Standing::Builtin);
        Ok(Self {
            coordination,
            resilience,
            errors,
            risks,
            hooks,
            agent,
            models,
            used,
        })
    }
}
#[cfg(test)]
mod tests;
