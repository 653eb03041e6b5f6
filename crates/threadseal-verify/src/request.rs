//! [`VerifyRequest`]: what a run asks of each record.

use crate::anchors::Anchors;
use threadseal_core::digest::Digest;
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::trust::{ScopeFormat, Trust};
pub use threadseal_reader::asked::{LedgerRequest, RequestedProfile, ScrollRequest};

/// What a run asks of each record.
#[derive(Debug, Clone)]
pub struct VerifyRequest {
    /// Whose signatures count.
    pub trust: Trust,
    /// Which claims are verified.
    pub profile: RequestedProfile,
    /// Read the files as this format, whatever they look like.
    pub format: Option<ScopeFormat>,
    /// The thread that the record must belong to.
    pub thread: Option<ThreadId>,
    /// A head that the record must contain.
    pub expect_head: Option<ExpectedHead>,
    /// Must the expected head be the last?
    pub exact_head: bool,
    /// The expected head, where what is known of later ones does not count.
    pub as_of: Option<Head>,
    /// What witnesses saw, where only that counts.
    pub anchors: Option<Anchors>,
    /// Check every signature, not only the last of each key.
    pub every_signature: bool,
    /// What is asked of scrolls only.
    pub scroll: ScrollRequest,
    /// What is asked of ledgers only.
    pub ledger: LedgerRequest,
    /// What is asked of lineages only.
    pub lineage: LineageRequest,
}

impl VerifyRequest {
    /// Everything at its default.
    pub fn by(trust: Trust) -> Self {
        Self {
            trust,
            profile: RequestedProfile::Auto,
            format: None,
            thread: None,
            expect_head: None,
            exact_head: false,
            as_of: None,
            anchors: None,
            every_signature: false,
            scroll: ScrollRequest::default(),
            ledger: LedgerRequest::default(),
            lineage: LineageRequest::default(),
        }
    }
}

/// What is asked of lineages only.
#[derive(Debug, Clone, Default)]
pub struct LineageRequest {
    /// Digests of code that may have run.
    pub code: Vec<Digest>,
    /// Are the links to be drawn?
    pub draw: bool,
    /// The link that one of the lineages must have.
    pub head: Option<ExpectedHead>,
}
