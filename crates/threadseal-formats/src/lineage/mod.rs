//! Lineages: the signed checkpoints of an agent, each linked to the one before, as in igor.
//!
//! ```text
//! checkpoint ◀─prev─ checkpoint ◀─prev─ release ◀─prev─ accept ◀─prev─ checkpoint ◀─ …
//!   by A               by A               by A            by B           by B
//! ```
//! A file is one *link*: a header of fixed size and a state to the end of the file. A link is named
//! by its content hash, and names its parent by that. The newest link decides which key may write
//! the next one.
//!
//! | file | owns |
//! |---|---|
//! | `header` | [`CheckpointHeader`], v0x02 to v0x05 |
//! | `v4` | signing and verifying igor's files |
//! | `v5` | the layout of ThreadSeal's, [`NativeHeader`], its seal |
//! | `hash` | [`ContentHash`] |
//! | `identity` | [`AgentName`], [`AgentId`], identity files |
//! | `delegation` | [`Delegation`]: session keys under a root key |
//! | `links` | [`LinkBody`]: releases, accepts, refusals, recoveries |
//! | `authority` | [`Authority`]: the key that may write the next link |
//! | `receipts` | [`Receipt`]: igor's receipts |
//! | `transfer` | [`AgentTransfer`]: igor's migration messages |
//! | `package` | [`CheckedPackage`]: the package from the source of a release |
//! | `whole` | [`WholeLink`]: one link and all that it proves alone |
//! | `facts` | all facts of one file alone, in constant memory |
//! | `chain`, `policy`, `seen`, `findings`, `expected`, `conclude` | verdicts on sets of files |
//! | `compat` | igor's own answer |
//! | `fork` | [`ForkReader`]: proofs that an agent signed two links in one place |
//! | `accused` | [`check_fork`]: the verdict on a proof; [`bearing`]: a fork's effect on a copy |
//! | `standing` | [`Standing`]: the state of a lineage, and the links that may follow |

mod accused;
mod authority;
mod chain;
mod compat;
mod conclude;
mod delegation;
mod expected;
mod facts;
mod findings;
mod fork;
mod hash;
mod header;
mod identity;
mod links;
mod package;
mod policy;
mod receipts;
mod seen;
mod standing;
mod transfer;
mod v4;
mod v5;
mod whole;

pub use accused::{CheckedFork, PlacedLink, bearing, check_fork};
pub use authority::{Authority, Holding, Link, Offer, Refusal};
pub use chain::{Lineage, Lineages};
pub use conclude::{DrawnLink, Fork, ForkChild, Judging, LineageHead, Outcome, conclude, judge};
pub use delegation::{Certificate, DELEGATION_TAG, Delegation};
pub use facts::{FileReader, HEAD_MAGIC, Identity, LinkFacts, LinkRead, ReadFault, ReadLink, Seal};
pub use fork::{
    Equivocation, FORK_FIRST_LINE, ForkFault, ForkReader, LinkSigner, ProofPart, proof_prefix,
};
pub use hash::ContentHash;
pub use header::{CheckpointHeader, Epoch, HeaderError, Version};
pub use identity::{AGENT_TAG, AgentId, AgentIdentity, AgentName, IdentityForm};
pub use links::{
    LINK_MEDIA_TYPE, LinkBody, Recover, RefusalReason, Release, Writer, altered, body_length, draft,
};
pub use package::{
    CheckedPackage, PACKAGE_PROLOGUE_LENGTH, PackageExpectation, PackageFault, PackageParts,
    PackagePrologue, StateCheck,
};
pub use receipts::{Receipt, parse_receipts, write_receipts};
pub use seen::View;
pub use standing::{Standing, StandingFault};
pub use transfer::{
    AgentPackage, AgentStarted, AgentTransfer, CheckedTransfer, ReplayData, TransferFault,
    UncheckedTransfer,
};
pub use v4::{
    Verifier as OriginalVerifier, seal as seal_original, seal_reread as seal_original_reread,
    verify as verify_original,
};
pub use v5::{
    CHECKPOINT_TAG, HEADER_LENGTH, LinkKind, MediaType, NativeHeader, SealFault, SealedHeader,
    StateSeal, seal as seal_native, verify as verify_native,
};
pub use whole::{LinkFault, WholeLink};

#[cfg(test)]
mod tests;
