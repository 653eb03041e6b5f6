//! [`Session`]: the turns of one file, to show, to search and to prove; each with what is sealed of it.
//!
//! ```text
//! bytes ─► verdict ─► seals, signers, findings ─┐
//!       └► turns: drafts of a mapping, events, sealed turns, records ─► Row, turn, hits, proof
//! ```
//! All bytes are held: they are what is shown. Where a mapping reads the file, its turns are those of
//! `show`; a transcript's turns begin with each `cognition_in`. Showing proves nothing: a row names what the
//! reports prove about the bytes of its turn.

use crate::alone::FileOutcome;
use crate::asked::Asked;
use crate::claims;
use crate::content::InMemory;
use crate::events::Event;
use crate::lines::LineCutter;
use crate::passes::{Closer, NativePass, verify_options};
use crate::recognise::{self, Kind, LedgerShape};
use crate::turns::{Answer, Call, TextItem, Turn, add_texts, lines_of, source_of, text_of, texts};
use crate::words::{Term, snippet, terms, turn_text};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::ops::Range;
use threadseal_convert::{self as convert, Draft, Drafts, Tokens, holds};
use threadseal_core::canon::cbor;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::canon::python::rye_line;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::report::{Finding, Report, SignerStatus, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_formats::scroll::{Container, Form, Place, Splitter};
use threadseal_formats::transcript::bodies::Restorer;
use threadseal_formats::transcript::manifest::{self, Bodies};
use threadseal_formats::transcript::observed::{self, SealFile};
use threadseal_formats::transcript::observed_proof::ObservedProof;
use threadseal_formats::transcript::turn_proof::TurnProof;

/// Characters of a turn in its row.
const ROW_CHARS: usize = 160;
/// The most turns of a file of lines that no mapping reads.
const MAX_LINES: usize = 1 << 20;

/// The turns of one file.
pub struct Session {
    asked: Asked,
    bytes: Vec<u8>,
    outcome: FileOutcome,
    kind: Option<Kind>,
    shown: Shown,
    lines: Vec<Range<u64>>,
    seals: Vec<SealPoint>,
    observed: Option<SealFile>,
    restorer: Option<Restorer<'static>>,
    rows: Vec<Row>,
    totals: Totals,
}

/// Where the turns come from.
enum Shown {
    /// A mapping made them.
    Drafts(Drafts),
    /// Events of a transcript, by their lines: the lines of each turn.
    Events(Vec<Range<usize>>),
    /// Each turn is a piece of the file.
    Pieces(Vec<Range<u64>>, Form),
}

/// A seal in the file or beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SealPoint {
    /// Its number.
    seq: u64,
    /// The bytes before it are sealed.
    bytes: u64,
    /// By the clock of its maker.
    time: Option<String>,
}

/// What the reports prove about a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SealState {
    /// `sealed`: under a good seal of a trusted key. `other_signer`: under a seal whose key nothing vouches for.
    /// `changed`: a finding of an error is in it. `doubtful`: the record was changed, before or after. `unsealed`: no
    /// seal covers it.
    pub state: &'static str,
    /// The first seal over it.
    pub seal: Option<u64>,
    /// When that was made, by the signer's clock.
    pub time: Option<String>,
    /// Names or ids of the keys on whose standing the verdict rests.
    pub by: Vec<String>,
    /// Codes of findings in it: what is redacted, adopted, set aside or changed.
    pub codes: Vec<String>,
    /// Lines of it that were redacted.
    pub redacted: Vec<u64>,
}

/// A turn in few words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its number.
    pub turn: u64,
    /// Who speaks, or what the line is.
    pub role: String,
    /// When, to the second.
    pub time: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Its first and last line, where the file is made of lines.
    pub lines: Option<[u64; 2]>,
    /// Its bytes in the file.
    pub bytes: Option<[u64; 2]>,
    /// Tokens that the source counts for it.
    pub tokens: Option<TokenCounts>,
    /// Cost in dollars, as the source has it.
    pub cost: Option<f64>,
    /// Names of the tools that it calls.
    pub tools: Vec<String>,
    /// Calls that failed.
    pub failed: u64,
    /// The beginning of its text.
    pub text: String,
    /// Words for other items in it: `thinking`, `image`, …
    pub items: Vec<String>,
    /// Is it beside the main line, as a subagent's turn is?
    pub sidechain: bool,
    /// The agent, where the source names one.
    pub agent: Option<String>,
    /// What is proved about it.
    pub seal: SealState,
}

