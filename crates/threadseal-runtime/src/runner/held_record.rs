//! Opens records under the writer's lock, verified again.

use super::services::Services;
use crate::config::coordination::Integrity;
use crate::judge;
use crate::no_links::NoLinks;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::examine;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::{Opened, Recorder, TailPolicy};
use threadseal_store::sys::text_path;

/// Takes the lock of the record of `id` and verifies under it.
pub(super) fn open(
    services: &Services,
    id: &ThreadId,
    policy: TailPolicy,
) -> Result<Opened, Error> {
    let verifier =
        judge::of_transcripts((&services.host, &services.log, &services.trust), id, None)?;
    let (host, keys) = (NoLinks::host(&services.host), services.keys.clone());
    let transcript = services.project.thread(id).transcript();
    Recorder::open(host, &transcript, keys, &verifier, policy)
}

/// Holds the record of a thread that ended. An unsealed tail is refused, or held for adoption.
pub(super) fn hold(services: &Services, id: &ThreadId) -> Result<Recorder, Error> {
    let folder = services.project.thread(id);
    services.project.inside(&*services.host.fs, folder.path())?;
    let tail = match services.config.coordination.transcript_integrity {
        Integrity::Strict => TailPolicy::Refuse,
        Integrity::Lenient => TailPolicy::Hold,
    };
    let with_place = |error: Error| match copy_elsewhere(services, &folder.transcript()) {
        Some(copy) => {
            let text = error.to_string();
            let (what, hint) = text.split_at(text.find("; hint: ").unwrap_or(text.len()));
            Error::new(error.kind(), format!("{what}; {copy}{hint}"))
        }
        None => error,
    };
    Ok(open(services, id, tail).map_err(with_place)?.recorder)
}

/// The other path of the record whose first line is that of `path`, if this host sealed it last
/// there. Of two copies of a project, one becomes stale.
fn copy_elsewhere(services: &Services, path: &Path) -> Option<String> {
    let first = examine::first_line(&open_regular(&*services.host.fs, path).ok()?).ok()??;
    let record = examine::native_record(&first)?;
    let known = services.host.heads.fetch(&record).ok()??;
    let there = known.path_hint?;
    let elsewhere = there != services.host.place(path);
    let exists =
        text_path(&there).is_some_and(|path| services.host.fs.symlink_metadata(&path).is_ok());
    (elsewhere && exists).then(|| format!("this host sealed it last in {there}"))
}
