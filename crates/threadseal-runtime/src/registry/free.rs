//! Registers a thread under a free id: `<name>-<milliseconds since 1970>`.

use super::{NewThread, Registry};
use crate::bounds::MAX_ID_ATTEMPTS;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// Registers `new` under the first free id from `at` on; the id of `new` is ignored. None when too
/// many begin at this moment.
///
/// # Errors
/// As [`Registry::create`].
pub(crate) fn create_free(
    registry: &dyn Registry,
    name: &str,
    new: &NewThread<'_>,
    at: Timestamp,
) -> Result<Option<ThreadId>, Error> {
    let first = at.as_micros() / 1000;
    for millis in first..first + MAX_ID_ATTEMPTS {
        let id = ThreadId::parse(&format!("{name}-{millis}"))?;
        if registry.get(&id)?.is_some() {
            continue;
        }
        let named = NewThread {
            id: &id,
            ..new.clone()
        };
        let Err(error) = registry.create(&named, at) else {
            return Ok(Some(id));
        };
        // Another process may have taken the id between the two calls.
        let row = registry.get(&id)?;
        if row.is_none_or(|row| row.record == new.record) {
            return Err(error);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Origin, SqliteRegistry};
    use std::collections::BTreeSet;
    use std::thread;
    use threadseal_core::record::RecordId;

    #[test]
    fn threads_that_begin_in_one_millisecond_each_have_an_id_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.db");
        SqliteRegistry::open(&path).unwrap();
        let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
        let nobody = ThreadId::parse("demo/x").unwrap();
        let ids = thread::scope(|scope| {
            let begun: Vec<_> = (0..6_u8)
                .map(|process| {
                    let (path, nobody) = (&path, &nobody);
                    scope.spawn(move || {
                        let registry = SqliteRegistry::open(path).unwrap();
                        let ids = (0..20_u8).map(|number| {
                            let new = NewThread {
                                id: nobody,
                                directive: "demo/x",
                                origin: Origin::Root,
                                model: None,
                                record: Some(RecordId::from_bytes([process * 20 + number; 32])),
                                process: None,
                                most_running: None,
                            };
                            create_free(&registry, "demo/x", &new, at).unwrap().unwrap()
                        });
                        ids.collect::<Vec<_>>()
                    })
                })
                .collect();
            let ids = begun.into_iter().flat_map(|one| one.join().unwrap());
            ids.collect::<BTreeSet<_>>()
        });
        assert_eq!(ids.len(), 120);
    }
}