/// Tokens of a turn or a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TokenCounts {
    /// All input.
    pub input: u64,
    /// All output.
    pub output: u64,
    /// The part of the input that came from a cache.
    pub cached: u64,
    /// The part of the output that was reasoning.
    pub reasoning: u64,
}

impl From<Tokens> for TokenCounts {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input,
            output: tokens.output,
            cached: tokens.cached,
            reasoning: tokens.reasoning,
        }
    }
}

/// Figures of a whole session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Totals {
    turns: u64,
    tool_calls: u64,
    tokens: TokenCounts,
}

#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    /// `session`, `transcript`, `scroll`, `ledger`, `document` or `lines`.
    kind: &'static str,
    /// The mapping that reads it.
    format: Option<&'static str>,
    bytes: u64,
    lines: Option<u64>,
    first_turn: u64,
    #[serde(flatten)]
    totals: &'a Totals,
    seals: &'a [SealPoint],
    /// The verdict of the report that rows refer to.
    verdict: Option<Verdict>,
}

#[derive(Serialize)]
struct TurnOutput<'a> {
    row: &'a Row,
    #[serde(flatten)]
    turn: Turn,
    /// Facts of the turn that are no content: ids, usage, the stop reason, its place in a tree.
    source: Option<Box<RawValue>>,
    /// The events of a transcript.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<EventOutput>,
}

#[derive(Serialize)]
struct EventOutput {
    line: u64,
    byte: u64,
    event_type: String,
    /// The payload's JSON text, with bodies in their places.
    payload: String,
    /// Its readable part.
    text: String,
}

/// A turn that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// Its number.
    pub turn: u64,
    /// The text around the first word, on one line.
    pub text: String,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// The turns, in order.
    pub hits: Vec<Hit>,
    /// Were there more than were asked for?
    pub more: bool,
}

impl Session {
    /// Opens a file: verifies it, and reads its turns.
    ///
    /// # Errors
    /// When it has no turns, or cannot be read.
    pub fn open(asked: Asked, bytes: Vec<u8>) -> Result<Self, Error> {
        let file = InMemory {
            name: &asked.name,
            bytes: &bytes,
            is_sealed: asked.beside.seal.is_some(),
        };
        let kind = claims::kind(&asked, &file).ok().flatten();
        let outcome = FileOutcome::of(&asked, claims::of_file(&asked, &bytes));
        let is_of_lines = recognise::is_of_lines(&file)?;
        let lines = if is_of_lines {
            lines_in(&bytes)
        } else {
            Vec::new()
        };
        let mut session = Self {
            shown: Shown::Events(Vec::new()),
            seals: Vec::new(),
            observed: asked
                .beside
                .seal
                .as_deref()
                .and_then(|seal| observed::parse(seal).ok()),
            restorer: None,
            rows: Vec::new(),
            totals: Totals::default(),
            asked,
            bytes,
            outcome,
            kind,
            lines,
        };
        session.restorer = session.read_bodies();
        session.read_turns()?;
        session.seals = session.find_seals();
        for row in 0..session.rows.len() {
            let state = session.state_of(row);
            if let Some(row) = session.rows.get_mut(row) {
                row.seal = state;
            }
        }
        Ok(session)
    }

    /// The verdict, as [`FileOutcome::to_json`] prints it.
    pub fn outcome(&self) -> &FileOutcome {
        &self.outcome
    }

    /// The number of turns.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Has it no turn?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the file is, its figures and its seals, as JSON.
    pub fn summary(&self) -> Vec<u8> {
        let (kind, format) = self.kind_of();
        crate::output::to_vec(&Summary {
            name: &self.asked.name,
            kind,
            format,
            bytes: self.bytes.len() as u64,
            lines: Some(self.lines.len() as u64).filter(|lines| *lines > 0),
            first_turn: self.rows.first().map_or(0, |row| row.turn),
            totals: &self.totals,
            seals: &self.seals,
            verdict: self.report().map(|report| report.verdict),
        })
    }

    /// The rows of `count` turns from the place `from`, as JSON.
    pub fn rows(&self, from: usize, count: usize) -> Vec<u8> {
        let rows = self.rows.get(from..).unwrap_or_default();
        crate::output::to_vec(&rows.get(..count).unwrap_or(rows))
    }

