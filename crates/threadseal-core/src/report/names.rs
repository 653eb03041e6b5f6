//! The names in a report: formats, profiles and checks.

use super::spelling::spelled;

spelled! {
    /// The format of a record, as reports name it.
    ///
    /// The formats for which a key can be trusted are [`crate::trust::ScopeFormat`]: a proof is
    /// none of them.
    pub enum Format {
        Transcript => "transcript",
        Log => "log",
        Json => "json",
        Text => "text",
        Scroll => "scroll",
        Ledger => "ledger",
        Lineage => "lineage",
        Proof => "proof",
    }
}

impl Format {
    /// Whether a record of this format grows by whole lines.
    pub fn grows(self) -> bool {
        matches!(self, Self::Transcript | Self::Log)
    }

    /// Whether a record of this format can state that nothing follows. The versions of a document
    /// are whole each.
    pub fn has_end(self) -> bool {
        !matches!(self, Self::Scroll | Self::Lineage)
    }

    /// Whether a record of this format may name the thread that it belongs to.
    pub fn may_name_a_thread(self) -> bool {
        matches!(self, Self::Transcript | Self::Json | Self::Proof)
    }
}

spelled! {
    /// Whose rules made a record's seals.
    pub enum Profile {
        Native => "native",
        Rye => "rye",
        Observed => "observed",
        ScrollV01 => "scroll-v0.1",
        AbstractRuntime => "abstractruntime",
        Igor => "igor",
        ThreadSeal => "threadseal",
        None => "none",
    }
}

spelled! {
    /// The name of a check.
    pub enum CheckName {
        // Every format.
        Head => "head",
        Log => "log",
        Length => "length",
        Signatures => "signatures",
        Thread => "thread",
        Tombstone => "tombstone",
        Trust => "trust",

        // Transcripts, logs and their proofs.
        Anchor => "anchor",
        Bodies => "bodies",
        Conflict => "conflict",
        Inclusion => "inclusion",
        Keys => "keys",
        Lines => "lines",
        Links => "links",
        Manifest => "manifest",
        Page => "page",
        Prefix => "prefix",
        PrefixHash => "prefix_hash",
        Seals => "seals",
        Turn => "turn",

        // Documents.
        Coverage => "coverage",
        Signature => "signature",
        Signer => "signer",

        // Scrolls and ledgers.
        Artifacts => "artifacts",
        Chain => "chain",
        SignedHead => "signed_head",
        Slim => "slim",
        Steps => "steps",

        // Lineages.
        Code => "code",
        Forks => "forks",
        History => "history",
    }
}
