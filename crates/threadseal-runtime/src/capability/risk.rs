//! The harm that a capability can do, and the acknowledgement that its grant requires.
//!
//! ```text
//! unrestricted   block        rye.*
//! elevated       acknowledge  rye.execute.*  …tool.rye.bash.*  …tool.rye.shell.*  …tool.rye.web.*
//! write          allow        rye.execute.tool.rye.file-system.*
//! safe           allow        rye.search.*  rye.load.*  rye.sign.*
//! ```
//! The table is Rye's (`capability_risk.yaml`). A capability has the risk of the narrowest class
//! that covers it, and of every class that it covers. So `*` is as dangerous as `rye.*`. (Rye looks
//! only for classes that cover it, and lets `*` pass.)

use super::{Capabilities, Capability};
use crate::bounds::MAX_CLASSIFICATIONS;
use threadseal_core::error::{Error, ErrorKind};

/// How a capability of some risk is handled, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskPolicy {
    /// It is granted.
    Allow,
    /// It is granted; without an acknowledgement in the directive, a warning names the risk.
    Acknowledge,
    /// It is granted only where the directive acknowledges the risk.
    Block,
}

impl RiskPolicy {
    /// The policy of a word in the table's file.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "allow" => Some(Self::Allow),
            "acknowledge_required" => Some(Self::Acknowledge),
            "block" => Some(Self::Block),
            _ => None,
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// Name of the risk, as directives acknowledge it.
    pub risk: String,
    /// How such a capability is handled.
    pub policy: RiskPolicy,
    /// Which capabilities have it.
    pub pattern: Capability,
}

/// A capability whose risk needs an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risk {
    /// Which one.
    pub capability: Capability,
    /// Name of the risk.
    pub risk: String,
    /// [`RiskPolicy::Acknowledge`]: warn; [`RiskPolicy::Block`]: do not start the thread.
    pub policy: RiskPolicy,
}

/// All classifications.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RiskTable(Vec<Classification>);

impl RiskTable {
    /// The table of the module's heading.
    ///
    /// # Errors
    /// None: it is read like any other.
    pub fn shipped() -> Result<Self, Error> {
        let table = [
            ("unrestricted", RiskPolicy::Block, "rye.*"),
            (
                "elevated",
                RiskPolicy::Acknowledge,
                "rye.execute.tool.rye.bash.*",
            ),
            (
                "elevated",
                RiskPolicy::Acknowledge,
                "rye.execute.tool.rye.shell.*",
            ),
            (
                "elevated",
                RiskPolicy::Acknowledge,
                "rye.execute.tool.rye.web.*",
            ),
            ("elevated", RiskPolicy::Acknowledge, "rye.execute.*"),
            (
                "write",
                RiskPolicy::Allow,
                "rye.execute.tool.rye.file-system.*",
            ),
            ("safe", RiskPolicy::Allow, "rye.search.*"),
            ("safe", RiskPolicy::Allow, "rye.load.*"),
            ("safe", RiskPolicy::Allow, "rye.sign.*"),
        ];
        let read = |(risk, policy, pattern): (&str, RiskPolicy, &str)| {
            Ok(Classification {
                risk: risk.to_owned(),
                policy,
                pattern: Capability::parse(pattern)?,
            })
        };
        Self::new(table.into_iter().map(read).collect::<Result<_, Error>>()?)
    }

    /// The table of these lines.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_CLASSIFICATIONS`].
    pub fn new(lines: Vec<Classification>) -> Result<Self, Error> {
        match lines.len() <= MAX_CLASSIFICATIONS {
            true => Ok(Self(lines)),
            false => Err(Error::new(
                ErrorKind::Limit,
                format!("a table of risks has at most {MAX_CLASSIFICATIONS} lines"),
            )),
        }
    }

    /// The capabilities whose risk asks for more than [`RiskPolicy::Allow`], and that the directive
    /// does not acknowledge; each with its gravest risk.
    pub(crate) fn unacknowledged<T: AsRef<str>>(
        &self,
        granted: &Capabilities,
        acknowledged: &[T],
    ) -> Vec<Risk> {
        let said = |line: &&Classification| {
            let known = acknowledged.iter().any(|risk| risk.as_ref() == line.risk);
            !known && line.policy > RiskPolicy::Allow
        };
        let of = |capability: &Capability| {
            let gravest = self.classes(capability).into_iter().filter(said);
            let gravest = gravest.max_by_key(|line| line.policy)?;
            Some(Risk {
                capability: capability.clone(),
                risk: gravest.risk.clone(),
                policy: gravest.policy,
            })
        };
        granted.iter().filter_map(of).collect()
    }

    /// The capabilities that are granted only with an acknowledgement of this risk, or warned about
    /// without it.
    pub(crate) fn needing<'a>(
        &'a self,
        granted: &'a Capabilities,
        risk: &'a str,
    ) -> impl Iterator<Item = &'a Capability> {
        let asks =
            move |line: &Classification| line.risk == risk && line.policy > RiskPolicy::Allow;
        let needs = move |held: &&Capability| self.classes(held).into_iter().any(asks);
        granted.iter().filter(needs)
    }

    /// The names of all risks, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|line| &*line.risk).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn classes(&self, capability: &Capability) -> Vec<&Classification> {
        let dots = |line: &&Classification| line.pattern.as_str().matches('.').count();
        let covering = self.0.iter().filter(|line| line.pattern.covers(capability));
        let narrowest = covering.max_by_key(dots);
        let covered = self
            .0
            .iter()
            .filter(|line| capability.covers(&line.pattern));
        narrowest.into_iter().chain(covered).collect()
    }
}
