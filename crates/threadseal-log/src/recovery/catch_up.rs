//! The way out for a log of which a newer copy exists: its missing entries are taken from the copy.

use crate::commit::log_access::LogAccess;
use crate::commit::spool_quarantine::SpoolQuarantine;
use crate::marks::fault::Fault;
use crate::marks::mark_state::MarkState;
use crate::tree::contents::Contents;
use crate::tree::view::LogView;
use crate::tree::writer::Writer;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;

/// Takes from the copy of this log in `folder` the entries that the log lacks, and then the heads that the home has stored
/// and both lack. Answers the number of new entries.
///
/// # Errors
/// As [`crate::SealLog::catch_up`].
pub(crate) fn catch_up(access: &LogAccess, folder: &Path) -> Result<u64, Error> {
    let copy = access.marks.home().dir_at(folder);
    let copy = LogView::read(&copy, &access.description)?;
    let remote = access.marks.remote_states(true);
    let key = access.key()?;
    let patient = || true;
    // A process that commits by what the marks know keeps all others out, a copy of this home among them.
    let _alone = access.marks.enter(&patient)?;
    let judge = |_: &Contents, tree: TreeHead| check_copy(access, &copy, &tree, &remote);
    let mut writer = Writer::open(
        &access.dir,
        &access.description,
        key,
        &patient,
        &judge,
        false,
    )?;
    let first = writer.tree().size;
    let entries = (first..copy.tree().size).map(|number| copy.entry(number));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    writer.commit(&entries)?;
    writer.fold()?;
    access.marks.update(&writer)?;
    let quarantine = SpoolQuarantine {
        dir: &access.dir,
        log: access.description.id,
    };
    let mut index = access.index.lock();
    index.catch_up(writer.contents())?;
    quarantine.retry(&mut writer, &index)?;
    writer.fold()?;
    index.catch_up(writer.contents())?;
    let stored = quarantine.commit_stored(&mut writer, &index)?;
    access.marks.update(&writer)?;
    Ok((entries.len() + stored) as u64)
}

/// Does this copy continue `tree`, all that was committed here, and what each second place knows?
fn check_copy(
    access: &LogAccess,
    copy: &LogView,
    tree: &TreeHead,
    remote: &[Result<MarkState, Error>],
) -> Result<(), Error> {
    let fault = access.marks.displacement()?;
    fault.map_or(Ok(()), |fault| Err(fault.into_error()))?;
    if !copy.continues(tree)? {
        return Err(Error::refused("this copy does not continue the log"));
    }
    let known = access.marks.known(remote);
    match known.fault(copy.contents(), copy.tree())? {
        None => Ok(()),
        Some(Fault::RolledBack { mark, .. }) => Err(Error::refused(format!(
            "this copy does not continue the checkpoint of {} entries in the second place",
            mark.size
        ))),
        Some(fault) => Err(fault.into_error()),
    }
}
