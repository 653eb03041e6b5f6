//! The user's keyring as a second place, over one in memory: what it takes, and what becomes of a log whose keyring misbehaves.

use super::*;
use crate::marks::keyring_mark::{KeyringMark, Late, Vault};
use crate::marks::mark_state::{RemoteMark as _, UpdateResult};
use std::sync::MutexGuard;
use std::time::Duration;

/// A keyring that may hang, and that may store nothing.
#[derive(Debug, Default)]
struct Memory {
    held: Mutex<Option<Vec<u8>>>,
    hung: Mutex<()>,
    late: Late,
    forgets: bool,
}

impl Memory {
    fn held(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.held.lock().unwrap()
    }
}

impl Vault for Memory {
    fn late(&self) -> &Late {
        &self.late
    }

    fn get(&self) -> Result<Option<Vec<u8>>, Error> {
        let _hung = self.hung.lock().unwrap();
        Ok(self.held().clone())
    }

    fn set(&self, bytes: &[u8]) -> Result<(), Error> {
        if !self.forgets {
            *self.held() = Some(bytes.to_vec());
        }
        Ok(())
    }
}

fn over(vault: &Arc<Memory>, places: &LogRegistry, longest: Duration) -> KeyringMark {
    let description = places.current().unwrap().unwrap();
    KeyringMark::over(Arc::clone(vault) as _, &places.home, &description, longest)
}

fn published(records: std::ops::Range<u8>) -> (LogRegistry, SealLog) {
    let (_, places, key) = in_memory();
    let log = open(&places, &key);
    records.for_each(|record| log.publish(&head(record, 0)));
    flushed(&log);
    (places, log)
}

fn view(places: &LogRegistry) -> Result<LogView, Error> {
    let description = places.current().unwrap().unwrap();
    LogView::read(&places.home.dir(description.id), &description)
}

const PATIENT: Duration = Duration::from_secs(60);

// T-MARK-15
#[test]
fn a_keyring_takes_what_continues_it_and_nothing_else() {
    let (places, log) = published(0..2);
    let vault = Arc::new(Memory::default());
    let mark = over(&vault, &places, PATIENT);
    let description = log.description();
    assert!(mark.read(description).unwrap().known.is_none());
    let raise = |from: &LogRegistry| mark.update(description, &|| view(from)).unwrap();
    let first = view(&places).unwrap();
    assert!(matches!(raise(&places), UpdateResult::Updated(_)));
    (2..4).for_each(|record| log.publish(&head(record, 0)));
    flushed(&log);
    assert!(matches!(raise(&places), UpdateResult::Updated(_)));
    let newest = vault.held().clone();
    assert!(newest.is_some());
    // Raised again nothing changes.
    assert!(matches!(raise(&places), UpdateResult::Updated(_)));
    // A log that went back, and one that signed other entries, do not replace it.
    let first = Mutex::new(Some(first));
    let older = mark.update(description, &|| Ok(first.lock().unwrap().take().unwrap()));
    assert!(
        matches!(older, Ok(UpdateResult::Contradicted(_))),
        "{older:?}"
    );
    for other in [published(0..2).0, published(7..14).0] {
        assert!(matches!(raise(&other), UpdateResult::Contradicted(_)));
    }
    assert_eq!(*vault.held(), newest);
    let said = mark.read(description).unwrap();
    assert_eq!(said.known.unwrap().1, log.view().unwrap().tree());
    // What has ended has ended.
    mark.end(description).unwrap();
    mark.end(description).unwrap();
    assert!(mark.read(description).unwrap().ended);
    assert!(matches!(raise(&places), UpdateResult::Contradicted(_)));
}

// T-MARK-15
#[test]
fn a_keyring_that_hangs_is_given_up_and_changes_nothing_until_it_answers_again() {
    let (places, log) = published(0..2);
    let vault = Arc::new(Memory::default());
    let mark = over(&vault, &places, Duration::from_millis(20));
    let description = log.description();
    let hung = vault.hung.lock().unwrap();
    let first = mark.read(description).unwrap_err();
    assert!(first.to_string().contains("in time"), "{first}");
    // No further thread waits for it.
    let next = mark.update(description, &|| view(&places)).unwrap_err();
    assert!(next.to_string().contains("yet"), "{next}");
    assert!(mark.can_end().is_err());
    assert!(mark.end(description).is_err());
    // Nor does another one who looks there, however long he would.
    let other = over(&vault, &places, PATIENT);
    assert!(other.can_end().unwrap_err().to_string().contains("yet"));
    assert_eq!(*vault.held(), None);
    drop(hung);
    let raised = std::iter::repeat_with(|| mark.update(description, &|| view(&places)));
    let raised = raised.filter_map(Result::ok).next();
    assert!(
        matches!(raised, Some(UpdateResult::Updated(_))),
        "{raised:?}"
    );
}

/// Who raises it elsewhere must not come in between: the lock is given back by the call that was given up, once that ends.
// T-MARK-15
#[test]
fn a_call_that_was_given_up_keeps_its_lock_until_it_ends() {
    let (places, log) = published(0..2);
    let vault = Arc::new(Memory::default());
    let impatient = over(&vault, &places, Duration::from_millis(20));
    let description = log.description();
    let hung = vault.hung.lock().unwrap();
    assert!(impatient.update(description, &|| view(&places)).is_err());
    drop(hung);
    let elsewhere = Arc::new(Memory::default());
    let other = over(&elsewhere, &places, PATIENT);
    let raised = other.update(description, &|| view(&places));
    assert!(matches!(raised, Ok(UpdateResult::Updated(_))), "{raised:?}");
}

// T-MARK-15
#[test]
fn a_keyring_that_keeps_nothing_or_something_else_is_no_second_place() {
    let (places, log) = published(0..2);
    let description = log.description();
    let forgets = Arc::new(Memory {
        forgets: true,
        ..Memory::default()
    });
    let mark = over(&forgets, &places, PATIENT);
    let refused = mark.update(description, &|| view(&places)).unwrap_err();
    assert!(refused.to_string().contains("keep"), "{refused}");
    assert!(mark.end(description).is_err());
    let vault = Arc::new(Memory::default());
    let mark = over(&vault, &places, PATIENT);
    for bad in [&b""[..], b"a password", b"threadseal/1 mark\n", b"\xff\xfe"] {
        *vault.held() = Some(bad.to_vec());
        assert!(mark.read(description).is_err());
        assert!(mark.update(description, &|| view(&places)).is_err());
        assert_eq!(vault.held().as_deref(), Some(bad));
    }
    // It does not stand in the way out.
    mark.end(description).unwrap();
    assert!(mark.read(description).unwrap().ended);
}
