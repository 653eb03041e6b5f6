//! [`Asking`]: requests to witnesses for cosignatures of a log (C2SP tlog-witness, the half of the client).
//!
//! ```text
//! checkpoint ─► each witness at once: old size, proof ─► 200: its lines, if they hold
//!                     └ 409 with a size: once more from there      └ else: what does it hold of this log?
//! ```
//! The log is only read: no seal waits for a witness. An answer of a witness counts as far as its key, or that of the log,
//! signed it.

use crate::http_client::{client, malformed, send, unexpected};
use crate::tree::view::LogView;
use crate::witness::files::folder_name;
use reqwest::{Client, StatusCode};
use std::thread;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::checkpoint::Origin;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_core::tlog::policy::PolicyWitness;
use threadseal_core::tlog::verifier::{self, VerifierKey};
use threadseal_core::tlog::witness::{
    AddCheckpoint, Answered, SIZE_CONTENT_TYPE, read_cosignatures, read_size,
};
use threadseal_store::runtime::wait_for;

/// What became of asking one witness.
#[derive(Debug)]
pub enum Asked {
    /// It cosigned; the lines hold.
    Cosigned(Vec<Answered>),
    /// It did not, for this reason.
    Not(String),
    /// It does not know the log; its answer.
    LogUnknown(String),
    /// It holds a checkpoint that this log signed and does not continue: the log was rolled back, or was forked.
    Contradicted {
        /// The tree that it holds.
        tree: TreeHead,
        /// What is wrong, in a sentence.
        why: String,
        /// What convicts the log to anybody, where both trees have one size.
        conflict: Option<Box<Conflict>>,
    },
}

/// A state of the log, and how to ask about it.
#[derive(Debug)]
pub struct Asking<'l> {
    view: &'l LogView,
    log: &'l VerifierKey,
    client: Client,
}

impl<'l> Asking<'l> {
    /// Asks for cosignatures of `view`, a state of the log whose key is `log`.
    ///
    /// # Errors
    /// When HTTP cannot be spoken.
    pub fn new(view: &'l LogView, log: &'l VerifierKey) -> Result<Self, Error> {
        Ok(Self {
            view,
            log,
            client: client()?,
        })
    }

    /// Asks all of them at once, and answers in their order.
    pub fn all(&self, witnesses: &[&PolicyWitness]) -> Vec<Asked> {
        thread::scope(|scope| {
            let asked: Vec<_> = witnesses
                .iter()
                .map(|witness| scope.spawn(|| self.one(witness)))
                .collect();
            asked
                .into_iter()
                .map(|asked| {
                    asked
                        .join()
                        .unwrap_or_else(|_| Asked::Not("an internal error".to_owned()))
                })
                .collect()
        })
    }

    fn one(&self, witness: &PolicyWitness) -> Asked {
        let Some(url) = witness.url.as_ref().and_then(|url| url.as_str()) else {
            return Asked::Not("the policy has no address of it".to_owned());
        };
        let asked = self.at(url, Some(&witness.key));
        asked.unwrap_or_else(|error| Asked::Not(error.to_string()))
    }

    /// Asks the witness at `url`. Without its key, its status 200 is all that is known of its lines.
    ///
    /// # Errors
    /// Kind `External` when it cannot be reached, or answers what no witness does.
    pub fn at(&self, url: &str, key: Option<&VerifierKey>) -> Result<Asked, Error> {
        wait_for(self.ask(url.trim_end_matches('/'), key))
    }

    async fn ask(&self, url: &str, key: Option<&VerifierKey>) -> Result<Asked, Error> {
        let mut old = 0;
        for attempt in 0..2 {
            let Some(proof) = self.view.growth(old)? else {
                break;
            };
            let note = self.view.checkpoint().clone();
            let request = AddCheckpoint::new(old, proof, note).map_err(malformed)?;
            let path = format!("{url}/add-checkpoint");
            let reply = send(self.client.post(path).body(request.to_string())).await?;
            if reply.status == StatusCode::OK {
                let lines = key.map(|key| read_cosignatures(&reply.body, request.note(), key));
                let lines = lines.transpose().map_err(malformed)?.unwrap_or_default();
                return Ok(Asked::Cosigned(lines));
            }
            let has_size = reply.content_type.as_deref() == Some(SIZE_CONTENT_TYPE.as_bytes());
            if reply.status == StatusCode::CONFLICT && has_size && attempt == 0 {
                old = read_size(&reply.body).map_err(malformed)?;
                continue;
            }
            return self.why_not(url, reply.status, &reply.body).await;
        }
        self.why_not(
            url,
            StatusCode::CONFLICT,
            format!("its last size is {old}").as_bytes(),
        )
        .await
    }

    /// Whether the witness holds something that this log signed and does not continue.
    async fn why_not(&self, url: &str, status: StatusCode, body: &[u8]) -> Result<Asked, Error> {
        let text = String::from_utf8_lossy(body);
        let answer = format!("{}: {}", status.as_u16(), text.trim_end());
        let not = match status {
            StatusCode::NOT_FOUND => Asked::LogUnknown(answer),
            _ => Asked::Not(answer),
        };
        let published = published(&self.client, url, self.log).await;
        let Ok(Some(theirs)) = published else {
            return Ok(not);
        };
        let Ok((checkpoint, signers)) = verifier::open(&theirs, &[self.log]) else {
            return Ok(not);
        };
        let tree = checkpoint.tree();
        let of_this_log = checkpoint.origin().as_str() == self.log.name().as_str();
        if signers.is_empty() || !of_this_log || self.view.consistency(tree)?.is_some() {
            return Ok(not);
        }
        let ours = self.view.checkpoint().clone();
        let here = self.view.tree().size;
        let why = match tree.size > here {
            true => format!(
                "log_rolled_back: it holds {} entries that this log signed, but this log has {here}",
                tree.size
            ),
            false => format!(
                "forked: this log signed another tree of {} entries",
                tree.size
            ),
        };
        Ok(Asked::Contradicted {
            tree: *tree,
            why,
            conflict: Conflict::find(self.log.clone(), theirs, ours)
                .ok()
                .map(Box::new),
        })
    }
}

/// The last checkpoint of a log that the witness at `url` cosigned, as it shows it; None if it shows none.
///
/// # Errors
/// Kind `External` when it cannot be reached, or shows no note.
pub fn last_cosigned(url: &str, log: &VerifierKey) -> Result<Option<SignedNote>, Error> {
    let client = client()?;
    wait_for(published(&client, url.trim_end_matches('/'), log))
}

async fn published(
    client: &Client,
    url: &str,
    log: &VerifierKey,
) -> Result<Option<SignedNote>, Error> {
    let origin = Origin::parse(log.name().as_str()).map_err(malformed)?;
    let path = format!("{url}/{}/checkpoint", folder_name(&origin));
    let reply = send(client.get(path)).await?;
    match reply.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(unexpected(status)),
    }
    let text = String::from_utf8(reply.body).map_err(malformed)?;
    SignedNote::parse(&text).map(Some).map_err(malformed)
}
