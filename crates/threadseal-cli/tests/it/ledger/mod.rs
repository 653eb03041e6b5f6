//! Ledgers on the command line.

mod beginnings;
mod commands;
mod gone;
mod places;
mod stores;
mod vectors;

use crate::prelude::*;

fn ledger(ran: Ran) -> Ran {
    assert!(!ran.stdout.contains("\u{1b}"));
    ran
}
