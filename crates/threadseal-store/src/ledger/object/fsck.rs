//! Checking the records of one run, beyond the objects that hold them.
//!
//! | code | fault | repair |
//! |---|---|---|
//! | `head_damaged` | the head does not have the bytes that were written | no |
//! | `not_a_record` | a record that is no JSON object | no |
//! | `other_run` | a record of another run | no |
//! | `broken_link` | a `prev_hash` that is not the `record_hash` before it, or a hash that is not the record's | no |
//! | `leftover` | sealed objects of a run that was deleted | removing them |
//!
//! [`crate::object_log`] has the codes of all segmented logs.

use super::format::{Ledgers, Row, RunHead};
use super::runs::Runs;
use crate::fsck::Fault;
use crate::ledger::FsckReport;
use crate::object_log::{Audit, Facts as _, SegmentedLog, check, read_head};
use crate::objects;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

pub(super) fn fsck(runs: &Runs, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
    let log = runs.log(run);
    let mut audit = RecordAudit::new(run);
    match read_head(&log)? {
        None => {}
        Some(None) => {
            let text = format!("{} is not what was written", log.head_name());
            audit.report("head_damaged", None, text);
        }
        Some(Some(head)) if head.facts.is_deleted() => leftovers(&log, repair, &mut audit)?,
        Some(Some(head)) => {
            check(&log, &head, repair, &mut audit)?;
            audit.end(&head);
        }
    }
    Ok(audit.report)
}

fn leftovers(
    log: &SegmentedLog<Ledgers>,
    repair: bool,
    audit: &mut RecordAudit<'_>,
) -> Result<(), Error> {
    for folder in log.folders() {
        objects::each_name(&*log.objects, &folder, &mut |names| {
            names.iter().try_for_each(|name| {
                let name = format!("{folder}/{name}");
                if repair {
                    log.objects.remove(&name)?;
                }
                let text = format!("no head names {name}, or can name it later");
                audit.fault(Fault {
                    repaired: repair,
                    ..Fault::new("leftover", None, text)
                });
                Ok(())
            })
        })?;
    }
    Ok(())
}

/// The records of one run, one after the other.
struct RecordAudit<'r> {
    run: &'r RunId,
    report: FsckReport,
    /// Hash of the record before; `None` where it is not known.
    prev: Option<Option<String>>,
}

impl Audit<Ledgers> for RecordAudit<'_> {
    fn items(&mut self, first: u64, rows: &[Row]) {
        for (seq, row) in (first..).zip(rows) {
            self.row(seq, row);
        }
    }

    fn gap(&mut self) {
        self.prev = None;
    }

    fn fault(&mut self, fault: Fault) {
        fault.note(&mut self.report.faults, &mut self.report.more);
    }
}

impl<'r> RecordAudit<'r> {
    fn new(run: &'r RunId) -> Self {
        Self {
            run,
            report: FsckReport::of(run),
            prev: Some(None),
        }
    }

    fn report(&mut self, code: &'static str, at: Option<u64>, message: String) {
        self.fault(Fault::new(code, at, message));
    }

    fn end(&mut self, head: &RunHead) {
        let tip = head.facts.tip;
        if let Some(last) = self.prev.take()
            && last != tip.hash.map(|hash| hash.to_hex())
        {
            let text = "the hash in the head differs from the hash of its last record";
            self.report("broken_link", tip.count.checked_sub(1), text.into());
        }
    }

    fn row(&mut self, seq: u64, row: &Row) {
        let parsed = json::parse_python(&row.line).map(|read| read.value);
        let record = match parsed {
            Ok(record) if record.as_object().is_some() => record,
            _ => {
                self.prev = None;
                let text = "the record is not a JSON object".to_owned();
                return self.report("not_a_record", Some(seq), text);
            }
        };
        self.report.records += 1;
        let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
        let names_other = text("run_id").is_some_and(|name| name != self.run.as_str());
        if names_other {
            self.report(
                "other_run",
                Some(seq),
                "the record names another run".into(),
            );
        }
        let (prev, hash) = (text("prev_hash"), text("record_hash"));
        let differs = hash != row.hash.map(|hash| hash.to_hex());
        let is_unlinked = hash.is_some() && self.prev.as_ref().is_some_and(|known| *known != prev);
        if differs || is_unlinked {
            let text = match differs {
                true => "the hash stored beside the record differs from its own",
                false => "prev_hash is not the record_hash before it",
            };
            self.report("broken_link", Some(seq), text.into());
        }
        self.prev = Some(hash);
    }
}
