//! What the commands of capture share: the machine, this program, the home, and the question before a
//! change.

use crate::context::Context;
use crate::exit::Failure;
use clap::Args;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use threadseal_capture::agent::machine::Machine;
use threadseal_capture::install::Journal;

/// The folder of capture in a home.
const FOLDER: &str = "capture";
/// The default home in a user's folder.
const DEFAULT_HOME: &str = ".local/share/threadseal";
/// The name of this program.
const PROGRAM: &str = "threadseal";
/// How much of an answer is read.
const MAX_ANSWER: u64 = 100;

/// The machine, this program, and the home, which need not exist.
pub(crate) struct Setup {
    /// The machine.
    pub(crate) machine: Machine,
    /// This program, by the name that stays after an upgrade.
    pub(crate) program: PathBuf,
    /// The home.
    pub(crate) home: PathBuf,
}

impl Setup {
    /// Reads the environment.
    ///
    /// # Errors
    /// When no home or user's folder is known, or this program has no path.
    pub(crate) fn new(context: &Context) -> Result<Self, Failure> {
        let machine = context.machine()?;
        let program = this_program(&machine, context)?;
        let home = context.home_path()?;
        let home =
            std::path::absolute(&home).map_err(|error| Failure::io("find", &home, &error))?;
        Ok(Self {
            machine,
            program,
            home,
        })
    }

    /// The folder of capture in the home.
    pub(crate) fn folder(&self) -> PathBuf {
        self.home.join(FOLDER)
    }

    /// The home, unless any process of this user finds it. Variables of this shell do not count: an
    /// agent or a service may not have them.
    pub(crate) fn named_home(&self) -> Option<&Path> {
        let default = self.machine.home().join(DEFAULT_HOME);
        (self.home != default).then_some(self.home.as_path())
    }

    /// The journal of what was installed.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn journal(&self, context: &Context) -> Result<Journal, Failure> {
        Ok(Journal::read(&*context.fs, &self.folder())?)
    }
}

/// A name on the search path that leads to this program outlives an upgrade. A package manager puts
/// each version into a folder of its own.
fn this_program(machine: &Machine, context: &Context) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| {
        let why = crate::exit::io_reason(&error);
        Failure::new(format!("cannot find this program: {why}"))
    };
    let here = std::env::current_exe().map_err(failed)?;
    let real = context.fs.canonicalize(&here).map_err(failed)?;
    let named = machine.program(&*context.fs, PROGRAM, &[]);
    let leads_here = |named: &PathBuf| context.fs.canonicalize(named).is_ok_and(|led| led == real);
    Ok(named.filter(leads_here).unwrap_or(here))
}

/// What a person agrees to beforehand.
#[derive(Debug, Args)]
pub(crate) struct ConsentArgs {
    /// Show the plan and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Change the files without a question
    #[arg(long)]
    pub(crate) yes: bool,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `--yes`, or yes on the terminal.
    Yes,
    /// No on the terminal.
    No,
    /// There is no terminal.
    None,
}

/// Asks once on the terminal, unless `yes` was given.
///
/// # Errors
/// When the terminal fails.
pub(crate) fn ask(question: &str, yes: bool, context: &Context) -> Result<Answer, Failure> {
    if yes {
        return Ok(Answer::Yes);
    }
    if context.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Answer::None);
    }
    let failed = |error: io::Error| Failure::new(format!("cannot ask on the terminal: {error}"));
    let mut terminal = io::stderr().lock();
    write!(terminal, "{question} [y/N] ").map_err(failed)?;
    terminal.flush().map_err(failed)?;
    let mut answer = String::new();
    let mut input = io::stdin().lock().take(MAX_ANSWER);
    input.read_line(&mut answer).map_err(failed)?;
    let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    Ok(if is_yes { Answer::Yes } else { Answer::No })
}

/// `1 session`, `2 sessions`
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
