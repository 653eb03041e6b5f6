//! The observable behaviour of the command, frozen in `tests/snapshots`: a change that is not meant shows as a difference.

mod help;
mod home;
mod json;
mod verify;