    /// One turn with all its content, as JSON.
    ///
    /// # Errors
    /// When there is no turn of this number.
    pub fn turn(&self, turn: u64) -> Result<Vec<u8>, Error> {
        let place = self.place_of(turn)?;
        let row = self.rows.get(place).ok_or_else(|| no_turn(turn))?;
        let (turn, source, events) = match &self.shown {
            Shown::Drafts(drafts) => {
                let draft = drafts.get(place).ok_or_else(|| no_turn(turn))?;
                (
                    Turn::of(turn, &draft),
                    source_of(&draft).and_then(raw),
                    Vec::new(),
                )
            }
            Shown::Events(turns) => {
                let lines = turns.get(place).cloned().unwrap_or_default();
                let events = self.events(lines);
                (
                    turn_of_events(turn, &events),
                    None,
                    events.iter().map(EventOutput::of).collect(),
                )
            }
            Shown::Pieces(pieces, form) => {
                let piece = pieces.get(place).map(|piece| self.piece(piece));
                let piece = piece.unwrap_or_default();
                (turn_of_piece(turn, piece, *form, row), None, Vec::new())
            }
        };
        Ok(crate::output::to_vec(&TurnOutput {
            row,
            turn,
            source,
            events,
        }))
    }

    /// The first `most` turns that have all words of the query.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is nothing to look for, `Limit` when it is too much.
    pub fn search(&self, query: &str, most: usize) -> Result<Hits, Error> {
        let terms = terms(query)?;
        let mut hits = Vec::new();
        for (place, row) in self.rows.iter().enumerate() {
            if !self.may_hold(place, &terms) {
                continue;
            }
            let text = self.text_of(place);
            if !terms.iter().all(|term| term.is_in(&text)) {
                continue;
            }
            if hits.len() == most {
                return Ok(Hits { hits, more: true });
            }
            hits.push(Hit {
                turn: row.turn,
                text: snippet(&text, &terms),
            });
        }
        Ok(Hits { hits, more: false })
    }

    /// A proof of one turn, as `threadseal prove` makes it.
    ///
    /// # Errors
    /// When the record is not one whose seals hold, has no such turn, or its format has no such proof.
    pub fn prove(&self, turn: u64) -> Result<Vec<u8>, Error> {
        let text = match (&self.observed, self.kind) {
            (Some(_), _) => self.prove_lines(turn)?,
            (None, Some(Kind::Native)) => self.prove_events(turn)?,
            _ => {
                let text = "only turns of native records and of sealed logs can be proved without the others";
                return Err(Error::refused(text));
            }
        };
        Ok(text.into_bytes())
    }
}

impl Session {
    fn kind_of(&self) -> (&'static str, Option<&'static str>) {
        if let Shown::Drafts(_) = self.shown {
            let format = convert::detect(&self.bytes).map(|format| format.name);
            return ("session", format);
        }
        let kind = match self.kind {
            Some(Kind::Native | Kind::Events) => "transcript",
            Some(Kind::Scroll(_)) => "scroll",
            Some(Kind::Ledger(_)) => "ledger",
            Some(Kind::Document(_)) => "document",
            _ => "lines",
        };
        (kind, None)
    }

    fn read_turns(&mut self) -> Result<(), Error> {
        match self.kind {
            Some(Kind::Native | Kind::Events) => self.read_events(),
            Some(Kind::Scroll(container)) => self.read_scroll(container),
            Some(Kind::Ledger(LedgerShape::Lines)) => self.read_lines("step"),
            Some(Kind::Ledger(_) | Kind::Checkpoint) => {
                let text = "the file has no turns to show";
                return Err(Error::refused(format!("{}: {text}", self.asked.name)));
            }
            _ => self.read_session(),
        }
        self.totals.turns = self.rows.len() as u64;
        Ok(())
    }

    /// The turns that a mapping makes; of a file that none reads, its lines.
    fn read_session(&mut self) {
        let mapped = convert::detect(&self.bytes).and_then(|format| format.map(&self.bytes).ok());
        let Some(mapped) = mapped.filter(|mapped| !mapped.drafts.is_empty()) else {
            return self.read_lines("line");
        };
        self.totals.tool_calls = mapped.account.tool_calls;
        self.totals.tokens = mapped.account.tokens.into();
        let rows = (0..).zip(mapped.drafts.iter());
        self.rows = rows
            .map(|(turn, draft)| self.row_of_draft(turn, &draft))
            .collect();
        self.shown = Shown::Drafts(mapped.drafts);
    }

