//! Passphrases of private keys: from a file, or from a prompt on the terminal.

use crate::exit::{Failure, io_reason};
use clap::Args;
use std::path::{Path, PathBuf};
use threadseal_core::limits::MAX_PASSPHRASE_BYTES;
use threadseal_store::read::read_small;
use threadseal_store::sys::RealFs;
use zeroize::Zeroizing;

/// Where a passphrase comes from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PassphraseArgs {
    /// File with the passphrase of the private key in its first line; `prompt` asks for it
    #[arg(long, value_name = "FILE|prompt")]
    passphrase_file: Option<PathBuf>,
    /// The command that cannot ask.
    #[arg(skip)]
    asks_no_one: Option<&'static str>,
}

impl PassphraseArgs {
    /// From this file; without one, from a prompt where a passphrase is needed.
    #[cfg(feature = "backup")]
    pub(crate) fn of_file(path: Option<&Path>) -> Self {
        Self {
            passphrase_file: path.map(Path::to_owned),
            asks_no_one: None,
        }
    }

    /// The passphrase of a new backup: from the file, or else from a prompt.
    ///
    /// # Errors
    /// As [`PassphraseArgs::for_new_key`].
    #[cfg(feature = "backup")]
    pub(crate) fn for_new_backup(&self) -> Result<Zeroizing<String>, Failure> {
        match &self.passphrase_file {
            Some(path) if !is_prompt(path) => read(path),
            _ => ask_twice("Passphrase for the backup: "),
        }
    }

    /// Of a page that is encrypted: from this file; without one, from a prompt.
    #[cfg(feature = "view")]
    pub(crate) fn of_page(path: Option<&Path>) -> Self {
        Self {
            passphrase_file: path.map(Path::to_owned),
            asks_no_one: None,
        }
    }

    /// The passphrase of a new page: from the file, or else from a prompt.
    ///
    /// # Errors
    /// As [`PassphraseArgs::for_new_key`].
    #[cfg(feature = "view")]
    pub(crate) fn for_new_page(&self) -> Result<Zeroizing<String>, Failure> {
        match &self.passphrase_file {
            Some(path) if !is_prompt(path) => read(path),
            _ => ask_twice("Passphrase for the page: "),
        }
    }

    /// For a program that must not ask: only keys without a passphrase are opened.
    #[cfg(feature = "capture")]
    pub(crate) fn none() -> Self {
        Self {
            passphrase_file: None,
            asks_no_one: Some("threadseal watch"),
        }
    }

    /// The same for a `command` that must not ask, since its input is not for answers.
    pub(crate) fn without_prompt(&self, command: &'static str) -> Self {
        Self {
            asks_no_one: Some(command),
            ..self.clone()
        }
    }

    /// The passphrase to protect a new key with, if one was requested.
    ///
    /// # Errors
    /// When the file cannot be read, there is no terminal, or the two answers differ.
    pub(crate) fn for_new_key(&self) -> Result<Option<Zeroizing<String>>, Failure> {
        match &self.passphrase_file {
            None => Ok(None),
            Some(path) if is_prompt(path) => ask_twice("Passphrase for the new key: ").map(Some),
            Some(path) => read(path).map(Some),
        }
    }

    /// The passphrase of the existing key `name`: from the file, or else from a prompt.
    ///
    /// # Errors
    /// As [`PassphraseArgs::for_new_key`].
    pub(crate) fn for_existing_key(&self, name: &str) -> Result<Zeroizing<String>, Failure> {
        match &self.passphrase_file {
            Some(path) if !is_prompt(path) => read(path),
            _ => match self.asks_no_one {
                Some(command) => Err(Failure::new(format!(
                    "the key {name} has a passphrase, and no one can be asked; hint: {command} --passphrase-file FILE"
                ))),
                None => ask(&format!("Passphrase of {name}: ")),
            },
        }
    }
}

fn is_prompt(path: &Path) -> bool {
    path == Path::new("prompt")
}

fn ask_twice(question: &str) -> Result<Zeroizing<String>, Failure> {
    let first = ask(question)?;
    let second = ask("Once more: ")?;
    match first == second {
        true => Ok(first),
        false => Err(Failure::new("the two passphrases differ")),
    }
}

fn ask(question: &str) -> Result<Zeroizing<String>, Failure> {
    rpassword::prompt_password(question)
        .map(Zeroizing::new)
        .map_err(|error| {
            Failure::new(format!(
                "cannot ask for the passphrase ({}); hint: --passphrase-file",
                io_reason(&error)
            ))
        })
}

fn read(path: &Path) -> Result<Zeroizing<String>, Failure> {
    // The limit leaves room for the line end and for a remark below the first line.
    let bytes = Zeroizing::new(read_small(&RealFs, path, 2 * MAX_PASSPHRASE_BYTES)?);
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Failure::new(format!("{}: not UTF-8 text", path.display())))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(Failure::new(format!(
            "{}: the passphrase is empty",
            path.display()
        )));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_file_counts_without_its_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        for text in ["geheim süß", "geheim süß\n", "geheim süß\r\nremark\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).unwrap().as_str(), "geheim süß");
        }
        std::fs::write(&path, "\nsecond").unwrap();
        assert!(read(&path).is_err());
    }
}
