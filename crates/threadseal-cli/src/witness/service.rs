//! The answer of a witness to each request (C2SP tlog-witness).

use super::http::{Request, Response};
use crate::exit::complain;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::tlog::witness::{AddCheckpoint, Refusal, write_cosignatures};
use threadseal_log::witness::{Answer, WitnessFiles, WitnessKey};
use threadseal_store::clock::SystemClock;

/// A witness with its key.
#[derive(Debug)]
pub(crate) struct Service {
    /// The memory of the witness.
    pub(crate) files: WitnessFiles,
    /// The key that signs.
    pub(crate) key: WitnessKey,
    /// Evidence that this process already reported; bounded by the evidence that is kept.
    pub(crate) told: Mutex<BTreeSet<PathBuf>>,
}

impl Service {
    pub(super) fn answer(&self, request: &Request) -> Response {
        let reads = matches!(request.method.as_str(), "GET" | "HEAD");
        let folder = request
            .path
            .strip_prefix('/')
            .and_then(|path| path.strip_suffix("/checkpoint"));
        match (request.path.as_str(), folder) {
            ("/add-checkpoint", _) if request.method == "POST" => self.add(&request.body),
            (_, Some(folder)) if reads => self.read(folder),
            ("/add-checkpoint", _) | (_, Some(_)) => {
                Response::text(405, "POST /add-checkpoint, or GET a checkpoint\n")
            }
            _ => Response::text(404, "nothing is here\n"),
        }
    }

    fn add(&self, body: &[u8]) -> Response {
        let request = match AddCheckpoint::parse(body) {
            Ok(request) => request,
            Err(error) => return Response::text(400, format!("{error}\n")),
        };
        match self.files.add_checkpoint(&request, &self.key, &SystemClock) {
            Ok(Answer::Cosigned(line)) => Response::text(200, write_cosignatures(&[line])),
            Ok(Answer::Refused { refusal, evidence }) => {
                if let Some(path) = evidence.filter(|path| self.is_new(path)) {
                    let origin = request.origin();
                    let path = path.display();
                    complain(&format!(
                        "the log {origin} signed two histories; kept: {path}"
                    ));
                }
                refusal_response(&refusal)
            }
            Err(error) => failed(&error),
        }
    }

    fn is_new(&self, path: &Path) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(path.to_owned())
    }

    fn read(&self, folder: &str) -> Response {
        match self.files.cosigned(folder) {
            Ok(Some(note)) => Response::text(200, note),
            Ok(None) => Response::text(404, "nothing was cosigned of such a log\n"),
            Err(error) => failed(&error),
        }
    }
}

fn refusal_response(refusal: &Refusal) -> Response {
    let (kind, body) = refusal.body();
    Response {
        status: refusal.status(),
        kind,
        body: body.into_bytes(),
    }
}

/// Paths and reasons are only for the operator of the witness.
fn failed(error: &Error) -> Response {
    complain(&error.to_string());
    Response::text(500, "the witness cannot answer now; ask again later\n")
}
