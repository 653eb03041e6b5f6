//! The user's keyring as a second place, over one in memory: what it takes, and what becomes of a log whose keyring misbehaves.

use super::prelude::*;
use crate::marks::keyring_mark::{KeyringMark, Late, Vault};
use crate::marks::mark_state::{RemoteMark as _, UpdateResult};
use std::sync::MutexGuard;

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

fn over(vault: &Arc<Memory>, scene: &InMemory, longest: Duration) -> KeyringMark {
    KeyringMark::over(
        Arc::clone(vault) as _,
        scene.home(),
        &scene.current(),
        longest,
    )
}

/// A log that has the first heads of these records.
fn published(records: Range<u8>) -> (InMemory, SealLog) {
    let scene = in_memory();
    let log = scene.open();
    log.commit_heads(records.map(|record| head(record, 0)));
    (scene, log)
}

fn view(scene: &InMemory) -> Result<LogView, Error> {
    let description = scene.current();
    LogView::read(&scene.home().dir(description.id), &description)
}

#[track_caller]
fn assert_updated(result: &Result<UpdateResult, Error>) {
    assert!(matches!(result, Ok(UpdateResult::Updated(_))), "{result:?}");
}

#[track_caller]
fn assert_contradicted(result: &Result<UpdateResult, Error>) {
    let is_so = matches!(result, Ok(UpdateResult::Contradicted(_)));
    assert!(is_so, "{result:?}");
}

const PATIENT: Duration = Duration::from_secs(60);

// T-MARK-15
#[test]
fn a_keyring_takes_what_continues_it_and_nothing_else() {
    let (scene, log) = published(0..2);
    let vault = Arc::new(Memory::default());
    let mark = over(&vault, &scene, PATIENT);
    let description = log.description();
    assert!(mark.read(description).unwrap().known.is_none());
    let raise = |from: &InMemory| mark.update(description, &|| view(from));
    let first = view(&scene).unwrap();
    assert_updated(&raise(&scene));
    log.commit_heads([head(2, 0), head(3, 0)]);
    assert_updated(&raise(&scene));
    let newest = vault.held().clone();
    assert!(newest.is_some());
    // Raised again nothing changes.
    assert_updated(&raise(&scene));
    // A log that went back, and one that signed other entries, do not replace it.
    let first = Mutex::new(Some(first));
    let older = mark.update(description, &|| Ok(first.lock().unwrap().take().unwrap()));
    assert_contradicted(&older);
    for other in [published(0..2).0, published(7..14).0] {
        assert_contradicted(&raise(&other));
    }
    assert_eq!(*vault.held(), newest);
    let known = mark.read(description).unwrap().known.unwrap();
    assert_eq!(known.1, log.tree());
    // What has ended has ended.
    mark.end(description).unwrap();
    mark.end(description).unwrap();
    assert!(mark.read(description).unwrap().ended);
    assert_contradicted(&raise(&scene));
}

// T-MARK-15
#[test]
fn a_keyring_that_hangs_is_given_up_and_changes_nothing_until_it_answers_again() {
    let (scene, log) = published(0..2);
    let vault = Arc::new(Memory::default());
    let mark = over(&vault, &scene, Duration::from_millis(20));
    let description = log.description();
    let hung = vault.hung.lock().unwrap();
    let first = mark.read(description).unwrap_err();
    assert!(first.to_string().contains("in time"), "{first}");
    // No further thread waits for it.
    let next = mark.update(description, &|| view(&scene)).unwrap_err();
    assert!(next.to_string().contains("yet"), "{next}");
    assert!(mark.can_end().is_err());
    assert!(mark.end(description).is_err());
    // Nor does another one who looks there, however long he would.
    let other = over(&vault, &scene, PATIENT);
    assert!(other.can_end().unwrap_err().to_string().contains("yet"));
    assert_eq!(*vault.held(), None);
    drop(hung);
    let mut raised = std::iter::repeat_with(|| mark.update(description, &|| view(&scene)));
    assert_updated(&raised.find(Result::is_ok).unwrap());
}

/// Who raises it elsewhere must not come in between: the lock is given back by the call that was given up, once that ends.
// T-MARK-15
#[test]
fn a_call_that_was_given_up_keeps_its_lock_until_it_ends() {
    let (scene, log) = published(0..2);
    let vault = Arc::new(Memory::default());
    let impatient = over(&vault, &scene, Duration::from_millis(20));
    let description = log.description();
    let hung = vault.hung.lock().unwrap();
    assert!(impatient.update(description, &|| view(&scene)).is_err());
    drop(hung);
    let elsewhere = Arc::new(Memory::default());
    let other = over(&elsewhere, &scene, PATIENT);
    assert_updated(&other.update(description, &|| view(&scene)));
}

// T-MARK-15
#[test]
fn a_keyring_that_keeps_nothing_or_something_else_is_no_second_place() {
    let (scene, log) = published(0..2);
    let description = log.description();
    let forgets = Arc::new(Memory {
        forgets: true,
        ..Memory::default()
    });
    let mark = over(&forgets, &scene, PATIENT);
    let refused = mark.update(description, &|| view(&scene)).unwrap_err();
    assert!(refused.to_string().contains("keep"), "{refused}");
    assert!(mark.end(description).is_err());
    let vault = Arc::new(Memory::default());
    let mark = over(&vault, &scene, PATIENT);
    for bad in [&b""[..], b"a password", b"threadseal/1 mark\n", b"\xff\xfe"] {
        *vault.held() = Some(bad.to_vec());
        assert!(mark.read(description).is_err());
        assert!(mark.update(description, &|| view(&scene)).is_err());
        assert_eq!(vault.held().as_deref(), Some(bad));
    }
    // It does not stand in the way out.
    mark.end(description).unwrap();
    assert!(mark.read(description).unwrap().ended);
}
