//! [`Verifier`]: the verdict on one file, from chunks of any size.

use crate::question::Question;
use crate::{text, thrown};
use threadseal_reader::FileVerifier;
use threadseal_reader::alone::{HELD_BYTES, Step};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// Verifies one file. Native records, scrolls, ledgers and logs (`.jsonl`) are looked at as they come; other kinds
/// are held, since their rules need all bytes.
#[wasm_bindgen]
pub struct Verifier(FileVerifier);

/// How far a verification is.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes that were pushed in this pass.
    pub bytes: f64,
    /// The number of the pass, from 1.
    pub pass: u32,
    /// Bytes that are held in memory.
    pub held: f64,
    /// Are the bytes looked at as they come, and not kept?
    pub streamed: bool,
}

#[wasm_bindgen]
impl Verifier {
    /// A verifier before the first byte. At most `held` bytes are held before the rest is streamed, 4 MiB where it
    /// is not given; the report is the same for any.
    #[wasm_bindgen(constructor)]
    pub fn new(question: &Question, held: Option<u32>) -> Result<Verifier, JsError> {
        let held = held.and_then(|held| usize::try_from(held).ok());
        let asked = question.asked().map_err(thrown)?;
        Ok(Self(FileVerifier::holding(
            asked,
            held.unwrap_or(HELD_BYTES),
        )))
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsError> {
        self.0.push(chunk).map_err(thrown)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let now = self.0.progress();
        // Sizes of files have at most 53 bits.
        let number = |count: u64| count as f64;
        Progress {
            bytes: number(now.bytes),
            pass: now.pass,
            held: number(now.held),
            streamed: now.is_streamed,
        }
    }

    /// Ends the bytes: the report as `threadseal verify --json` prints it, or nothing. Then the same bytes have to be
    /// pushed again, from the first: the record has a fault that needs a closer look, or its kind showed at its end.
    pub fn finish(&mut self) -> Result<Option<String>, JsError> {
        match self.0.finish().map_err(thrown)? {
            Step::Again => Ok(None),
            Step::Done(outcome) => Ok(Some(text(outcome.to_json()))),
        }
    }
}
