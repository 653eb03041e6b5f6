//! Scrolls as files: verified on all cores in constant memory, written turn by turn
//! (`spec/scroll.md` §7).
//!
//! ```text
//! verify   source ─► batches of turns ─┬─ TurnReader ─┬─► Verifier ─► conclude     (`batches`)
//!                                      └─ TurnReader ─┘
//! live     turn ─► seal after the tip ─► line ─► Log     written; sync: durable, then the head
//! ```
//! Invariants of a live scroll:
//! * It is opened only if it verifies up to its end and this host knows no later head.
//! * A torn last line is moved aside and reported, never accepted.
//! * The tip is computed from the file, never loaded from elsewhere.
//! * A head is stored only for durable turns.

use crate::append::{Log, MovedTail};
use crate::batches::{Cut, Cutter, read_all};
use crate::heads::{Durability, RecordKind, StoredHead};
use crate::host::{Host, Published};
use crate::key_ends::SealSection;
use crate::lock::WriterLock;
use crate::read::Source;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, Signer};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Expectation;
use threadseal_core::report::{Conversion, FindingCode, NotVerified, Severity};
use threadseal_core::trust::Trust;
use threadseal_formats::scroll::{
    ChainOptions, Container, End, Form, Judging, Outcome, Place, SealedTurn, Signatures, Splitter,
    Tip, Turn, TurnRead, TurnReader, Verifier, check_place, conclude, read_conversion, read_turn,
    seal, signer_name,
};

/// Mode of a new scroll: an agent's words are for its user.
const SCROLL_MODE: u32 = 0o600;

/// Verifies a scroll, whatever its length, on all cores. It holds a few batches or one turn of it.
/// `progress` gets the length of every chunk.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn verify(
    source: impl Source + Send,
    container: Container,
    options: ChainOptions,
    judging: &Judging<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let (verifier, end) = read(source, container, options, progress)?;
    Ok(conclude(verifier, &end, judging))
}

/// The first half of [`verify`]: reading, without the judgement.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn read(
    source: impl Source + Send,
    container: Container,
    options: ChainOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(Verifier, End), Error> {
    let mut verifier = Verifier::new(options);
    let pinned = verifier.pinned().to_vec();
    let mut cutter = Cutter::new(source, Splitter::new(container), progress);
    let reader = || {
        let mut reader = TurnReader::new(container.form(), &pinned);
        move |turn: &[u8]| reader.read(turn)
    };
    let take = |read: &TurnRead, _: &[u8], place| verifier.take(read, place);
    read_all(&mut cutter, reader, take)?;
    Ok((verifier, cutter.end()?))
}

impl Cut for Splitter {
    type Place = Place;
    type End = End;

    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        Self::push(self, bytes, each);
    }

    fn finish(self, each: &mut dyn FnMut(&[u8], Place)) -> End {
        Self::finish(self, each)
    }
}

/// Hands over the turns of a scroll as they are in the file, in order. Each comes as soon as its
/// end is read.
///
/// # Errors
/// Kind `External` when reading fails; those of `each`.
pub fn each_turn(
    mut source: impl Source,
    container: Container,
    mut each: impl FnMut(&[u8], Place) -> Result<(), Error>,
) -> Result<End, Error> {
    let (mut splitter, mut chunk) = (Splitter::new(container), Vec::new());
    loop {
        source.next_chunk(&mut chunk)?;
        let mut result = Ok(());
        let mut hand = |piece: &[u8], place| {
            if result.is_ok() {
                result = each(piece, place);
            }
        };
        if chunk.is_empty() {
            let end = splitter.finish(&mut hand);
            return result.map(|()| end);
        }
        splitter.push(&chunk, &mut hand);
        result?;
    }
}