    fn row_of_draft(&self, turn: u64, draft: &Draft) -> Row {
        let items = texts(draft);
        let source = source_of(draft);
        let member = |name: &str| source.and_then(|source| source.get(name));
        let numbers: BTreeSet<u64> = match self.lines.is_empty() {
            true => BTreeSet::new(),
            false => lines_of(draft),
        };
        let lines = numbers.first().zip(numbers.last());
        let lines = lines.map(|(first, last)| [*first, *last]);
        let count = |tokens: &Value, name: &str| {
            tokens.get(name).and_then(Value::as_u64).unwrap_or_default()
        };
        Row {
            model: draft.model.id.clone(),
            lines,
            bytes: match lines {
                Some(lines) => self.bytes_of(lines),
                None => Some([0, self.bytes.len() as u64]),
            },
            tokens: member("tokens").map(|tokens| TokenCounts {
                input: count(tokens, "input"),
                output: count(tokens, "output"),
                cached: count(tokens, "cached"),
                reasoning: count(tokens, "reasoning"),
            }),
            cost: member("cost").and_then(number),
            tools: draft
                .tool_calls
                .iter()
                .map(|call| call.name.clone())
                .collect(),
            failed: draft
                .tool_results
                .iter()
                .filter(|result| !result.ok)
                .count() as u64,
            sidechain: member("sidechain").is_some_and(|value| *value == Value::Bool(true)),
            agent: member("agent").and_then(Value::as_str).map(str::to_owned),
            items: words_of(&items),
            ..Row::new(
                turn,
                draft.role.as_str(),
                crate::turns::time_of(draft),
                &first_text(&items),
            )
        }
    }

    fn read_events(&mut self) {
        let mut turns: Vec<Range<usize>> = Vec::new();
        let mut first_number = 0;
        for index in 0..self.lines.len() {
            let event = Event::alone(0, self.line(index));
            match turns.last_mut() {
                Some(turn) if event.event_type != "cognition_in" => turn.end = index + 1,
                found => {
                    if found.is_none() && event.event_type == "cognition_in" {
                        first_number = 1;
                    }
                    turns.push(index..index + 1);
                }
            }
        }
        let rows = (first_number..).zip(&turns);
        self.rows = rows
            .map(|(turn, lines)| self.row_of_events(turn, lines))
            .collect();
        self.totals.tool_calls = self.rows.iter().map(|row| row.tools.len() as u64).sum();
        self.shown = Shown::Events(turns);
    }

    fn row_of_events(&self, number: u64, lines: &Range<usize>) -> Row {
        let events = self.events(lines.clone());
        let turn = turn_of_events(number, &events);
        let place = [lines.start as u64 + 1, lines.end as u64];
        Row {
            lines: Some(place),
            bytes: self.bytes_of(place),
            tools: turn.calls.iter().map(|call| call.name.clone()).collect(),
            failed: turn.results.iter().filter(|result| !result.ok).count() as u64,
            items: words_of(&turn.texts),
            ..Row::new(number, "turn", turn.time, &first_text(&turn.texts))
        }
    }

