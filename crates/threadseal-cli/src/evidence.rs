//! `verify --evidence`: evidence of two histories, written into a file.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::record;
use crate::render::clean::Clean;
use std::path::{Path, PathBuf};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::sys::path_text;

use threadseal_verify::evidence::find;

pub(crate) use threadseal_verify::evidence::{LogKey, of_lineage};

/// Writes the first evidence that `paths` hold into `to`, a new file, and prints what it found; true if there was some.
///
/// # Errors
/// When a file cannot be read, or `to` not be written.
pub(crate) fn write(paths: &[PathBuf], to: &Path, context: &Context) -> Result<bool, Failure> {
    let stores = record::stores();
    let Some(found) = find(paths, &stores, &*context.fs, context.now()?, context)? else {
        complain(
            "note: no evidence was written: no key sealed two histories of one of these records",
        );
        return Ok(false);
    };
    atomic::create_new(&*context.fs, to, found.text.as_bytes(), PRIVATE_FILE)?;
    let [first, path] = &found.copies;
    let names = [to, first, path].map(path_text);
    let [to, first, path] = names.each_ref().map(|name| Clean(name));
    complain(&format!(
        "note: {to} proves that one key sealed two histories, {first} and {path}; hint: check it with threadseal check-proof, and add it \
         to the log of this home with threadseal log accuse"
    ));
    Ok(true)
}
