//! The `threadseal` command.
fn main() {}
