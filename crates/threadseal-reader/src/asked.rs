//! [`Asked`]: what a caller asks of one file, and what is beside it.

use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{ExpectedHead, ThreadId};
use threadseal_core::report::Expectation;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{ScopeFormat, Trust};
use threadseal_formats::document::ItemType;
use threadseal_formats::ledger::RunId;

/// Which signatures count, and how much they must cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestedProfile {
    /// Every claim; what a format leaves open is held against the record.
    #[default]
    Auto,
    /// ThreadSeal's own seals.
    Native,
    /// Rye's signatures, as far as Rye covers.
    Rye,
    /// The seal file beside a log.
    Observed,
    /// agent-scroll's own seals, as far as v0.1 covers.
    ScrollV01,
}

/// What is asked of scrolls only.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScrollRequest {
    /// The number of turns that a scroll must have.
    pub length: Option<u64>,
    /// The moment before which a signed turn is too old.
    pub not_before_ns: Option<u64>,
    /// Do the last digits of a timestamp count as those of any other number?
    pub strict_digits: bool,
}

impl ScrollRequest {
    /// Is anything asked that only scrolls have?
    pub fn is_some(self) -> bool {
        self.length.is_some() || self.not_before_ns.is_some()
    }
}

/// What is asked of ledgers only.
#[derive(Debug, Clone, Default)]
pub struct LedgerRequest {
    /// The run that is meant.
    pub run: Option<RunId>,
    /// The number of records that the ledger must have.
    pub length: Option<u64>,
}

/// The files beside a record that belong to it.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// `NAME.seal`: the seals of a log, or the seal of a document.
    pub seal: Option<Vec<u8>>,
    /// The detached bodies of a native record.
    pub bodies: Option<Vec<u8>>,
    /// Were they left out on purpose? Then they are unread, and not missing.
    pub without_bodies: bool,
    /// `NAME.head`: the signed head of a ledger.
    pub head: Option<Vec<u8>>,
}

/// What a caller gives in the place of a recognised kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenKind {
    /// As `--format` names it.
    Format(ScopeFormat),
    /// A native transcript.
    Native,
    /// Another event log in the transcript's frame.
    Events,
    /// A document, whose own kind its name or content shows.
    Document,
}

/// What is asked of one file.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The name of the file, as reports have it.
    pub name: String,
    /// Whose signatures count.
    pub trust: Trust,
    /// The moment by which windows and ends of keys are judged.
    pub now: Timestamp,
    /// Read the file as this kind, whatever it looks like.
    pub kind: Option<GivenKind>,
    /// Which claims are verified.
    pub profile: RequestedProfile,
    /// The thread that the record must belong to.
    pub thread: Option<ThreadId>,
    /// A head that the record must contain.
    pub expect_head: Option<ExpectedHead>,
    /// Must the expected head be the last?
    pub exact_head: bool,
    /// Check every signature, not only the last of each key.
    pub every_signature: bool,
    /// What is asked of scrolls only.
    pub scroll: ScrollRequest,
    /// What is asked of ledgers only.
    pub ledger: LedgerRequest,
    /// The item type under which Rye signed a text.
    pub item: Option<ItemType>,
    /// Digests of code that a lineage may have run.
    pub code: Vec<Digest>,
    /// What is beside the file.
    pub beside: Beside,
    /// Does the caller hold the record against a log? Then no report states that there is none.
    pub has_log: bool,
}

impl Asked {
    /// Everything at its default, of a file of this name.
    ///
    /// # Errors
    /// When the name is no name of a file.
    pub fn of(name: &str, trust: Trust, now: Timestamp) -> Result<Self, Error> {
        if name.is_empty() || name.contains('\0') {
            return Err(Error::invalid(
                "the name of the file is empty, or has a NUL",
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            trust,
            now,
            kind: None,
            profile: RequestedProfile::Auto,
            thread: None,
            expect_head: None,
            exact_head: false,
            every_signature: false,
            scroll: ScrollRequest::default(),
            ledger: LedgerRequest::default(),
            item: None,
            code: Vec::new(),
            beside: Beside::default(),
            has_log: false,
        })
    }

    /// The head that the record must contain.
    pub(crate) fn expect(&self) -> Vec<Expectation> {
        let given = self.expect_head;
        let given = given.map(|head| Expectation::given(head, self.exact_head));
        given.into_iter().collect()
    }
}
