//! The log of a host: what it promises, and what it does when something fails, goes back or is in two places.

mod cosigned_notes;
mod crashes;
mod forked;
mod forks;
mod head_index;
mod home_clones;
mod key_events;
#[cfg(feature = "keyring")]
mod keyring;
mod known_places;
mod mirrors;
mod non_head_index;
mod order;
mod prelude;
mod promises;
#[cfg(all(feature = "object", feature = "postgres"))]
mod remote_marks;
mod restarts;
mod scene;
mod spools;
#[cfg(feature = "timestamp")]
mod stamps;
mod standing;
mod taking_over;
mod unsigned;
mod ways_out;
