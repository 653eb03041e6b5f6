//! Repository chores of `cargo xtask`: `tidy`, `threats`, `house`, `sweep`, `bench`, `canon`,
//! `vectors`, `migrate-sim`, `fleet`, `campaign`.
#![forbid(unsafe_code)]

mod bench;
mod campaign;
mod canon;
mod fleet;
mod house;
mod migrate;
mod sweep;
mod tidy;
mod vectors;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | threats | sweep | bench [--quick] [--scroll | --ledger | --lineage | --runtime | --log] [--write FILE] | canon | vectors FOLDER | migrate-sim [SCHEDULES] | fleet [--quick] | campaign [--only NAME]... [--fuzz-seconds N] | house [--list] [--root DIR]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["threats"] => tidy::write_threats(),
        ["sweep"] => sweep::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["canon"] => canon::run(),
        ["migrate-sim", rest @ ..] => migrate::run(rest),
        ["fleet", rest @ ..] => fleet::run(rest),
        ["campaign", rest @ ..] => campaign::run(rest),
        ["house", rest @ ..] => house::run(rest),
        ["vectors", folder] => vectors::write(folder.as_ref()).map(|()| true),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}

/// The repository that `cargo run` was called in; for the bare program, the one it was built in.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
        .join("..")
}

#[expect(clippy::print_stdout, reason = "the chores' output")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "people read this")]
fn complain(text: &str) {
    eprintln!("xtask: {text}");
}
