//! `--replay`: what a thread answered then, and its children, as their verified transcripts say.
//!
//! ```text
//! TRANSCRIPT ─► verified ─► the threads that it handed itself over to ─► verified, each names the one before
//!            └► child_thread_started, sealed ─► THREADS/<child>/transcript.jsonl ─► verified, the named record, of this
//!               parent, with the end that this one saw ─► …
//! ```
//! All of it is read before anything is written: a child that cannot be replayed refuses the thread.

use crate::context::Context;
use crate::exit::Failure;
use crate::verifying;
use std::path::{Path, PathBuf};
use threadseal_runtime::bounds::MAX_REPLAYED_THREADS;
use threadseal_runtime::model::{NamedChild, Recorded, ReplayModel, ReplayedChild};
use threadseal_verify::Need;
use threadseal_verify::verifier::Verifier;

/// The name of a transcript in its thread's folder.
const TRANSCRIPT: &str = "transcript.jsonl";

/// A model that repeats the answers that the transcript at `path` recorded, also for children.
///
/// # Errors
/// When the transcript, or one of a child, is anything but verified: no key vouches for its answers
/// then.
pub(crate) fn replay(path: &Path, context: &Context) -> Result<ReplayModel, Failure> {
    let mut archive = Archive {
        verifier: verifying::verifier_of_home(context)?,
        context,
        left: MAX_REPLAYED_THREADS,
    };
    Ok(archive.thread(path)?.model)
}

struct Archive<'c> {
    verifier: Verifier,
    context: &'c Context,
    /// How many more threads may be read.
    left: usize,
}

/// A thread with all that it handed itself over to.
struct Whole {
    model: ReplayModel,
    first: Seen,
    /// Its last thread, and the last seal of that.
    end: (String, Option<String>),
}

/// The contents of line 1 of the first transcript.
struct Seen {
    thread: String,
    record: Option<String>,
    parent: Option<String>,
    inputs: serde_json::Map<String, serde_json::Value>,
}

impl Archive<'_> {
    fn thread(&mut self, path: &Path) -> Result<Whole, Failure> {
        let (part, mut head) = self.read(path)?;
        let first = Seen {
            thread: part.thread.clone(),
            record: part.record.map(|record| record.to_string()),
            parent: part.parent.map(|head| head.record.to_string()),
            inputs: part.inputs.clone(),
        };
        let threads = threads_of(path, &first.thread);
        let place = |id: &str| {
            match &threads {
            Some(threads) => Ok(threads.join(id).join(TRANSCRIPT)),
            None => Err(Failure::new(
                "the transcripts of other threads that it names were not found; hint: replay it in the folder of its project",
            )
            .about(path)),
        }
        };
        let mut parts = vec![part];
        while let Some(next) = parts.last().and_then(|part| part.successor.clone()) {
            let at = place(next.as_str())?;
            let (part, end) = self.read(&at)?;
            let before = parts.last().and_then(|part| part.record);
            if part.predecessor.map(|head| head.record) != before {
                let text = "it does not continue the thread that handed over to it";
                return Err(Failure::new(text).about(&at));
            }
            head = end;
            parts.push(part);
        }
        let mut children = Vec::new();
        for part in &parts {
            for named in &part.children {
                let at = place(named.thread.as_str())?;
                children.extend(self.child(&at, named, part)?);
            }
        }
        let last = parts.last().map(|part| part.thread.clone());
        Ok(Whole {
            model: ReplayModel::new(parts, children),
            end: (last.unwrap_or_default(), head),
            first,
        })
    }

    /// The child that its parent names; None of one that never began.
    fn child(
        &mut self,
        path: &Path,
        named: &NamedChild,
        parent: &Recorded,
    ) -> Result<Option<ReplayedChild>, Failure> {
        let began = self.context.fs.symlink_metadata(path).is_ok();
        if !began && !parent.ended.contains_key(named.thread.as_str()) {
            return Ok(None);
        }
        let child = self.thread(path)?;
        let of = parent.record.map(|record| record.to_string());
        let is_it = child.first.thread == named.thread.as_str()
            && child.first.record == Some(named.record.to_string())
            && child.first.parent == of;
        let (last, head) = &child.end;
        let ended = parent.ended.get(last);
        if !is_it || ended.is_some_and(|seen| Some(seen) != head.as_ref()) {
            let text = format!(
                "it is not the child that {} names, or it has another end",
                parent.thread
            );
            return Err(Failure::new(text).about(path));
        }
        Ok(Some(ReplayedChild {
            directive: named.directive.clone(),
            inputs: child.first.inputs,
            model: child.model,
        }))
    }

    /// One verified transcript, and its last seal.
    fn read(&mut self, path: &Path) -> Result<(Recorded, Option<String>), Failure> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            let text = format!("a replay has at most {MAX_REPLAYED_THREADS} threads");
            Failure::new(text).about(path)
        })?;
        let opened = self.verifier.open_verified(path, Need::Whole);
        let record = verifying::opened(opened)?.map_err(|report| {
            let hint = "; only a verified transcript can be replayed; hint: threadseal verify";
            Failure::refused(path.display(), &report, hint)
        })?;
        let lines = record.lines()?;
        let recorded = Recorded::read(&lines).map_err(|error| Failure::from(error).about(path))?;
        Ok((recorded, record.report().head.map(|head| head.to_string())))
    }
}

/// The folder of all threads, if the transcript at `path` is in the folder of its thread.
fn threads_of(path: &Path, thread: &str) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let mut folder = path.parent()?;
    if path.file_name()? != TRANSCRIPT {
        return None;
    }
    for part in thread.rsplit('/') {
        if folder.file_name()? != part {
            return None;
        }
        folder = folder.parent()?;
    }
    Some(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_threads_is_found_from_a_transcript_in_its_place() {
        let found = |path: &str| threads_of(Path::new(path), "demo/say-1");
        let threads = Some(PathBuf::from("/p/.ai/agent/threads"));
        assert_eq!(
            found("/p/.ai/agent/threads/demo/say-1/transcript.jsonl"),
            threads
        );
        for elsewhere in [
            "/p/copy.jsonl",
            "/p/.ai/agent/threads/demo/say-2/transcript.jsonl",
            "/p/.ai/agent/threads/say-1/transcript.jsonl",
            "/p/.ai/agent/threads/demo/say-1/other.jsonl",
        ] {
            assert_eq!(found(elsewhere), None, "{elsewhere}");
        }
    }
}
