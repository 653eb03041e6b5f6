//! `log publish`: publishes the log where others can read it.

use super::existing;
use crate::context::{Context, object_storage_settings};
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::entries;
use clap::Args;
use serde_json::json;
use threadseal_log::{Compared, Mirrored};
use threadseal_store::objects;

/// What `log publish` takes.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Store: s3://…, gs://…, az://… or object+file:DIR; the environment has the credentials
    #[arg(value_name = "STORE")]
    store: String,
    /// Compare each tile there with the log, and not only some at random; those that differ are repaired
    #[arg(long)]
    check: bool,
}

/// Updates the published copy; exits 1 if it is newer than the log, or a wrong tile there cannot be repaired.
pub(super) fn run(args: &PublishArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let store = objects::open(&args.store, &object_storage_settings())?;
    let schema = "threadseal.log.publish/1";
    let place = store.place();
    let compared = match args.check {
        true => Compared::All,
        false => Compared::Some,
    };
    match log.mirror(&*store, compared)? {
        Mirrored::Brought { from, to, repaired } => {
            if context.json {
                let value = json!({"schema": schema, "place": place, "state": "published",
                                   "from": from, "size": to, "repaired": repaired});
                out.json(&value);
            } else if !context.quiet {
                out.line(format_args!(
                    "published: {}, {} of them new",
                    entries(to),
                    to - from
                ));
            }
            if !context.json && repaired > 0 {
                out.line(format_args!(
                    "repaired: {repaired} tiles there were not those of the log"
                ));
            }
            Ok(Exit::Done)
        }
        Mirrored::Contradicts(tree) => {
            if context.json {
                let value = json!({"schema": schema, "place": place, "state": "contradicted",
                                   "size": tree.size});
                out.json(&value);
            } else {
                out.line(format_args!(
                    "log_rolled_back: {} has {} that this log signed but does not continue; nothing was written",
                    Clean(&place),
                    entries(tree.size)
                ));
            }
            Ok(Exit::Evidence)
        }
        Mirrored::Unrepaired(why) => {
            if context.json {
                let value =
                    json!({"schema": schema, "place": place, "state": "unrepaired", "why": why});
                out.json(&value);
            } else {
                out.line(format_args!(
                    "unrepaired: {}: {}",
                    Clean(&place),
                    Clean(&why)
                ));
            }
            Ok(Exit::Evidence)
        }
    }
}
