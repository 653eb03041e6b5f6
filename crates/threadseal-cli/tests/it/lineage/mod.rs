//! Lineages on the command line.

mod accused;
mod append;
mod commands;
mod igor;
mod moves;
mod receipts;
mod stores;
mod vectors;
