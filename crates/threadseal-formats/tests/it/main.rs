//! Tests of the crate as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is test code; clippy knows only the functions marked #[test]"
)]

mod ledger_bundles;
mod ledger_signed;
mod ledger_vectors;
mod lineage_formats;
mod lineage_vectors;
mod rye_documents;
mod rye_transcripts;
mod scene;
mod scroll_conformance;
mod scroll_official;
mod spec_documents;
mod spec_ledger;
mod spec_lineage;
mod spec_scroll;
mod spec_transcript;
mod testkit_documents;
mod testkit_ledgers;
mod testkit_rye_transcripts;
