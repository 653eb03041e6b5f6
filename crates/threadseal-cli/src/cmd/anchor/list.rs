//! `anchor list`: the policies and authorities of this home.

use super::{authorities, stamp};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::policies::policies;
use crate::render::clean::Clean;
use crate::seal_log;
use serde_json::json;
use threadseal_core::tlog::policy::PolicyWitness;

pub(super) fn run(context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let policies = policies(&home, context)?.telling(context);
    let authorities = authorities(&home, context)?.telling(context);
    let log = match authorities.is_empty() {
        true => None,
        false => seal_log::open(&home, context)?,
    };
    let stamps = stamp::last_of_each(log.as_ref(), &authorities)?;
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
        let authorities: Vec<_> = authorities
            .iter()
            .zip(&stamps)
            .map(|((name, authority), last)| {
                json!({"name": name, "url": authority.url(), "last": last})
            })
            .collect();
        let value = json!({"schema": "threadseal.anchor.list/1", "policies": policies,
                           "authorities": authorities});
        out.json(&value);
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
    for ((name, authority), last) in authorities.iter().zip(&stamps) {
        out.line(format_args!("{}  {}", Clean(name), Clean(authority.url())));
        if let Some(last) = last {
            out.line(format_args!("  {}", Clean(&last.to_string())));
        }
    }
    Ok(Exit::Done)
}