/// This host's knowledge of a scroll, for its verification.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The head in this host's store.
    pub head: Option<Head>,
    /// The expectations that follow from it.
    pub expect: Vec<Expectation>,
    /// When it was stored.
    pub updated: Option<threadseal_core::time::Timestamp>,
    /// The names of the keys that signed the scroll then.
    pub signers: Vec<Digest>,
    /// All that is stored of it.
    pub stored: Option<StoredHead>,
}

/// This host's knowledge of the scroll that begins with the turn of this hash.
///
/// # Errors
/// Kind `External` when the store is damaged.
pub fn known(host: &Host, record: &RecordId) -> Result<Known, Error> {
    let stored = host.heads.fetch(record)?;
    let stored = stored.filter(|stored| stored.kind == RecordKind::Scroll);
    Ok(stored.map_or_else(Known::default, |stored| Known {
        expect: stored.expectations(),
        head: Some(stored.head),
        updated: stored.held_since(),
        signers: stored.aliases.clone(),
        stored: Some(stored),
    }))
}

/// Stores the head of a scroll whose turns up to it are durable, with their `signatures`; `key`
/// signed the last of them, if one did.
///
/// # Errors
/// Kind `Refused` when this host knows another continuation, or a later head.
pub fn publish(
    host: &Host,
    (head, signatures): (Head, Signatures),
    key: Option<KeyId>,
    signers: &[Digest],
) -> Result<(), Error> {
    host.publish(&Published {
        head,
        root: Some(signatures.digest()),
        salts: None,
        key,
        kind: RecordKind::Scroll,
        is_final: false,
        thread: None,
        // Users replace and copy scrolls in good faith: no place belongs to one scroll.
        path: None,
        aliases: signers,
        durability: Durability::Durable,
    })
}

/// A scroll in lines, open for its one writer.
#[derive(Debug)]
pub struct LiveScroll {
    host: Host,
    log: Log,
    tip: Tip,
    signers: Vec<Digest>,
    /// The key that signed the last turn, where this writer made it.
    key: Option<KeyId>,
    published: Option<Head>,
    /// No key that signed since the last head was published has ended.
    section: Option<SealSection>,
}

/// A live scroll that was opened, and the changes that were made to its end.
#[derive(Debug)]
pub struct Opened {
    /// The scroll.
    pub scroll: LiveScroll,
    /// A torn last line, which is no part of the scroll any more.
    pub moved: Option<MovedTail>,
    /// Did the last turn lack its line feed? It has one now.
    pub ended: bool,
    /// Does this host know a head of it? Otherwise it may be another scroll than yesterday.
    pub known: bool,
    /// The doubts that the existing turns leave open, apart from the identity of their signers.
    pub doubts: Vec<String>,
}

impl LiveScroll {
    /// Makes a scroll that appears under its name with its first turn, durable and locked.
    ///
    /// # Errors
    /// Kind `InvalidInput` when `path` exists or the turn is not sealed, `External` when the system
    /// fails.
    pub fn create(
        host: Host,
        path: &Path,
        first: Turn,
        signer: Option<&dyn Signer>,
    ) -> Result<Self, Error> {
        let (number, encoding) = (first.number(), first.encoding());
        check_place(&first, 0, None)?;
        let mut signers = Vec::new();
        note_signer(&mut signers, signer);
        let section = Some(enter_seal(&host, signer)?);
        let sealed = seal(first, None, signer)?;
        let head = Head {
            record: RecordId::from_bytes(*sealed.hash().as_bytes()),
            seq: 0,
            size: sealed.covered_bytes(),
            line: sealed.hash(),
        };
        host.refuse_pruned(&head.record)?;
        // Its head could not be kept, and a file without one would look rolled back.
        if known(&host, &head.record)?
            .head
            .is_some_and(|known| known != head)
        {
            return Err(Error::refused(
                "this host knows a longer scroll that begins with the same turn; continue that one",
            ));
        }
        admit(&host, &head, &signers)?;
        let log = Log::create(Arc::clone(&host.fs), path, SCROLL_MODE, &line_of(&sealed))?;
        let mut scroll = Self {
            host,
            log,
            tip: Tip {
                head,
                turn: number,
                encoding,
                signatures: Signatures::default().then(0, sealed.signature()),
            },
            signers,
            key: signer.map(|signer| signer.public_key().key_id()),
            published: None,
            section,
        };
        scroll.sync()?;
        Ok(scroll)
    }

