//! The errors of a Unix disk, as Windows numbers them (winerror.h).

use std::io;

pub(super) struct Errno(i32);

impl Errno {
    pub(super) const BADF: Self = Self(6);
    pub(super) const ROFS: Self = Self(19);
    pub(super) const INVAL: Self = Self(87);
    pub(super) const NOSPC: Self = Self(112);
    pub(super) const IO: Self = Self(1117);
    /// Of sockets; files know no interruption here.
    pub(super) const INTR: Self = Self(10004);
}

impl From<Errno> for io::Error {
    fn from(error: Errno) -> Self {
        Self::from_raw_os_error(error.0)
    }
}
