//! The step ledger of a thread, checked against its transcript's seals.
//!
//! ```text
//! terminal event: ledger {count, head}
//!     ─► ledger_<record>.jsonl: chain and signatures hold, that record is its last
//! no such event
//!     ─► chain and signatures hold, and it contains the end that this host knows
//! ```

use super::{Archive, VerifiedRecord};
use crate::bounds::MAX_CONVERSATION_BYTES;
use crate::judge;
use crate::project::ThreadFolder;
use crate::signed_file::refusal;
use serde_json::Value;
use std::path::PathBuf;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::report::Verdict;
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{ChainTip, RunId};
use threadseal_store::host::Host;
use threadseal_store::ledger::known;
use threadseal_store::read::open_regular;
use threadseal_verify::home_log::HomeLog;

/// A step ledger of which the chain and the signatures hold.
pub(crate) struct Steps {
    /// Its lines.
    pub(crate) bytes: Vec<u8>,
    path: PathBuf,
    tip: Option<ChainTip>,
}

impl Steps {
    /// Reads the ledger of `record` in `folder`. `named` is its end by a sealed event, {`count`,
    /// `head`}: the ledger must contain that end.
    ///
    /// # Errors
    /// Kind `Refused` when it is missing, or its chain or a signature does not hold; errors of the
    /// disk.
    pub(crate) fn read(
        grounds: (&Host, &HomeLog, &Trust),
        folder: &ThreadFolder,
        record: &RecordId,
        named: Option<&Value>,
    ) -> Result<Self, Error> {
        let run = RunId::parse(&record.to_string())?;
        let path = path_of(folder, &run);
        let host = grounds.0;
        if host.fs.symlink_metadata(&path).is_err() {
            let text = format!("{} is missing: record {record} names it", path.display());
            return Err(Error::refused(text));
        }
        let file = open_regular(&*host.fs, &path)?;
        let sealed = named.and_then(|named| tip_of(&run, named));
        let sealed = sealed.map(|tip| tip.head());
        let outcome = judge::of_ledgers(grounds, sealed)?.ledger_file(&file)?;
        if !matches!(
            outcome.report.verdict,
            Verdict::Verified | Verdict::Open | Verdict::UnsignedTail
        ) {
            return Err(refusal(&path, &outcome.report));
        }
        Ok(Self {
            bytes: file.read_whole(MAX_CONVERSATION_BYTES)?,
            path,
            tip: outcome.tip,
        })
    }

    /// Does it end as a sealed event states?
    fn ends_with(&self, run: &RunId, named: &Value) -> Result<(), Error> {
        let tip = tip_of(run, named);
        if tip.is_some() && tip == self.tip {
            return Ok(());
        }
        Err(Error::refused(format!(
            "{} is tampered: it does not end with the record that the transcript's end names",
            self.path.display()
        )))
    }
}

/// The ledger of a thread that ended. One that still runs has a ledger that grows.
pub(super) fn check(
    archive: &Archive<'_>,
    folder: &ThreadFolder,
    record: &VerifiedRecord,
) -> Result<(), Error> {
    let (Some(manifest), Some(_)) = (record.manifest(), record.ended()) else {
        return Ok(());
    };
    let (id, named) = (manifest.record, record.ledger());
    let run = RunId::parse(&id.to_string())?;
    // A recovery that ended the thread may have found no ledger.
    let path = path_of(folder, &run);
    let there = archive.host.fs.symlink_metadata(&path).is_ok();
    let known = known::known(archive.host, &run.record_id(), None)?.head();
    if named.is_none() && known.is_none() && !there {
        return Ok(());
    }
    archive.project.inside(&*archive.host.fs, &path)?;
    let steps = Steps::read(archive.grounds(), folder, &id, named)?;
    named.map_or(Ok(()), |named| steps.ends_with(&run, named))
}

fn path_of(folder: &ThreadFolder, run: &RunId) -> PathBuf {
    folder.path().join(format!("ledger_{run}.jsonl"))
}

fn tip_of(run: &RunId, named: &Value) -> Option<ChainTip> {
    Some(ChainTip {
        run: run.clone(),
        count: named["count"].as_u64()?,
        hash: Digest::parse_hex(named["head"].as_str()?)?,
    })
}