    /// Opens a scroll to continue it: it is read once, under its lock.
    ///
    /// # Errors
    /// Kind `Refused` when it does not verify, or this host knows a later or another head;
    /// `External` when another process writes it, or the system fails.
    pub fn open(host: Host, path: &Path) -> Result<Opened, Error> {
        let lock = WriterLock::acquire(Arc::clone(&host.fs), path)?;
        let file = lock.reader()?;
        let record = beginning(file.chunks(), Container::Lines)?.record;
        let known = record.map_or_else(|| Ok(Known::default()), |record| known(&host, &record))?;
        let options = ChainOptions {
            expect: known.expect.clone(),
            ..ChainOptions::default()
        };
        let trust = Trust::default();
        let judging = Judging {
            signers: &known.signers,
            ..Judging::new(&trust, host.clock.now()?)
        };
        let outcome = verify(file.chunks(), Container::Lines, options, &judging, &|_| {})?;
        let tip = outcome
            .tip
            .filter(|_| outcome.report.verdict.exit_code() != 1)
            .ok_or_else(|| refusal(&outcome, path))?;
        let what = format!("{} has turns", path.display());
        host.refuse_doubted(&what, known.stored.as_ref())?;
        host.refuse_pruned(&tip.head.record)?;
        let signers: Vec<Digest> = outcome.signers.iter().map(signer_name).collect();
        admit(&host, &tip.head, &signers)?;
        // The bytes that the known head names were durable when it was stored.
        let whole = outcome.torn_from.unwrap_or(file.size());
        let floor = if known.head == Some(tip.head) {
            whole
        } else {
            0
        };
        let mut log = Log::open(lock, floor)?;
        let moved = log.move_tail_aside(whole)?;
        if outcome.unended {
            log.append(b"\n")?;
        }
        log.sync()?;
        let scroll = Self {
            host,
            log,
            tip,
            signers,
            key: None,
            published: known.head,
            section: None,
        };
        Ok(Opened {
            scroll,
            moved,
            ended: outcome.unended,
            known: known.head.is_some(),
            doubts: doubts(&outcome),
        })
    }

    /// The last turn that was appended.
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// The path of the scroll.
    pub fn path(&self) -> PathBuf {
        self.log.path().to_owned()
    }

    /// Seals a turn after the last one. On `Ok` it survives this process; [`Self::sync`] makes it
    /// survive power loss. After a signed turn no key of the home ends until then.
    ///
    /// # Errors
    /// Kind `InvalidInput` when its number does not follow or its encoding differs; otherwise as
    /// [`seal`] and [`Log::append`].
    pub fn append(&mut self, turn: Turn, signer: Option<&dyn Signer>) -> Result<Head, Error> {
        let (number, encoding) = (turn.number(), turn.encoding());
        check_place(&turn, self.tip.turn + 1, Some(self.tip.encoding))?;
        let before = self.signers.len();
        let mut signers = self.signers.clone();
        note_signer(&mut signers, signer);
        if signers.len() > before {
            admit(&self.host, &self.tip.head, &signers)?;
        }
        if let Some(by) = signer.map(|signer| signer.public_key().key_id()) {
            // One section for all turns of a key whose head is not known yet.
            if self.section.is_some() && self.key != Some(by) {
                self.sync()?;
            }
            if self.section.is_none() {
                self.section = Some(enter_seal(&self.host, signer)?);
            }
        }
        let sealed = seal(turn, Some(self.tip.head.line), signer)?;
        self.log.append(&line_of(&sealed))?;
        let seq = self.tip.head.seq + 1;
        self.tip = Tip {
            head: Head {
                record: self.tip.head.record,
                seq,
                size: self.tip.head.size + sealed.covered_bytes(),
                line: sealed.hash(),
            },
            turn: number,
            encoding,
            signatures: self.tip.signatures.then(seq, sealed.signature()),
        };
        self.signers = signers;
        self.key = signer.map(|signer| signer.public_key().key_id());
        Ok(self.tip.head)
    }