    /// The bodies of a record that keeps them in a file of their own.
    fn read_bodies(&self) -> Option<Restorer<'static>> {
        let manifest = manifest::parse_line(self.line(0));
        let manifest = manifest.filter(|manifest| manifest.bodies == Bodies::Detached)?;
        let bodies = self.asked.beside.bodies.as_deref().unwrap_or_default();
        let mut restorer = Restorer::new(&manifest.record, bodies);
        (0..self.lines.len()).for_each(|index| restorer.note(self.line(index)));
        Some(restorer.into_owned())
    }

    /// The events of these lines, with bodies in their places.
    fn events(&self, lines: Range<usize>) -> Vec<Event> {
        let event = |index: usize| {
            let bytes = self.line(index);
            let bytes = match &self.restorer {
                Some(restorer) => restorer.restore(bytes).into_owned(),
                None => bytes.to_vec(),
            };
            let start = self.lines.get(index).map_or(0, |line| line.start);
            Event::of(index as u64 + 1, start, bytes)
        };
        lines.map(event).collect()
    }

    fn read_scroll(&mut self, container: Container) {
        let (mut splitter, mut pieces) = (Splitter::new(container), Vec::new());
        let mut each = |_: &[u8], place: Place| pieces.push(place.from..place.to);
        splitter.push(&self.bytes, &mut each);
        splitter.finish(&mut each);
        let form = container.form();
        let row = |(turn, piece): (u64, &Range<u64>)| {
            let mut row = Row::new(turn, "turn", None, "");
            let read = turn_of_piece(turn, self.piece(piece), form, &row);
            row = Row::new(turn, &read.role, read.time, &first_text(&read.texts));
            row.bytes = Some([piece.start, piece.end]);
            row.model = read.model;
            row.tools = read.calls.into_iter().map(|call| call.name).collect();
            row.failed = read.results.iter().filter(|result| !result.ok).count() as u64;
            row.items = words_of(&read.texts);
            row
        };
        self.rows = (0..).zip(&pieces).map(row).collect();
        self.shown = Shown::Pieces(pieces, form);
    }

    /// Each line is a turn; a file that is not made of lines is one.
    fn read_lines(&mut self, role: &str) {
        let whole = 0..self.bytes.len() as u64;
        let mut pieces = self.lines.clone();
        pieces.truncate(MAX_LINES);
        if pieces.is_empty() && !self.bytes.is_empty() {
            pieces.push(whole);
        }
        let has_lines = !self.lines.is_empty();
        let row = |(turn, piece): (u64, &Range<u64>)| {
            let line = self.piece(piece);
            let event = Event::alone(turn, line);
            let text: String = String::from_utf8_lossy(line)
                .chars()
                .take(ROW_CHARS)
                .collect();
            let role = match event.event_type.as_str() {
                "" => role,
                word => word,
            };
            let mut row = Row::new(turn, role, time_in(line), &text);
            row.bytes = Some([piece.start, piece.end]);
            row.lines = has_lines.then_some([turn, turn]);
            row
        };
        self.rows = (1..).zip(&pieces).map(row).collect();
        self.shown = Shown::Pieces(pieces, Form::Json);
    }
}

impl Session {
    fn place_of(&self, turn: u64) -> Result<usize, Error> {
        let first = self.rows.first().map_or(0, |row| row.turn);
        let place = turn.checked_sub(first).ok_or_else(|| no_turn(turn))?;
        let place = usize::try_from(place).map_err(|_| no_turn(turn))?;
        match place < self.rows.len() {
            true => Ok(place),
            false => Err(no_turn(turn)),
        }
    }

    fn line(&self, index: usize) -> &[u8] {
        self.lines.get(index).map_or(&[], |line| self.piece(line))
    }

    fn piece(&self, place: &Range<u64>) -> &[u8] {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes
            .get(at(place.start)..at(place.end))
            .unwrap_or_default()
    }

    /// The bytes from the first of these lines to the last.
    fn bytes_of(&self, [first, last]: [u64; 2]) -> Option<[u64; 2]> {
        let line = |number: u64| {
            let index = usize::try_from(number.checked_sub(1)?).ok()?;
            self.lines.get(index)
        };
        Some([line(first)?.start, line(last)?.end])
    }

    fn text_of(&self, place: usize) -> String {
        match &self.shown {
            Shown::Drafts(drafts) => drafts
                .get(place)
                .map_or_else(String::new, |draft| turn_text(&draft).text),
            Shown::Events(turns) => {
                let lines = turns.get(place).cloned().unwrap_or_default();
                let events = self.events(lines);
                events
                    .iter()
                    .map(Event::readable)
                    .collect::<Vec<_>>()
                    .join("\n")
            }
            Shown::Pieces(pieces, form) => {
                let piece = pieces.get(place).map(|piece| self.piece(piece));
                let row = &self.rows[place];
                let turn = turn_of_piece(row.turn, piece.unwrap_or_default(), *form, row);
                let texts = turn.texts.into_iter().map(|item| item.text);
                let calls = turn
                    .calls
                    .into_iter()
                    .flat_map(|call| [call.name, call.args]);
                let results = turn.results.into_iter().map(|result| result.text);
                texts
                    .chain(calls)
                    .chain(results)
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        }
    }

    /// May a turn have these words? A quick look at its bytes; false is certain.
    fn may_hold(&self, place: usize, terms: &[Term]) -> bool {
        let words = terms
            .iter()
            .flat_map(|term| term.text().split(|c: char| !c.is_alphanumeric()));
        let mut words = words.filter(|word| !word.is_empty());
        let has_bodies = self.asked.beside.bodies.is_some();
        match &self.shown {
            Shown::Drafts(drafts) => words.all(|word| drafts.may_hold(place, word)),
            // A body is in another file.
            Shown::Events(_) if has_bodies => true,
            Shown::Events(_) | Shown::Pieces(..) => {
                let bytes = self.rows.get(place).and_then(|row| row.bytes);
                let bytes = bytes
                    .map(|[from, to]| self.piece(&(from..to)))
                    .unwrap_or_default();
                words.all(|word| !word.is_ascii() || holds(bytes, word.as_bytes()))
            }
        }
    }
}

impl Session {
    /// The report that speaks of the bytes that are shown: of seals beside a log, else of the file itself.
    fn report(&self) -> Option<&Report> {
        self.outcome.results.first()
    }

