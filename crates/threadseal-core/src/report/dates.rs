//! When a record was sealed, held and stamped (`spec/report.md` §1, "Dates").

use crate::time::Timestamp;
use serde::Serialize;
use serde::ser::SerializeStruct as _;

/// The moments that are known of a record, each by another clock. No verdict depends on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dates {
    /// When the seal of the report's head was made, by the clock of its signer: a claim, which a signature covers.
    pub sealed: Option<Timestamp>,
    /// When this host first stored a head of the record.
    pub first_held: Option<Timestamp>,
    /// When this host last stored one.
    pub last_held: Option<Timestamp>,
    /// By when an authority of this home had stamped the log with that head in it.
    pub stamped: Option<Timestamp>,
}

/// In whole seconds of UTC; null where it is not known.
impl Serialize for Dates {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |moment: Option<Timestamp>| moment.map(Timestamp::to_iso_seconds);
        let mut members = serializer.serialize_struct("Dates", 4)?;
        members.serialize_field("sealed", &text(self.sealed))?;
        members.serialize_field("first_held", &text(self.first_held))?;
        members.serialize_field("last_held", &text(self.last_held))?;
        members.serialize_field("stamped", &text(self.stamped))?;
        members.end()
    }
}
