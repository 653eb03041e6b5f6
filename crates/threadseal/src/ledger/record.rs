//! What names a run and its records.

use crate::error::Error;
use crate::limits::MAX_RUN_ID_BYTES;
use std::fmt;

/// The name of a run: any text of 1 to [`MAX_RUN_ID_BYTES`] bytes without NUL, CR and LF; mostly a
/// UUID. Stores that make a path of it check it further.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`] when it is empty, too long, or holds NUL, CR or LF.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() || text.len() > MAX_RUN_ID_BYTES || text.contains(['\0', '\r', '\n']) {
            return Err(Error::invalid(format!(
                "a run id has 1 to {MAX_RUN_ID_BYTES} bytes, none of them NUL, CR or LF"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_one_line_of_bounded_length() {
        for good in [
            "0",
            "3f2c-run",
            "entity/ü:diary",
            "..",
            &"x".repeat(MAX_RUN_ID_BYTES),
        ] {
            assert_eq!(RunId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "a\rb", "a\0", &"x".repeat(MAX_RUN_ID_BYTES + 1)] {
            assert!(RunId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
