//! `anchor list`: the policies of this home.

use super::policies;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use serde_json::json;
use threadseal::tlog::policy::PolicyWitness;

/// Prints them.
pub(super) fn run(context: &Context, out: &mut Out) -> Outcome {
    let policies = policies(&context.existing_home()?, context)?;
    let address = |witness: &PolicyWitness| witness.url.as_ref().map(ToString::to_string);
    if context.json {
        let witness = |witness: &PolicyWitness| {
            json!({"name": witness.name.to_string(), "vkey": witness.key.to_string(),
                   "url": address(witness)})
        };
        let policies: Vec<_> = policies
            .iter()
            .map(|(name, policy)| {
                let witnesses: Vec<_> = policy.witnesses().iter().map(witness).collect();
                json!({"name": name, "witnesses": witnesses})
            })
            .collect();
        out.json(&json!({"schema": "threadseal.anchor.list/1", "policies": policies}));
        return Ok(Exit::Done);
    }
    for (name, policy) in &policies {
        out.line(Clean(name));
        for witness in policy.witnesses() {
            let address = address(witness).unwrap_or_else(|| "no address".to_owned());
            let name = witness.name.to_string();
            out.line(format_args!("  {}  {}", Clean(&name), Clean(&address)));
        }
    }
    Ok(Exit::Done)
}