    fn find_seals(&self) -> Vec<SealPoint> {
        if let Some(seals) = &self.observed {
            let point = |seal: &observed::ObservedSeal| SealPoint {
                seq: seal.head.seq,
                bytes: seal.head.size,
                time: Some(seal.time.to_iso_seconds()),
            };
            return seals.seals.iter().map(point).collect();
        }
        if !matches!(self.kind, Some(Kind::Native | Kind::Events)) {
            return Vec::new();
        }
        let is_seal = |line: &&Range<u64>| {
            let bytes = self.piece(line);
            memchr::memmem::find(bytes, b"checkpoint").is_some() && Event::alone(0, bytes).is_seal()
        };
        let point = |(seq, line): (u64, &Range<u64>)| SealPoint {
            seq,
            bytes: line.end,
            time: time_in(self.piece(line)),
        };
        (1..)
            .zip(self.lines.iter().filter(is_seal))
            .map(point)
            .collect()
    }

    fn state_of(&self, place: usize) -> SealState {
        let mut state = SealState::unsealed();
        let (Some(row), Some(report)) = (self.rows.get(place), self.report()) else {
            return state;
        };
        let Some([from, to]) = row.bytes else {
            return state;
        };
        let is_here = |finding: &&Finding| is_in(finding, row, from, to);
        let here: Vec<&Finding> = report.findings.iter().filter(is_here).collect();
        let codes: BTreeSet<&str> = here.iter().map(|finding| finding.code.as_str()).collect();
        state.codes = codes.into_iter().map(str::to_owned).collect();
        if let (Some(seals), Some([first, last])) = (&self.observed, row.lines) {
            state.redacted = (first..=last)
                .filter(|line| seals.is_redacted(*line))
                .collect();
        }
        // Seals are in the order of their places.
        let after = self.seals.partition_point(|seal| seal.bytes < to);
        let seal = self.seals.get(after);
        state.seal = seal.map(|seal| seal.seq);
        state.time = seal.and_then(|seal| seal.time.clone());
        let is_trusted = report.trusted_until.is_some_and(|until| until.byte >= to);
        let is_error =
            |finding: &&Finding| finding.severity == threadseal_core::report::Severity::Error;
        let is_changed = report.verdict.is_evidence();
        let has_seal = seal.is_some() || report.head.is_some();
        state.state = match () {
            () if is_changed && here.iter().any(is_error) => "changed",
            () if is_trusted => "sealed",
            () if is_changed => "doubtful",
            () if has_seal && report.has_other_signer() => "other_signer",
            () if seal.is_some() && report.verdict == Verdict::UnknownSigner => "other_signer",
            () => "unsealed",
        };
        if matches!(state.state, "sealed" | "other_signer") {
            let name = |signer: &threadseal_core::report::SignerReport| {
                signer.name.clone().unwrap_or_else(|| signer.key.clone())
            };
            let counts = |signer: &&threadseal_core::report::SignerReport| {
                state.state != "sealed"
                    || matches!(signer.status, SignerStatus::Trusted | SignerStatus::Pinned)
            };
            state.by = report.signers.iter().filter(counts).map(name).collect();
        }
        state
    }

    fn prove_events(&self, turn: u64) -> Result<String, Error> {
        let mut closer = Closer::default();
        let outcome = loop {
            let first = self.bytes.split(|byte| *byte == b'\n').next();
            let mut pass = NativePass::new(&self.asked, first.unwrap_or_default(), &closer);
            pass.push(&self.bytes);
            let outcome = pass.outcome(&self.asked);
            if !outcome.look_closer {
                break outcome;
            }
            closer = Closer::every_signature();
        };
        refuse_unless_good(&outcome.report)?;
        let verified = match outcome.verified.clone() {
            Some(verified) => Some(verified),
            None => outcome.lenient().map(|parts| parts.verified),
        };
        let verified =
            verified.ok_or_else(|| Error::refused("no part of the record is verified"))?;
        let proof = TurnProof::make(&verified, &self.bytes, turn)?;
        let bodies = self.asked.beside.bodies.as_deref().unwrap_or_default();
        let proof = proof.with_bodies(&self.bytes, bodies)?.proof;
        refuse_unless_good(&proof.check(&verify_options(&self.asked)).report)?;
        Ok(proof.to_string())
    }

