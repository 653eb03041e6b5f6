//! Rows of registries, which may contain any values.
//!
//! SQLite's columns take values of any type, and files may come from elsewhere. A value of an
//! unexpected type is read as absent, and [`super::inspect`] reports it.

use super::Thread;
use crate::money::Nanos;
use crate::status::Status;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use threadseal_core::record::{RecordId, ThreadId};

/// The thread of a row that [`super::schema::select`] selected; None when its id must not become a
/// path.
pub(super) fn thread(row: &Row<'_>) -> rusqlite::Result<Option<Thread>> {
    let text = |column: usize| row.get_ref(column).map(text_of);
    let count = |column: usize| {
        row.get_ref(column)
            .map(|value| count_of(value).unwrap_or(0))
    };
    let Some(id) = text(0)?.and_then(|id| ThreadId::parse(&id).ok()) else {
        return Ok(None);
    };
    let word = text(3)?.unwrap_or_default();
    let nanos = row.get_ref(18)?;
    let record = text(20)?.and_then(|hex| RecordId::parse_hex(&hex));
    Ok(Some(Thread {
        id,
        directive: text(1)?.unwrap_or_default(),
        parent: text(2)?,
        status: Status::parse(&word).ok_or(word),
        created_at: text(4)?,
        updated_at: text(5)?,
        completed_at: text(6)?,
        result: text(7)?,
        turns: count(8)?,
        input_tokens: count(9)?,
        output_tokens: count(10)?,
        spend: spend(nanos, row.get_ref(11)?),
        spawns: count(12)?,
        pid: count_of(row.get_ref(13)?).and_then(|pid| u32::try_from(pid).ok()),
        model: text(14)?,
        continuation_of: text(15)?,
        continuation: text(16)?,
        chain_root: text(17)?,
        process_started: text(19)?,
        record,
        fence: count(21)?,
    }))
}

/// Our own amount where there is one, else Rye's double.
fn spend(nanos: ValueRef<'_>, real: ValueRef<'_>) -> Nanos {
    let ours = count_of(nanos).and_then(Nanos::new);
    ours.or_else(|| real_of(real)).unwrap_or_default()
}

/// The amount of a column of Rye.
pub(crate) fn real_of(value: ValueRef<'_>) -> Option<Nanos> {
    match value {
        ValueRef::Real(dollars) => Nanos::from_real(dollars).ok(),
        ValueRef::Integer(dollars) => {
            let dollars = u64::try_from(dollars).ok()?;
            dollars
                .checked_mul(crate::money::NANOS_PER_DOLLAR)
                .and_then(Nanos::new)
        }
        _ => None,
    }
}

/// A text; None for NULL and for values of other types.
pub(crate) fn text_of(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// A number that is not negative.
pub(crate) fn count_of(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    }
}
