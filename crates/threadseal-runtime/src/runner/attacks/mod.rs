//! Attacks on threads that continue, and the state that they must leave unchanged.

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
