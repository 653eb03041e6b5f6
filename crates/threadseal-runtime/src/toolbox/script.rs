//! [`ScriptFile`]: a verified script, as the program that runs it reads it.
//!
//! ```text
//! item ─► verified ─► its bytes in memory ─► descriptor that children inherit ─► /dev/fd/N
//! ```
//! A path to the file of the item would be opened again, after the check: what is there then may be
//! another script. On Linux the memory is sealed against writes (`memfd_create(2)`), so that a
//! program cannot change it for the next one either. Elsewhere it is a pipe, which is read once.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use threadseal_core::error::{Error, ErrorKind};

/// The bytes of a script behind a descriptor. Programs that are started while it lives can read it.
#[derive(Debug)]
pub(crate) struct ScriptFile {
    descriptor: OwnedFd,
}

impl ScriptFile {
    /// # Errors
    /// Kind `External` if the system has no memory or no descriptor left.
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        let descriptor = hold(text).map_err(|error| {
            let text = format!("cannot hold a verified script: {error}");
            Error::new(ErrorKind::External, text).with_source(error)
        })?;
        Ok(Self { descriptor })
    }

    /// Its path for every program that inherits the descriptor.
    pub(crate) fn path(&self) -> String {
        format!("/dev/fd/{}", self.descriptor.as_raw_fd())
    }
}

#[cfg(target_os = "linux")]
fn hold(text: &str) -> std::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::io::Write as _;

    // Without CLOEXEC: children inherit it.
    let descriptor = memfd_create("threadseal-script", MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(descriptor);
    file.write_all(text.as_bytes())?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

#[cfg(not(target_os = "linux"))]
fn hold(text: &str) -> std::io::Result<OwnedFd> {
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::io::Write as _;

    let (reader, mut writer) = std::io::pipe()?;
    fcntl_setfd(&reader, FdFlags::empty())?;
    let bytes = text.as_bytes().to_vec();
    // A program need not read its script to the end.
    std::thread::spawn(move || writer.write_all(&bytes));
    Ok(reader.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Command;

    // T-TOL-12
    #[test]
    fn programs_read_the_bytes_and_cannot_change_them() {
        let script = ScriptFile::new("echo one\n").unwrap();
        for _ in 0..2 {
            let ran = Command::new("/bin/sh").arg(script.path()).output().unwrap();
            assert_eq!(ran.stdout, b"one\n");
        }
        let write = format!("echo echo two > {}", script.path());
        let ran = Command::new("/bin/sh").args(["-c", &write]).output();
        assert!(!ran.unwrap().status.success());
        let mut text = String::new();
        let mut again = File::open(script.path()).unwrap();
        again.read_to_string(&mut text).unwrap();
        assert_eq!(text, "echo one\n");
    }
}
