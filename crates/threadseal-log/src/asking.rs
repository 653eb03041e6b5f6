//! Asking witnesses for cosignatures of a log (C2SP tlog-witness, the client's half), and authorities for stamps.
//!
//! ```text
//! checkpoint ─► each witness at once: old size, proof ─► 200: its lines, if they hold
//!                     └ 409 with a size: once more from there      └ else: what does it hold of this log?
//! ```
//! The log is only read: nothing that is sealed waits for a witness. What a witness says counts where its key, or that
//! of the log, signed it.

use crate::LogView;
use crate::witness::folder_name;
use reqwest::{Client, Response, StatusCode, header};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_WITNESS_BODY_BYTES;
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

const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// What became of asking one witness.
#[derive(Debug)]
pub enum Asked {
    /// It cosigned; the lines hold.
    Cosigned(Vec<Answered>),
    /// It did not, for this reason.
    Not(String),
    /// It holds a checkpoint that this log signed and does not continue: the log went back, or was forked.
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

    /// Asks whoever answers at `url`. Without its key, that it answered 200 is all that is known of its lines.
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
            let request = AddCheckpoint::new(old, proof, note).map_err(odd)?;
            let path = format!("{url}/add-checkpoint");
            let sent = self
                .client
                .post(path)
                .body(request.to_string())
                .send()
                .await;
            let (status, tells_size, body) = read(sent.map_err(|error| unreached(&error))?).await?;
            if status == StatusCode::OK {
                let lines = key.map(|key| read_cosignatures(&body, request.note(), key));
                let lines = lines.transpose().map_err(odd)?.unwrap_or_default();
                return Ok(Asked::Cosigned(lines));
            }
            if status == StatusCode::CONFLICT && tells_size && attempt == 0 {
                old = read_size(&body).map_err(odd)?;
                continue;
            }
            return self.why_not(url, status, &body).await;
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
        let not = Asked::Not(format!("{}: {}", status.as_u16(), text.trim_end()));
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
                "log_rolled_back: it holds {} entries that this log signed, and here are {here}",
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

/// What whoever answers at `url` shows as the last checkpoint that it cosigned of a log; None where it shows none.
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
    let origin = Origin::parse(log.name().as_str()).map_err(odd)?;
    let path = format!("{url}/{}/checkpoint", folder_name(&origin));
    let sent = client.get(path).send().await;
    let (status, _, body) = read(sent.map_err(|error| unreached(&error))?).await?;
    match status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        _ => return Err(answered(status)),
    }
    let text = String::from_utf8(body).map_err(odd)?;
    SignedNote::parse(&text).map(Some).map_err(odd)
}

/// What speaks HTTP to those who are asked: for a bounded time, and to nobody else.
fn client() -> Result<Client, Error> {
    // Another part of the program may have chosen it already; it is the same one then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(CONNECT_TIME)
        .timeout(ANSWER_TIME)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Error::new(ErrorKind::External, format!("cannot speak HTTP: {error}")))
}

/// Sends a request to a time-stamping authority (RFC 3161 §3.4), and answers with the body of what it said.
///
/// # Errors
/// In a word for people, why there is no answer.
#[cfg(feature = "timestamp")]
pub fn ask_for_stamp(url: &str, request: Vec<u8>) -> Result<Vec<u8>, String> {
    let client = client().map_err(|error| error.to_string())?;
    let asked = wait_for(async {
        let post = client
            .post(url)
            .header(header::CONTENT_TYPE, crate::timestamp::QUERY_CONTENT_TYPE);
        let sent = post.body(request).send().await;
        let (status, _, body) = read(sent.map_err(|error| unreached(&error))?).await?;
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(answered(status)),
        }
    });
    asked.map_err(|error| error.to_string())
}

/// Status, whether the body is said to be a size, and the body, which ends somewhere.
async fn read(mut response: Response) -> Result<(StatusCode, bool, Vec<u8>), Error> {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let tells_size = kind.is_some_and(|kind| kind.as_bytes() == SIZE_CONTENT_TYPE.as_bytes());
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| unreached(&error))? {
        if piece.len() > MAX_WITNESS_BODY_BYTES - body.len() {
            return Err(Error::new(ErrorKind::Limit, "its answer is too long"));
        }
        body.extend_from_slice(&piece);
    }
    Ok((response.status(), tells_size, body))
}

fn answered(status: StatusCode) -> Error {
    Error::new(
        ErrorKind::External,
        format!("it answered {}", status.as_u16()),
    )
}

fn odd(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::External, format!("its answer is none: {error}"))
}

fn unreached(error: &reqwest::Error) -> Error {
    let why = match (error.is_timeout(), error.is_connect()) {
        (true, _) => "it did not answer in time",
        (_, true) => "it cannot be reached",
        _ => "the connection broke",
    };
    Error::new(ErrorKind::External, why)
}
