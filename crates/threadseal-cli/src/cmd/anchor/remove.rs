//! `anchor remove`: stops asking a policy or an authority.

use super::{AUTHORITY, POLICY, path_of};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use clap::Args;
use std::io;
use threadseal_store::home::KeyFileName;

/// What `anchor remove` takes.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Its name, as `anchor list` prints it
    #[arg(value_name = "NAME")]
    name: String,
}

/// Deletes its file.
pub(super) fn run(args: &RemoveArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let unknown = || {
        Failure::new(format!(
            "there is no policy or authority {:?}; hint: threadseal anchor list",
            args.name
        ))
    };
    let name = KeyFileName::parse(&args.name).map_err(|_| unknown())?;
    let mut is_gone = false;
    for ending in [POLICY, AUTHORITY] {
        let path = path_of(&home, name.as_str(), ending);
        match context.fs.unlink(&path) {
            Ok(()) => is_gone = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::io("remove", &path, &error)),
        }
    }
    if !is_gone {
        return Err(unknown());
    }
    if context.json {
        let value =
            serde_json::json!({"schema": "threadseal.anchor.remove/1", "name": name.as_str()});
        out.json(&value);
    } else if !context.quiet {
        out.line(format_args!("removed: {name}"));
    }
    Ok(Exit::Done)
}