    fn prove_lines(&self, turn: u64) -> Result<String, Error> {
        let report = self
            .report()
            .ok_or_else(|| Error::refused("there is no verdict on the log"))?;
        refuse_unless_good(report)?;
        let place = self.place_of(turn)?;
        let numbers = match &self.shown {
            Shown::Drafts(drafts) => drafts.get(place).map(|draft| lines_of(&draft)),
            Shown::Events(_) | Shown::Pieces(..) => {
                let lines = self.rows.get(place).and_then(|row| row.lines);
                lines.map(|[first, last]| (first..=last).collect())
            }
        };
        let numbers = numbers
            .filter(|_| !self.lines.is_empty())
            .unwrap_or_default();
        let seals = self.asked.beside.seal.as_deref().unwrap_or_default();
        let label = format!("{}#{turn}", self.asked.name);
        let proof = ObservedProof::make(&label, seals, &numbers, |number| {
            let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
            let line = self.lines.get(index).map(|_| self.line(index).to_vec());
            line.ok_or_else(|| Error::invalid(format!("there is no line {number}")))
        })?;
        Ok(proof.to_string())
    }
}

impl SealState {
    fn unsealed() -> Self {
        Self {
            state: "unsealed",
            seal: None,
            time: None,
            by: Vec::new(),
            codes: Vec::new(),
            redacted: Vec::new(),
        }
    }
}

impl Row {
    fn new(turn: u64, role: &str, time: Option<String>, text: &str) -> Self {
        let short: String = text.chars().take(ROW_CHARS).collect();
        Self {
            turn,
            role: role.to_owned(),
            time,
            model: None,
            lines: None,
            bytes: None,
            tokens: None,
            cost: None,
            tools: Vec::new(),
            failed: 0,
            text: short.split_whitespace().collect::<Vec<_>>().join(" "),
            items: Vec::new(),
            sidechain: false,
            agent: None,
            seal: SealState::unsealed(),
        }
    }
}

impl EventOutput {
    fn of(event: &Event) -> Self {
        Self {
            line: event.line,
            byte: event.byte,
            event_type: event.event_type.clone(),
            payload: String::from_utf8_lossy(event.payload()).into_owned(),
            text: event.readable(),
        }
    }
}

/// Only what no evidence speaks against can be proved, by seals of keys that count.
fn refuse_unless_good(report: &Report) -> Result<(), Error> {
    let verdicts = [
        Verdict::Verified,
        Verdict::Open,
        Verdict::UnsignedTail,
        Verdict::Partial,
    ];
    match verdicts.contains(&report.verdict) {
        true => Ok(()),
        false => {
            let verdict = report.verdict;
            let text = format!("the record is {verdict}: its turns cannot be proved");
            Err(Error::refused(text))
        }
    }
}

fn no_turn(turn: u64) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("there is no turn {turn}"))
}

/// Is the place of a finding in this turn?
fn is_in(finding: &Finding, row: &Row, from: u64, to: u64) -> bool {
    if let Some([begin, end]) = finding.bytes {
        return begin < to && end > from;
    }
    let line = finding.line.zip(row.lines);
    let by_line = line.is_some_and(|(line, [first, last])| (first..=last).contains(&line));
    by_line || finding.line.is_none() && finding.turn == Some(row.turn)
}

fn lines_in(bytes: &[u8]) -> Vec<Range<u64>> {
    let (mut cutter, mut lines) = (LineCutter::new(), Vec::new());
    let mut each = |line: crate::lines::Line<'_>| {
        lines.push(line.start..line.start + line.bytes.len() as u64);
    };
    cutter.push(bytes, &mut each);
    cutter.finish(&mut each);
    lines
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(_) => text_of(value).parse().ok(),
        _ => None,
    }
}

fn raw(value: &Value) -> Option<Box<RawValue>> {
    let text = String::from_utf8(rye_line(value)).ok()?;
    RawValue::from_string(text).ok()
}

/// The words for items that are no text, each once.
fn words_of(items: &[TextItem]) -> Vec<String> {
    let words = items.iter().map(|item| item.kind.as_str());
    let words: BTreeSet<&str> = words.filter(|word| *word != "text").collect();
    words.into_iter().map(str::to_owned).collect()
}

