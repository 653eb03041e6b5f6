//! Repository chores: `cargo xtask bench`, `cargo xtask vectors`.
#![forbid(unsafe_code)]

mod bench;
mod vectors;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["bench", rest @ ..] => bench::run(rest),
        ["vectors", folder] => vectors::write(folder.as_ref()).map(|()| true),
        _ => Err("usage: cargo xtask bench [--quick] [--write FILE] | vectors FOLDER".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            bench::complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}
