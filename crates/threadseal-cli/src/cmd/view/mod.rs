//! `view [SESSION|PATH]…`: a page that shows sessions and verifies them in the browser.
//!
//! ```text
//! view              sessions of this home, threads of the project here       #/
//! view SESSION      the same, opened at it                                   #/s/ID
//! view PATH…        these files, and records in these folders                #/s/file:PATH
//! view ONE OTHER    where two of them part                                   #/compare?a=…&b=…
//! ```
//! The page is for this machine alone, and only reads. It serves until a signal comes.

mod files;
mod home;
mod log;
#[cfg(feature = "agent")]
mod project;

use crate::context::{self, Context};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::project::ProjectArgs;
use crate::sessions::{self, Unlock};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use threadseal_core::encoding::hex;
use threadseal_store::random;
use threadseal_view::shelf::{Several, Shelf};
use threadseal_view::{Token, Viewer};

/// What `view` takes.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// A session, or files and folders; of two, where they part [default: all sessions]
    #[arg(value_name = "SESSION|PATH")]
    what: Vec<PathBuf>,
    /// Port to listen on, of this machine alone [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the address, and open no browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct ViewOutput<'a> {
    schema: &'static str,
    /// It has the token: anyone who has it sees all that the page shows.
    url: &'a str,
}

/// Serves until a signal arrives.
pub(crate) fn run(args: &ViewArgs, context: &Context, out: &mut Out) -> Outcome {
    let end = Arc::<AtomicBool>::default();
    context::cancel_on_interrupt(&end)?;
    let (shelf, place) = shelf_of(args, context)?;
    let token = Token::new(random::array(&context.random)?);
    let mut viewer = Viewer::listen(args.port, token, shelf)?;
    let url = format!("{}{place}", viewer.address());
    if context.json {
        out.json_line(&ViewOutput {
            schema: "threadseal.view/1",
            url: &url,
        });
    } else {
        out.line(&url);
    }
    out.flush();
    if !args.no_open {
        let ticket = Token::new(random::array(&context.random)?);
        let once = format!("{}{place}", viewer.address_once(ticket));
        open_browser(&once, context);
    }
    if !context.quiet {
        complain("note: the page is for this machine alone; Ctrl-C ends it");
    }
    viewer.serve(&end)?;
    Ok(Exit::Done)
}

/// All that the page shows, and where it is opened.
fn shelf_of(args: &ViewArgs, context: &Context) -> Result<(Arc<dyn Shelf>, String), Failure> {
    let mut shelves: Vec<Arc<dyn Shelf>> = Vec::new();
    let mut opened = Vec::new();
    let mut paths = Vec::new();
    for named in &args.what {
        match session(named, context)? {
            Some(id) => opened.push(id),
            None => paths.push(named.clone()),
        }
    }
    if !paths.is_empty() {
        let files = files::Files::find(&paths, context)?;
        opened.extend(files.ids());
        shelves.push(Arc::new(files));
    }
    let not_only_files = paths.len() < args.what.len() || args.what.is_empty();
    if not_only_files && context.home()?.is_some() {
        shelves.push(Arc::new(home::OfHome::open(&args.passphrase, context)?));
    }
    #[cfg(feature = "agent")]
    if not_only_files && let Some(project) = project::OfProject::find(&args.project, context)? {
        shelves.push(Arc::new(project));
    }
    if shelves.is_empty() {
        return Err(Failure::new(
            "there is nothing to view: no home, no project, no file; hint: threadseal view FILE",
        ));
    }
    let place = match (args.what.len(), opened.as_slice()) {
        (1, [only]) => format!("#/s/{}", spelled(only)),
        (2, [one, other]) => format!("#/compare?a={}&b={}", spelled(one), spelled(other)),
        _ => String::new(),
    };
    Ok((Arc::new(Several::new(shelves)), place))
}

/// The session or thread that an argument names, if it is no path.
fn session(named: &Path, context: &Context) -> Result<Option<String>, Failure> {
    let Some(found) = sessions::named(named, context)? else {
        return Ok(None);
    };
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Never, context)?;
    Ok(sessions::find(&archive, &found.session)?.map(|id| id.to_string()))
}

/// An id in an address: all but letters and digits as `%xx`.
fn spelled(id: &str) -> String {
    let mut text = String::new();
    for byte in id.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{}", hex(&[byte]))),
        }
    }
    text
}

/// Opens the page in the browser that the desktop has; without one the address is enough.
fn open_browser(url: &str, context: &Context) {
    let programs: &[&str] = match () {
        () if cfg!(target_os = "macos") => &["open"],
        () if cfg!(windows) => &["explorer"],
        () => &["xdg-open", "wslview"],
    };
    if !context.has_desktop() {
        return;
    }
    let begun = programs.iter().any(|program| {
        let mut command = Command::new(program);
        command
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().is_ok()
    });
    if !begun && !context.quiet {
        complain("note: no browser was found; open the address in one");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_part_of_an_address() {
        assert_eq!(
            spelled("claude-code:3f9c/a b#é"),
            "claude-code%3a3f9c%2fa%20b%23%c3%a9"
        );
    }
}
