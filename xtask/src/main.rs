//! Repository chores of `cargo xtask`: `tidy`, `threats`, `house`, `sweep`, `bench`, `canon`,
//! `vectors`, `migrate-sim`, `fleet`, `campaign`.
#![forbid(unsafe_code)]

mod bench;
mod campaign;
mod canon;
mod console;
mod fleet;
mod house;
mod migrate;
mod sweep;
mod tidy;
mod vectors;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | threats | sweep [--quick] | bench [--quick] [--records | --scroll | --ledger | --lineage | --runtime | --log | --capture | --record | --turns | --pathological] [--write FILE] | canon | vectors FOLDER | migrate-sim [SCHEDULES] | fleet [--load] [--quick] | campaign [--only NAME]... [--fuzz-seconds N] | house [--list] [--root DIR]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["threats"] => tidy::write_threats(),
        ["sweep", rest @ ..] => sweep::run(rest),
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
            console::complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}
