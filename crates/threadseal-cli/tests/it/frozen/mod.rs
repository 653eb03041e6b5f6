//! The observable behaviour of the command, frozen in `tests/snapshots`: an unintended change shows
//! as a difference.

mod help;
pub(crate) mod home;
mod json;
mod library;
mod verify;
