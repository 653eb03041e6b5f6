//! The suite, and what only a server can do to a ledger: lost answers, failovers, crashes.

use super::throwaway::Cluster;
use super::*;
use crate::ledger::conformance;

#[test]
fn the_store_in_postgresql_passes_the_suite() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    conformance::run(&|| {
        let url = cluster.fresh();
        Box::new(move || Box::new(PostgresLedgerStore::open(&url).unwrap()))
    });
}
