//! Attacks on threads that go on, and what they must leave as it was.

mod adopted;
mod agreement;
mod behind;
mod copied;
mod faults;
mod handed_over;
mod linked;
mod recovered;
mod resumed;
mod rows;
mod stage;
mod strayed;
mod told;
