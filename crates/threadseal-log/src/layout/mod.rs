//! What is on the disk: the logs of a home, the files of one log, and how each file is spelled.
//!
//! Nothing here decides which log continues, or whether a signature counts.

pub(crate) mod description;
pub(crate) mod home_identity;
pub(crate) mod home_secret;
pub(crate) mod journal;
pub(crate) mod log_dir;
pub(crate) mod log_home;
pub(crate) mod mark_location;
pub(crate) mod record_places;
