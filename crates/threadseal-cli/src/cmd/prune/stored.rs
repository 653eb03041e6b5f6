//! Ledgers and lineages in stores: folders, SQLite, PostgreSQL, object storage.
//!
//! The tombstone is in this home, named after the record, so that it outlives the store. The store
//! then marks the record as deleted, in one step with the check that it has no new writes. That
//! mark prevents a new record of the same name in this store.

use super::held::is_observed;
use super::{Grave, PrunedRecord, Tools, whole};
use crate::cmd::ledger::place;
use crate::context::object_storage_settings;
use crate::exit::Failure;
use crate::record;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_formats::ledger::RunId;
use threadseal_formats::lineage::{AgentName, ContentHash, Identity};
use threadseal_store::address::Intent;
use threadseal_store::heads::RecordKind;
use threadseal_store::ledger::{LedgerStore, Tip, known};
use threadseal_store::lineage::{self, CheckpointStore, Newest, Saved, Standings};
use threadseal_store::observer::seal_path;
use threadseal_store::open;
use threadseal_store::tombstones;
use threadseal_verify::verifier::head_path;

impl Tools<'_> {
    /// Prunes the ledger of a run.
    pub(super) fn prune_run(&self, store: &Path, run: &RunId) -> Result<PrunedRecord, Failure> {
        let address = text_of(store)?;
        let there = place::readable(address, self.context)?;
        let beside = there.file_of(Some(run), self.context)?;
        let store = place::writable(address, self.context)?;
        let records = self.records_of_run(&*store, run)?;
        let record = records.first().copied().unwrap_or_else(|| run.record_id());
        let shown = format!("{}#{run}", record::without_secrets(address));
        let grave = tombstones::place_in(&self.home.tombstones(), &record);
        let found = self.tombstone_at(&grave, false)?;
        let is_new = found.is_none();
        let tombstone = match found {
            Some(found) => found,
            None => self.judge_run(&*store, run, &records, address, beside.as_deref())?,
        };
        let last = head_in(&tombstone, &record)?;
        let tip = Tip {
            count: last.size,
            hash: Some(last.line),
        };
        let grave = Grave {
            shown,
            place: &grave,
            files: beside.map_or_else(Vec::new, |file| self.beside_ledger(&file)),
            left: Vec::new(),
        };
        let now = self.context.now()?;
        self.bury(grave, &tombstone, is_new, |files| {
            files.iter().try_for_each(|file| self.unlink(file))?;
            match store.delete(run, Some(&tip), now)? {
                true => Ok(()),
                false => Err(Failure::new(
                    "the end of its ledger differs from the one in its tombstone: the ledger was continued, or is elsewhere; verify it",
                )),
            }
        })
    }

    /// The records under which this home keeps heads of the run's ledger in the store, the newest
    /// first.
    fn records_of_run(
        &self,
        store: &dyn LedgerStore,
        run: &RunId,
    ) -> Result<Vec<RecordId>, Failure> {
        let place = store.place_of(run);
        let known = known::known(&self.host, &run.record_id(), place.as_deref())?;
        Ok(known.records())
    }

    /// Verifies a ledger, and signs a tombstone of it. The ledger has no end mark: the tombstone is
    /// its end.
    fn judge_run(
        &self,
        store: &dyn LedgerStore,
        run: &RunId,
        known_as: &[RecordId],
        address: &str,
        file: Option<&Path>,
    ) -> Result<Tombstone, Failure> {
        if let Some(thread) = RecordId::parse_hex(run.as_str())
            && let Some(known) = self.host.heads.fetch(&thread)?
            && known.kind == RecordKind::Transcript
            && self.host.heads.pruned(&thread)?.is_none()
        {
            return Err(Failure::new(
                "it is the ledger of a thread and is pruned with it; hint: prune the thread",
            ));
        }
        let outcome = self.verifier()?.run(store, run, address)?;
        let head = whole(&outcome.report)?;
        let (first, others) = match known_as {
            [first, others @ ..] => (*first, others),
            [] => (head.record, known_as),
        };
        let stored = self.newest(&Head {
            record: first,
            ..head
        })?;
        self.refuse_running(&first)?;
        let mut records = vec![stored.to_log()];
        for other in others {
            records.extend(self.host.heads.fetch(other)?.map(|known| known.to_log()));
        }
        // The seals of its file as an observed log are a record of their own, and are pruned with
        // it.
        if let Some(file) = file.filter(|file| self.host.fs.metadata(&seal_path(file)).is_ok()) {
            records.extend(self.known_in(file)?.into_iter().filter(is_observed));
        }
        self.sign(records)
    }

    /// The signed head and the detached seals of a ledger's file.
    fn beside_ledger(&self, file: &Path) -> Vec<PathBuf> {
        let beside = [head_path(file), seal_path(file)].into_iter();
        beside
            .filter(|path| self.host.fs.metadata(path).is_ok())
            .collect()
    }

    fn unlink(&self, path: &Path) -> Result<(), Failure> {
        match self.host.fs.unlink(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::io("remove", path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Prunes the checkpoints of an agent.
    pub(super) fn prune_agent(
        &self,
        store: &Path,
        agent: &AgentName,
    ) -> Result<PrunedRecord, Failure> {
        let address = text_of(store)?;
        let store = open::lineages(address, Intent::Write, &object_storage_settings())?;
        let (newest, tombstone, is_new) = match store.newest(agent)? {
            Newest::Nothing => {
                return Err(Failure::new(format!("the store has no agent {agent}")));
            }
            Newest::Deleted(newest) => (newest, self.buried_agent(&newest)?, false),
            Newest::Link(newest) => {
                let record = record_of(&*store, agent, &newest)?;
                let place = tombstones::place_in(&self.home.tombstones(), &record);
                match self.tombstone_at(&place, false)? {
                    Some(found) => (newest, found, false),
                    None => (newest, self.judge_agent(&*store, agent, &newest)?, true),
                }
            }
        };
        let first = tombstone.statement().records.first();
        let last = first
            .ok_or_else(|| Failure::new("its tombstone names no record"))?
            .head;
        if last.line != newest.digest() {
            return Err(Failure::new(
                "its newest checkpoint is not the one of its tombstone: it was continued or restored; verify it",
            ));
        }
        let grave = Grave {
            shown: format!("{}#{agent}", store.place()),
            place: &tombstones::place_in(&self.home.tombstones(), &last.record),
            files: Vec::new(),
            left: Vec::new(),
        };
        self.bury(grave, &tombstone, is_new, |_| {
            match store.delete(agent, &newest)? {
                Saved::Stored => Ok(()),
                Saved::Differs(now) => Err(lineage::overtaken(agent, &now).into()),
            }
        })
    }

    /// Verifies all checkpoints of an agent, and signs a tombstone of them.
    fn judge_agent(
        &self,
        store: &dyn CheckpointStore,
        agent: &AgentName,
        newest: &ContentHash,
    ) -> Result<Tombstone, Failure> {
        Standings::new().of(store, agent)?;
        let last = record_of(store, agent, newest)?;
        let stored = self.host.heads.fetch(&last)?;
        let stored = stored.filter(|stored| stored.head.line == newest.digest());
        let stored = stored.ok_or_else(|| {
            Failure::new("its newest checkpoint is not the one that this home knows: it was written elsewhere, or its head is lost")
        })?;
        self.refuse_running(&last)?;
        let mut records: Vec<LoggedHead> = vec![self.newest(&stored.head)?.to_log()];
        // An agent that changed to v0x05 was known by its key before.
        for link in store.history(agent)? {
            let record = record_of(store, agent, &link)?;
            let is_new = records.iter().all(|known| known.head.record != record);
            if let Some(known) = self.host.heads.fetch(&record)?.filter(|_| is_new) {
                records.push(known.to_log());
            }
        }
        self.sign(records)
    }

    /// The tombstone of an agent whose store only has its newest checkpoint's hash.
    fn buried_agent(&self, newest: &ContentHash) -> Result<Tombstone, Failure> {
        let logged = self.log.tombstones()?;
        let of_it = |logged: &&LoggedHead| logged.head.line == newest.digest();
        let record = logged.iter().find(of_it).map(|logged| logged.head.record);
        let place = record.map(|record| tombstones::place_in(&self.home.tombstones(), &record));
        let found = place.map_or(Ok(None), |place| self.tombstone_at(&place, true))?;
        found.ok_or_else(|| {
            Failure::new("it was deleted here, but no tombstone shows that it was pruned")
        })
    }
}

fn head_in(tombstone: &Tombstone, record: &RecordId) -> Result<Head, Failure> {
    let logged = tombstone.of(record);
    let logged = logged.ok_or_else(|| Failure::new("its tombstone names another record"))?;
    Ok(logged.head)
}

fn text_of(store: &Path) -> Result<&str, Failure> {
    let text = store.to_str();
    text.ok_or_else(|| Failure::new("the name of a store must be UTF-8"))
}

/// The record id of the agent of a link, under which stores keep its head.
fn record_of(
    store: &dyn CheckpointStore,
    agent: &AgentName,
    link: &ContentHash,
) -> Result<RecordId, Failure> {
    let found = store.load(agent, link)?;
    let identity = found.and_then(|link| Identity::of(&link.header));
    let identity =
        identity.ok_or_else(|| Failure::new("a checkpoint of it is missing or names no agent"))?;
    Ok(identity.record)
}
