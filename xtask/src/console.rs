//! What every chore needs of its surroundings: the repository, and a place for words.

use std::error::Error;
use std::path::PathBuf;

/// The result of a chore: a person reads its error, and needs no kinds of errors.
pub(crate) type Fallible<T> = Result<T, Box<dyn Error>>;

/// The repository that `cargo run` was called in; for the bare program, the one it was built in.
#[expect(clippy::disallowed_methods, reason = "cargo names the package so")]
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
        .join("..")
}

#[expect(clippy::print_stdout, reason = "the chores' output")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "people read this")]
pub(crate) fn complain(text: &str) {
    eprintln!("xtask: {text}");
}
