//! [`RecordName`]: the name of a record in its store, alone or after the address of the store.

use std::fmt;
use threadseal_core::error::Error;

/// Longest name of a record in bytes. Its hex is one part of a name, and file systems allow 255
/// bytes.
pub const MAX_RECORD_NAME_BYTES: usize = 120;

/// The name of a record in its store. It is not sealed: the first line identifies the record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName(String);

impl RecordName {
    /// Takes 1 to [`MAX_RECORD_NAME_BYTES`] bytes that do not begin with `.`. They contain neither
    /// `/`, `\`, `#` nor a control character.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] for anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_name = (1..=MAX_RECORD_NAME_BYTES).contains(&text.len())
            && !text.starts_with('.')
            && !text
                .chars()
                .any(|c| c.is_control() || matches!(c, '/' | '\\' | '#'));
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid(format!(
                "the name of a record has 1 to {MAX_RECORD_NAME_BYTES} bytes, does not begin with a dot \
                 and holds neither slash, backslash, # nor control characters"
            ))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of a store, and the record in it that is meant, if one is.
///
/// A name never contains `#`. A folder may; a `#` at the end of its address distinguishes it.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for a text after `#` that is no name.
pub fn split_address(address: &str) -> Result<(&str, Option<RecordName>), Error> {
    match address.rsplit_once('#') {
        None => Ok((address, None)),
        Some((store, "")) => Ok((store, None)),
        Some((store, name)) => Ok((store, Some(RecordName::parse(name)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_store_and_perhaps_a_record() {
        let name = |text| Some(RecordName::parse(text).unwrap());
        for (address, store, record) in [
            ("s3://b/p", "s3://b/p", None),
            ("s3://b/p#", "s3://b/p", None),
            ("s3://b/p#a b.1", "s3://b/p", name("a b.1")),
            ("file:/x#y#z", "file:/x#y", name("z")),
        ] {
            assert_eq!(split_address(address).unwrap(), (store, record));
        }
        assert!(split_address("s3://b/p#.hidden").is_err());
    }
}
