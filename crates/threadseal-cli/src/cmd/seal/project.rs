//! `seal --project`: the items of a project that no trusted key sealed.
//!
//! An item that was changed since it was sealed is named, and left: else someone's change would get
//! the seal of a user who sealed another file. `seal PATH` seals it, which is a decision on that file.

use super::Chosen;
use crate::context::Context;
use crate::exit::Failure;
use crate::refused_path::{self, RefusedPath};
use crate::trusted_projects;
use crate::verifying;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_runtime::item::{Finder, Grounds, ItemPolicy, Surveyed};
use threadseal_runtime::project::Project;
use threadseal_verify::trust_locality::Locality;

/// The items of the project of `folder` or of the nearest folder above it.
///
/// # Errors
/// When there is none, it is another user's and not trusted, or it cannot be read.
pub(super) fn unsealed(folder: &Path, context: &Context) -> Result<Chosen, Failure> {
    let project = Project::find(&*context.fs, folder)?;
    trusted_projects::check(project.root(), context)?;
    let root = project.root().to_owned();
    let local = Locality::to(slice::from_ref(&root), false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let host = context.host()?;
    let grounds = Grounds {
        trust: &trust,
        now: context.now()?,
        heads: &*host.heads,
        policy: ItemPolicy::AllowUnsigned,
    };
    let (mut paths, mut refused) = (Vec::new(), Vec::new());
    let finder = Finder::new(Arc::clone(&context.fs), vec![root.clone()]);
    for Surveyed { path, standing } in finder.survey(&grounds)? {
        match standing {
            Ok(standing) if standing.vouches() => {}
            Ok(_) => paths.push(path),
            Err(error) => refused.push(RefusedPath::of(&path, &left(error, &path, context))),
        }
    }
    let all = paths.is_empty() && refused.is_empty();
    Ok(Chosen {
        paths,
        refused,
        sealed: all.then_some(root),
    })
}

/// The refusal of an item that may not be used at all.
fn left(error: Error, path: &Path, context: &Context) -> Failure {
    let shown = path.display();
    let text =
        format!("{shown}: not sealed; hint: if the change is yours, threadseal seal {shown}");
    let failure = refused_path::with_evidence(Failure::new(text), path, context);
    match failure.not_verified() {
        Some(_) => failure,
        None => error.into(),
    }
}