/// The first text of a turn, or else its first reasoning.
fn first_text(items: &[TextItem]) -> String {
    let of = |kind: &str| {
        let mut items = items
            .iter()
            .filter(|item| item.kind == kind && !item.text.is_empty());
        items.next()
    };
    let found = of("text").or_else(|| of("thinking")).or(items.first());
    found.map_or_else(String::new, |item| {
        item.text.chars().take(ROW_CHARS).collect()
    })
}

/// The time that a line states.
fn time_in(line: &[u8]) -> Option<String> {
    let mut found = None;
    let read = json::scan_object(line, |key, span| {
        let is_time = key.is("timestamp") || key.is("ts") || key.is("started_at");
        if found.is_none() && is_time {
            found = line.get(span);
        }
    });
    read.ok()?;
    let text = std::str::from_utf8(found?).ok()?;
    let bare = text.trim_matches('"');
    let time = Timestamp::parse_epoch_text(bare).or_else(|| Timestamp::parse_rfc3339(bare));
    Some(time?.to_iso_seconds())
}

/// The events of one turn of a transcript.
fn turn_of_events(turn: u64, events: &[Event]) -> Turn {
    let (mut items, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for event in events.iter().filter(|event| !event.is_seal()) {
        let payload = json::parse(event.payload()).ok();
        let member = |name: &str| payload.as_ref().and_then(|payload| payload.get(name));
        let id = member("call_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        match event.event_type.as_str() {
            "tool_call_start" => calls.push(Call {
                id,
                name: member("tool").map_or_else(String::new, text_of),
                args: member("input").map_or_else(String::new, text_of),
            }),
            "tool_call_result" => results.push(Answer {
                id,
                ok: member("error")
                    .is_none_or(|error| error.as_str() == Some("") || *error == Value::Null),
                text: event.readable(),
            }),
            word => items.push(TextItem {
                kind: match word {
                    "cognition_in" | "cognition_out" => "text".to_owned(),
                    "cognition_reasoning" => "thinking".to_owned(),
                    word => word.to_owned(),
                },
                text: event.readable(),
            }),
        }
    }
    Turn {
        turn,
        role: "turn".into(),
        time: events.iter().find_map(|event| time_in(&event.bytes)),
        model: None,
        texts: items,
        calls,
        results,
    }
}

/// A turn that is one piece of its file: a sealed turn of a scroll, or any line.
fn turn_of_piece(turn: u64, piece: &[u8], form: Form, row: &Row) -> Turn {
    let read = match form {
        Form::Json => json::parse(piece).ok(),
        Form::Cbor => cbor::parse(piece).ok(),
    };
    let messages = read
        .as_ref()
        .and_then(|read| read.get("messages"))
        .and_then(Value::as_array);
    let (Some(read), Some(messages)) = (&read, messages) else {
        return Turn {
            turn,
            role: row.role.clone().into(),
            time: row.time.clone(),
            model: None,
            texts: vec![TextItem {
                kind: "text".to_owned(),
                text: String::from_utf8_lossy(piece).into_owned(),
            }],
            calls: Vec::new(),
            results: Vec::new(),
        };
    };
    let word = |value: &Value, name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut items = Vec::new();
    for message in messages {
        let role = word(message, "role");
        if let Some(content) = message.get("content").filter(|_| role != "source") {
            add_texts(&mut items, content);
        }
    }
    let list = |name: &str| read.get(name).and_then(Value::as_array).unwrap_or_default();
    let part = |value: &Value, name: &str| value.get(name).map_or_else(String::new, text_of);
    let call = |call: &Value| Call {
        id: word(call, "id"),
        name: word(call, "name"),
        args: part(call, "args"),
    };
    let result = |result: &Value| Answer {
        id: word(result, "id"),
        ok: word(result, "status") == "ok",
        text: part(result, "response"),
    };
    let nanos = read.get("timestamp_ns").and_then(Value::as_u64);
    let time = nanos.and_then(|nanos| Timestamp::from_micros(nanos / 1000).ok());
    Turn {
        turn,
        role: word(read, "role").into(),
        time: time.map(Timestamp::to_iso_seconds),
        model: read.get("model").map(|model| word(model, "id")),
        texts: items,
        calls: list("tool_calls").iter().map(call).collect(),
        results: list("tool_results").iter().map(result).collect(),
    }
}
