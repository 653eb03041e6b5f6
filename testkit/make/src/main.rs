//! Makes the odd records of the testkit, and answers questions about records by the rules of `spec/`.
//!
//! ```text
//! threadseal-vectors make FOLDER     writes each folder with an index.json anew
//! threadseal-vectors answer          the protocol of testkit/PROTOCOL.md
//! ```

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a vector that cannot be made is a fault of this program"
)]

mod documents;
mod forge;
mod ledgers;
mod list;
mod logs;
mod native;
mod observed;
mod observed_forge;
mod proof_forge;
mod proofs;
mod scrolls;
mod values;

use std::path::Path;
use std::process::ExitCode;
use threadseal_vectors::{Fallible, answer_all};

#[expect(clippy::print_stderr, reason = "people read this")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["make", folder] => make(Path::new(folder)),
        ["answer"] => answer_all(),
        _ => Err("use: threadseal-vectors make FOLDER | answer".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("threadseal-vectors: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the chore's output")]
fn make(folder: &Path) -> Fallible<()> {
    for (name, vectors) in [
        ("native", native::vectors()),
        ("observed", observed::vectors()),
        ("proofs", proofs::vectors()),
        ("rules/scroll", scrolls::vectors()),
        ("rules/ledger", ledgers::vectors()),
        ("rules/bundle", ledgers::bundles()),
        ("rules/documents", documents::vectors()),
        ("rules/tlog", logs::vectors()),
    ] {
        vectors.write(&folder.join(name))?;
        println!("{name}: {} vectors", vectors.len());
    }
    Ok(())
}
