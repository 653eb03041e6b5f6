//! The log of this home: its place, its key, and the warnings about it when a command ends.

use crate::context::{Context, mark_settings};
use crate::exit::{Failure, complain};
use crate::keyring::Keyring;
use crate::render::clean::Clean;
use crate::render::text::counted;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::ErrorKind;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_log::{
    Description, LogHome, LogKey, LogRegistry, MarkReport, SealLog, Standing, machine,
};
use threadseal_store::home::Home;
use threadseal_verify::home_log::HomeLog;

/// Looks for the log of `home`, and warns when it cannot vouch that the heads known here are the
/// latest.
///
/// # Errors
/// When the home has no name.
pub(crate) fn home_log(home: &Home, context: &Context) -> Result<HomeLog, Failure> {
    let places = places(home, context)?;
    let log = match places.current() {
        Ok(None) => HomeLog::Never,
        Ok(Some(description)) => HomeLog::There(Arc::new(of(home, places, description, context)?)),
        Err(error) if error.kind() == ErrorKind::Refused => HomeLog::Missing(error.to_string()),
        Err(error) => HomeLog::Damaged(error.to_string()),
    };
    if let Some(warning) = warning(&log) {
        complain(&format!("warning: {warning}"));
    }
    Ok(log)
}

fn warning(log: &HomeLog) -> Option<String> {
    let why = match log {
        HomeLog::Never => return None,
        HomeLog::Missing(why) | HomeLog::Damaged(why) => why.clone(),
        HomeLog::There(log) => match log.standing() {
            Standing::Good => return None,
            Standing::Damaged(why) => why,
            Standing::Faulty(fault) => format!(
                "{}: {fault}; the known heads of records may be outdated; hint: threadseal log status",
                fault.code()
            ),
            Standing::MarkUnread(why) => unread(&log.mark_states(), &why),
            Standing::MarkGone => {
                "the second place of the log is gone, so a rollback of the log would not be detected"
                    .to_owned()
            }
        },
    };
    Some(why)
}

/// What it is worth that second places cannot be asked, where others may have been.
fn unread(states: &[MarkReport], why: &str) -> String {
    let silent: Vec<String> = states
        .iter()
        .filter(|state| state.tree.is_err())
        .map(|state| state.place.to_string())
        .collect();
    if !states.iter().any(|state| matches!(state.tree, Ok(Some(_)))) {
        return format!(
            "the second place of the log cannot be read, so a rollback of the log would not be detected: {why}"
        );
    }
    let (all, do_not) = (states.len(), if silent.len() == 1 { "does" } else { "do" });
    format!(
        "{} of {all} second places {do_not} not answer ({}): new heads wait in the spool; sealed records are safe",
        silent.len(),
        Clean(&silent.join(", "))
    )
}

/// Longest wait of a command for second places that do not answer at once.
pub(crate) const MAX_RAISE_WAIT: Duration = Duration::from_secs(30);
/// Longest wait at the end of a command for another process that is in the log.
const MAX_LAST_WAIT: Duration = Duration::from_secs(1);

/// Where the logs of `home` are, and its second place.
pub(crate) fn places(home: &Home, context: &Context) -> Result<LogRegistry, Failure> {
    let (mark, elsewhere) = context.mark_paths(home)?;
    Ok(LogRegistry::new(LogHome {
        fs: Arc::clone(&context.fs),
        path: home.path().to_owned(),
        mark,
        elsewhere,
        host: machine(&*context.fs),
        settings: mark_settings(),
    }))
}

/// The log of `home`; None where it never had one.
///
/// # Errors
/// When there was one and it is gone, or it cannot be read.
pub(crate) fn open(home: &Home, context: &Context) -> Result<Option<SealLog>, Failure> {
    let places = places(home, context)?;
    match places.current()? {
        None => Ok(None),
        Some(description) => of(home, places, description, context).map(Some),
    }
}

/// The log that `description` is of.
pub(crate) fn of(
    home: &Home,
    places: LogRegistry,
    description: Description,
    context: &Context,
) -> Result<SealLog, Failure> {
    let key = key(home, &description)?;
    let random = Arc::new(context.random);
    Ok(SealLog::open(places, description, key, random))
}

/// The key of a log; None where its private half is not here.
fn key(home: &Home, description: &Description) -> Result<Option<LogKey>, Failure> {
    let keyring = Keyring::of(home);
    let own = keyring.get(&description.id.key_name())?;
    let Some(own) = own.filter(|own| own.has_private && own.public == description.key) else {
        return Ok(None);
    };
    // No one is there to be asked for a passphrase when a head is written down.
    let pem = keyring.private_pem(&own.file)?;
    let private = PrivateKey::from_pem(&pem)
        .map_err(|error| Failure::new(format!("the key of the log, {}: {error}", own.name)))?;
    let signer = LocalSigner::new(private, KeyUsage::Log);
    Ok(Some(LogKey(Arc::new(signer))))
}

/// Does the home have the key of this log?
pub(crate) fn has_key(home: &Home, description: &Description) -> bool {
    key(home, description).is_ok_and(|key| key.is_some())
}

/// Writes the second place of a log again where it is gone, after a crash or a deletion; returns
/// whether it did. A log that commits nothing, and one whose second place cannot be read, are
/// left for `log status`.
///
/// # Errors
/// When the log cannot be read or the second place cannot be written.
pub(crate) fn mend(
    home: &Home,
    places: &LogRegistry,
    description: &Description,
    context: &Context,
) -> Result<bool, Failure> {
    let log = of(home, places.clone(), description.clone(), context)?;
    let lacking = log
        .marks()
        .is_ok_and(|marks| marks.iter().all(Option::is_none));
    let good = log.fault().is_ok_and(|fault| fault.is_none());
    if lacking && good {
        log.fold()?;
    }
    Ok(lacking && good)
}

/// Commits the waiting heads, and reports those that could not be, or must not. No command fails by
/// it: the records are sealed.
pub(crate) fn settle(log: &SealLog) {
    let published = log.flush_within(MAX_LAST_WAIT);
    if let Some(error) = published.error {
        match published.waiting {
            0 => complain(&format!(
                "warning: the log was written, but its second place was not: {error}"
            )),
            waiting => complain(&format!(
                "warning: {} to be written to the log: {error}",
                counted(waiting as u64, "head waits", "heads wait")
            )),
        }
    }
    if published.set_aside > 0 {
        complain(&format!(
            "warning: {}, because no evidence shows that this home wrote them; of each record that they name, the newest known head \
             was logged; hint: threadseal log status",
            set_aside_text(published.set_aside)
        ));
    }
    for fork in published.forks {
        let (logged, refused) = (fork.logged.head, fork.refused.head);
        complain(&format!(
            "warning: forked: the log contains seal {logged}, but {refused} has the same number; hint: threadseal verify"
        ));
    }
}

/// That so many lines were set aside.
pub(crate) fn set_aside_text(lines: usize) -> String {
    match lines {
        1 => "1 line that waited for the log was set aside".to_owned(),
        lines => format!("{lines} lines that waited for the log were set aside"),
    }
}
