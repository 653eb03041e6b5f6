//! `agent/capability_risk`: the risk of each capability, and the acknowledgement that its grant
//! requires.

use super::file_fields;
use crate::capability::{Capability, Classification, RiskPolicy, RiskTable};
use crate::yaml::Node;
use threadseal_core::error::Error;

/// Reads a whole table; it replaces the one before.
pub(super) fn read(node: &Node) -> Result<RiskTable, Error> {
    let Some(mut fields) = file_fields(node)? else {
        return RiskTable::shipped();
    };
    let mut levels = Vec::new();
    for level in fields.require("risk_levels")?.entries()? {
        let mut known = level.value.fields()?;
        known.ignore(&["description"]);
        let word = known.require("policy")?;
        let policy =
            RiskPolicy::parse(word.text()?).ok_or_else(|| word.error("this policy is unknown"))?;
        known.finish("a level of risk")?;
        levels.push((level.key.as_str(), policy));
    }
    let mut lines = Vec::new();
    let classifications = fields.require("classifications")?;
    for node in classifications.list()? {
        let mut line = node.fields()?;
        line.ignore(&["description"]);
        let risk = line.require("risk")?;
        let name = risk.text()?;
        let level = levels.iter().find(|(known, _)| *known == name);
        let (_, policy) = level.ok_or_else(|| risk.error(format!("unknown level `{name}`")))?;
        for pattern in line.require("patterns")?.list()? {
            let read = Capability::parse(pattern.text()?);
            lines.push(Classification {
                risk: name.to_owned(),
                policy: *policy,
                pattern: read.map_err(|error| pattern.error(error))?,
            });
        }
        line.finish("a classification")?;
    }
    fields.finish("the table of risks")?;
    RiskTable::new(lines).map_err(|error| classifications.error(error))
}