    /// Makes all turns durable, and their head known to this host.
    ///
    /// # Errors
    /// Kind `External` when the system fails; `Refused` when this host knows another
    /// continuation of the same first turn.
    pub fn sync(&mut self) -> Result<Head, Error> {
        self.log.sync()?;
        if self.published != Some(self.tip.head) {
            let (tip, key) = (&self.tip, self.key);
            publish(&self.host, (tip.head, tip.signatures), key, &self.signers)?;
            let place = self.host.place(self.log.path());
            self.host.heads.note_place(&self.tip.head.record, &place);
            self.published = Some(self.tip.head);
        }
        self.section = None;
        Ok(self.tip.head)
    }
}

fn enter_seal(host: &Host, signer: Option<&dyn Signer>) -> Result<SealSection, Error> {
    let keys: Vec<_> = signer.map(Signer::public_key).into_iter().collect();
    host.enter_seal(&keys)
}

fn note_signer(signers: &mut Vec<Digest>, signer: Option<&dyn Signer>) {
    let Some(name) = signer.map(|signer| signer_name(signer.public_key())) else {
        return;
    };
    if !signers.contains(&name) {
        signers.push(name);
    }
}

/// Refuses what could not be published later.
fn admit(host: &Host, head: &Head, signers: &[Digest]) -> Result<(), Error> {
    let of = (&head.record, RecordKind::Scroll);
    host.admit(of, (head.seq, head.size), signers)
}

/// The beginning of a scroll: what its first turn alone shows.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    /// The record id; `None` when the turn is not valid.
    pub record: Option<RecordId>,
    /// The claim of the converter that made the scroll.
    pub conversion: Option<Conversion>,
}

impl Beginning {
    fn of(turn: &[u8], form: Form) -> Self {
        let hash = read_turn(turn, form, &[]).hash();
        Self {
            conversion: hash.and_then(|_| read_conversion(turn, form)),
            record: hash.map(|hash| RecordId::from_bytes(*hash.as_bytes())),
        }
    }
}

/// The beginning of a scroll.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn beginning(mut source: impl Source, container: Container) -> Result<Beginning, Error> {
    let mut splitter = Splitter::new(container);
    let (mut first, mut chunk) = (None, Vec::new());
    let note = |first: &mut Option<Beginning>, piece: &[u8]| {
        first.get_or_insert_with(|| Beginning::of(piece, container.form()));
    };
    while first.is_none() {
        source.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            splitter.finish(&mut |piece, _| note(&mut first, piece));
            break;
        }
        splitter.push(&chunk, &mut |piece, _| note(&mut first, piece));
    }
    Ok(first.unwrap_or_default())
}

/// The warnings that no other result contains: a moved tail is reported elsewhere, and trust is not
/// checked here.
fn doubts(outcome: &Outcome) -> Vec<String> {
    let findings = outcome.report.findings.iter();
    findings
        .filter(|finding| finding.severity == Severity::Warning)
        .filter(|finding| {
            !matches!(
                finding.code,
                FindingCode::TornTail | FindingCode::KeyUnknown
            )
        })
        .map(|finding| finding.message.clone())
        .collect()
}

fn refusal(outcome: &Outcome, path: &Path) -> Error {
    NotVerified::of(&outcome.report).error(path.display(), "; hint: threadseal scroll verify")
}

fn line_of(sealed: &SealedTurn) -> Vec<u8> {
    [sealed.canonical(), b"\n"].concat()
}

#[cfg(test)]
mod tests;
