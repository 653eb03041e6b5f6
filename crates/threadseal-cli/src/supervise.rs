//! The hidden command that the runtime starts for each tool: see
//! [`threadseal_runtime::toolbox::supervise`].

use crate::exit::Exit;
use std::ffi::OsString;
use threadseal_runtime::toolbox::{self, Supervisor};

/// Its name. It is in no help: its standard input is a socket of the runtime.
const NAME: &str = "supervise-tool";

/// How the runtime starts it: this program, also where its file was replaced since. What tools left
/// whose supervisor and runtime were killed is ended first.
pub(crate) fn supervisor() -> Supervisor {
    toolbox::end_left_over();
    Supervisor::new(["/proc/self/exe", NAME].map(OsString::from))
}

/// The tool to supervise, where these arguments of the process ask for it.
pub(crate) fn asked(mut arguments: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let is_asked = arguments.nth(1).is_some_and(|name| name == NAME);
    is_asked.then(|| arguments.collect())
}

pub(crate) fn run(tool: &[OsString]) -> Exit {
    match toolbox::supervise(tool) {
        Ok(()) => Exit::Done,
        Err(_) => Exit::NoVerdict,
    }
}
