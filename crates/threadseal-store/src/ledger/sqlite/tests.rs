//! The suite, the files of the real package, and what only SQLite can do to a ledger.

use super::*;
use crate::ledger::conformance;
use std::sync::Arc;

#[test]
fn the_store_in_sqlite_passes_the_suite() {
    conformance::run(&|| {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Box::new(move || {
            Box::new(SqliteLedgerStore::open(folder.path().join("ledger.db")).unwrap())
        })
    });
}
