//! `man [DIR]`: prints manual pages.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::help;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::{Args, Command};
use clap_mangen::Man;
use std::fs;
use std::path::{Path, PathBuf};
use threadseal_store::atomic::{self, Mode, SHARED_FILE};

/// What `man` takes.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for one page per command [default: print the main page]
    dir: Option<PathBuf>,
}

/// Prints one page, or writes all pages.
pub(crate) fn run(
    args: &ManArgs,
    definition: Command,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let root = help::command(definition);
    let Some(dir) = &args.dir else {
        out.bytes(&page(root)?);
        return Ok(Exit::Done);
    };
    fs::create_dir_all(dir).map_err(|error| Failure::io("create", dir, &error))?;
    write_pages(root, dir, context, out)?;
    Ok(Exit::Done)
}

fn write_pages(
    command: Command,
    dir: &Path,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_pages(inner.clone(), dir, context, out)?;
    }
    let man = Man::new(command.clone());
    let path = dir.join(man.get_filename());
    let mode = Mode::KeepOr(SHARED_FILE);
    atomic::replace(&*context.fs, &path, &page(command)?, mode)?;
    if !context.quiet {
        out.line(Clean(&path.to_string_lossy()));
    }
    Ok(())
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::new(format!("cannot render the manual page: {error}")))?;
    Ok(page)
}
