//! Attacks on threads that continue, and the state that they must leave unchanged.

mod changed_places;
mod copied_items;
mod disk_faults;
mod handoffs;
mod hard_limits;
mod healing;
mod hostile_outputs;
mod lenient_tails;
mod live_files;
mod members;
mod one_verdict;
mod other_projects;
mod recovery;
mod registry_rows;
mod resumption;
mod rye_threads;
mod settings;
mod shown_effects;
mod symbolic_links;
mod time_limits;
