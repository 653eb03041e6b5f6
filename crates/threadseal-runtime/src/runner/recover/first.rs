//! The `thread.json` of a thread that died before it wrote one, from its record.

use super::super::engine::Engine;
use super::super::orchestrator::Records;
use crate::capability::Capabilities;
use crate::limit::{Cost, Limits};
use crate::project::ThreadFolder;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use serde_json::{Map, Value};
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::transcript::event::is_terminal;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::heads::RecordKind;

/// The cost and the outputs of a thread.
type Said = (Option<Cost>, Option<Map<String, Value>>);

impl Engine {
    /// Did this host never seal a document in this place, where none exists? A sealed one that is
    /// gone is still missing.
    pub(super) fn never_had(&self, path: &Path) -> Result<bool, Error> {
        let place = Records::from(self).place(path);
        let known = self.host.heads.find_by_place(RecordKind::Document, &place);
        Ok(known?.is_none())
    }

    /// The cost and the outputs at the end of its record, where there is one.
    pub(super) fn said_of(&self, id: &ThreadId, folder: &ThreadFolder) -> Result<Said, Error> {
        let record = folder.transcript();
        if self.host.fs.symlink_metadata(&record).is_err() {
            return Ok((None, None));
        }
        Ok(said_at_the_end(self.lines_of(id, folder)?.sealed()))
    }

    /// Writes it from line 1, with the thread's end. A file that existed and was removed is still
    /// missing.
    pub(super) fn write_first(
        &self,
        id: &ThreadId,
        folder: &ThreadFolder,
        status: Status,
    ) -> Result<(), Error> {
        let (path, record) = (folder.metadata(), folder.transcript());
        if self.host.fs.symlink_metadata(&record).is_err() {
            return Ok(());
        }
        let lines = self.lines_of(id, folder)?;
        let manifest = lines.sealed().next();
        let manifest = manifest.map(|line| line.strip_suffix(b"\n").unwrap_or(line));
        let manifest = manifest.and_then(parse_line);
        let (true, Some(manifest)) = (self.never_had(&path)?, manifest) else {
            return Ok(());
        };
        let now = self.host.clock.now()?;
        let (cost, outputs) = said_at_the_end(lines.sealed());
        let meta = ThreadMeta {
            thread_id: id.clone(),
            directive: manifest.directive.clone().unwrap_or_default(),
            status,
            created_at: now,
            updated_at: now,
            model: manifest.model.clone(),
            limits: Limits::from_json(&crate::model::dynamic(&manifest.limits)?)?,
            capabilities: Capabilities::parse(&manifest.capabilities)?,
            cost: Some(cost.unwrap_or_default()),
            outputs,
        };
        let mut file = SignedFile::new(&self.host, &path, DocumentKind::Json, None)?;
        file.write(&self.host, &self.keys, Some(id), &meta.to_bytes())
            .map(drop)
    }
}

/// The thread's cost in the terminal event, and the outputs of a thread that completed. Both are
/// unknown for a thread that was ended for its dead process. An attacker may have written any event
/// after the end.
fn said_at_the_end<'l>(sealed: impl Iterator<Item = &'l [u8]>) -> Said {
    let mut outputs = None;
    for event in sealed.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
        let payload = &event["payload"];
        let kind = event["event_type"].as_str().unwrap_or_default();
        if kind == "directive_return" {
            outputs = payload["outputs"].as_object().cloned();
        }
        if is_terminal(kind) {
            let cost = Cost::from_json(&payload["cost"]).ok();
            return (cost, outputs.filter(|_| kind == "thread_completed"));
        }
    }
    (None, None)
}
