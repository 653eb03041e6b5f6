//! `id show`

use super::{IdentityOutput, describe, words};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::trust_file;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use threadseal_core::identity::Identity;
use threadseal_verify::identities::Identities;

/// What `id show` takes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A file, or the name or id of an identity that this home knows [default: all of these]
    #[arg(value_name = "FILE|NAME")]
    which: Option<String>,
}

#[derive(Serialize)]
struct ShowOutput {
    schema: &'static str,
    /// That of this home.
    own: Option<IdentityOutput>,
    /// Those of others.
    others: Vec<IdentityOutput>,
}

pub(super) fn run(args: &ShowArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.home_where_named()?;
    let known = home.as_ref().map(|home| Identities::of(home, &context.fs));
    let own = match &known {
        Some(known) => known.own()?,
        None => None,
    };
    let (own, others) = match &args.which {
        None => (
            own,
            known.map_or_else(|| Ok(Vec::new()), |known| known.all_imported())?,
        ),
        Some(which) => {
            let found = find(which, known.as_ref(), context)?;
            match own.filter(|own| own.id() == found.id()) {
                Some(_) => (Some(found), Vec::new()),
                None => (None, vec![found]),
            }
        }
    };
    if context.json {
        let shown = ShowOutput {
            schema: "threadseal.id.show/1",
            own: own.as_ref().map(IdentityOutput::of),
            others: others.iter().map(IdentityOutput::of).collect(),
        };
        out.json(&shown);
        return Ok(Exit::Done);
    }
    if args.which.is_some() {
        for identity in own.iter().chain(&others) {
            describe(identity, out);
        }
        return Ok(Exit::Done);
    }
    match &own {
        Some(own) => describe(own, out),
        None => out.line("no identity of this home yet; hint: threadseal id export -o NAME.id"),
    }
    for other in &others {
        let name = other.content().name.as_str();
        out.line(format_args!(
            "{:<16}  {}",
            Clean(name).to_string(),
            words(other)
        ));
    }
    Ok(Exit::Done)
}

/// The identity in a file, or the one that the home knows by this name or id.
///
/// # Errors
/// When there is none.
pub(super) fn find(
    which: &str,
    known: Option<&Identities>,
    context: &Context,
) -> Result<Identity, Failure> {
    let path = Path::new(which);
    if path.exists() {
        return trust_file::read_identity(path, &*context.fs)?
            .ok_or_else(|| Failure::new("not an identity").about(path));
    }
    let named = known.map(|known| known.named(which)).transpose()?;
    named.flatten().ok_or_else(|| {
        Failure::new(format!(
            "there is no file and no identity {which:?}; hint: threadseal id show"
        ))
    })
}
