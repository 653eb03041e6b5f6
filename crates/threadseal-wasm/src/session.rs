//! [`Session`]: the turns of one file, to show.

use crate::question::Question;
use crate::{json, text, thrown};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_reader::Asked;
use threadseal_reader::alone::MAX_HELD_BYTES;
use threadseal_reader::session;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// The turns of one file. All its bytes are held: they are what is shown.
#[wasm_bindgen]
pub struct Session(State);

enum State {
    Reading(Box<Asked>, Vec<u8>),
    Open(Box<session::Session>),
    Failed,
}

#[wasm_bindgen]
impl Session {
    /// A session before the first byte of its file.
    #[wasm_bindgen(constructor)]
    pub fn new(question: &Question) -> Result<Session, JsError> {
        let asked = question.asked().map_err(thrown)?;
        let room = question.named_size().min(MAX_HELD_BYTES);
        Ok(Self(State::Reading(
            Box::new(asked),
            Vec::with_capacity(room),
        )))
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsError> {
        let State::Reading(_, bytes) = &mut self.0 else {
            return Err(JsError::new("the session is open: its bytes ended"));
        };
        if bytes.len() + chunk.len() > MAX_HELD_BYTES {
            let text = format!("a session has at most {MAX_HELD_BYTES} bytes");
            return Err(thrown(Error::new(ErrorKind::Limit, text)));
        }
        bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Ends the bytes, verifies them and reads the turns; gives the number of turns.
    pub fn open(&mut self) -> Result<usize, JsError> {
        match std::mem::replace(&mut self.0, State::Failed) {
            State::Reading(asked, bytes) => {
                let opened = session::Session::open(*asked, bytes).map_err(thrown)?;
                let turns = opened.len();
                self.0 = State::Open(Box::new(opened));
                Ok(turns)
            }
            other => {
                self.0 = other;
                Err(JsError::new("the session was opened"))
            }
        }
    }

    /// The verdict, as `threadseal verify --json` prints it.
    pub fn report(&self) -> Result<String, JsError> {
        Ok(text(self.opened()?.outcome().to_json()))
    }

    /// What the file is, its figures and its seals: JSON.
    pub fn summary(&self) -> Result<String, JsError> {
        Ok(text(self.opened()?.summary()))
    }

    /// The rows of `count` turns from the place `from`: a JSON array.
    pub fn rows(&self, from: usize, count: usize) -> Result<String, JsError> {
        Ok(text(self.opened()?.rows(from, count)))
    }

    /// The turn of this number with all its content: JSON.
    pub fn turn(&self, turn: u32) -> Result<String, JsError> {
        self.opened()?.turn(turn.into()).map(text).map_err(thrown)
    }

    /// The first `most` turns that have all words of the query: JSON.
    pub fn search(&self, query: &str, most: usize) -> Result<String, JsError> {
        let hits = self.opened()?.search(query, most).map_err(thrown)?;
        Ok(json(&hits))
    }

    /// A proof of one turn, for `checkProof` and `threadseal check-proof`.
    pub fn prove(&self, turn: u32) -> Result<Vec<u8>, JsError> {
        self.opened()?.prove(turn.into()).map_err(thrown)
    }

    fn opened(&self) -> Result<&session::Session, JsError> {
        match &self.0 {
            State::Open(opened) => Ok(opened),
            State::Reading(..) => Err(JsError::new("the session is not open yet")),
            State::Failed => Err(JsError::new("the session could not be opened")),
        }
    }
}
