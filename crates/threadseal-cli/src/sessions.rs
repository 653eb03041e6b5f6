//! The sessions of this home for commands: archive and index, opened; ids, states, turns.
//!
//! ```text
//! claude-code:3f9c…   3f9c   3f9c/agent-a7   3f9c#12     ─► Named { session, subagent, turn }
//! ```

use crate::context::Context;
use crate::database_seal;
use crate::exit::Failure;
use crate::passphrase::PassphraseArgs;
use crate::render::text::counted;
use crate::session_seal::session_of;
use crate::verifying;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_capture::agent::places::LogFolder;
use threadseal_capture::archive::{Archive, ArchiveFs, ArchivedLog, Effects, LogName, Secret};
use threadseal_capture::database;
use threadseal_capture::index::{Figures, Index, IndexedLog};
use threadseal_capture::session::{self, Found, SessionId, SessionPrefix};
use threadseal_capture::state::{self, Light, LogState};
use threadseal_capture::{Agent, AgentFolder};
use threadseal_convert as convert;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::PrivateKey;
use threadseal_core::record::parse_decimal;
use threadseal_formats::transcript::observed_proof::ObservedProof;
use threadseal_reader::turns;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::clock::SystemClock;
use threadseal_store::home::Home;
use threadseal_store::observer::seal_path;
use threadseal_store::owned_files::read_private_key_file;
use threadseal_store::random;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_verify::verifier::Verifier;
use zeroize::Zeroizing;

/// Candidates that are shown for an ambiguous prefix.
const MAX_CANDIDATES: usize = 10;
/// Microseconds of a day: no state is older.
const DAY: u64 = 86_400_000_000;
/// The first byte of the seed in igor's form of a key.
const SEED: std::ops::Range<usize> = 4..36;

/// Archive and index of a home.
pub(crate) struct Sessions {
    pub(crate) home: Home,
    pub(crate) archive: Archive,
    pub(crate) index: Index,
}

/// A session with the state that decides: that of its log of which the least is confirmed.
pub(crate) struct JudgedSession {
    pub(crate) id: SessionId,
    pub(crate) logs: Vec<IndexedLog>,
    /// The log whose state it is.
    pub(crate) decided_by: LogName,
    pub(crate) state: LogState,
}

impl JudgedSession {
    /// The session's own log; one of a subagent where that is not archived.
    pub(crate) fn main(&self) -> Option<&IndexedLog> {
        let mut logs = self.logs.iter();
        let main = logs.find(|log| log.name.sub_agent.is_none());
        main.or(self.logs.first())
    }

    /// The state for a person, with the subagent that it is about.
    pub(crate) fn words(&self) -> String {
        match &self.decided_by.sub_agent {
            Some(name) if self.state.kind.light() != Light::Green => {
                format!("{} (subagent {name})", self.state)
            }
            _ => self.state.to_string(),
        }
    }
}

/// Whether a passphrase is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Unlock<'a> {
    /// If the archive's key has one.
    Ask(&'a PassphraseArgs),
    /// Never: content of an archive with a passphrase stays closed.
    Never,
}

/// What a person called a session, a log of it or a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) session: String,
    pub(crate) sub_agent: Option<String>,
    pub(crate) turn: Option<u64>,
}

impl Named {
    pub(crate) fn parse(text: &str) -> Self {
        let (name, turn) = match text.rsplit_once('#') {
            Some((name, turn)) if parse_decimal(turn).is_some() => (name, parse_decimal(turn)),
            _ => (text, None),
        };
        let (session, sub_agent) = match name.split_once('/') {
            Some((session, sub_agent)) => (session, Some(sub_agent.to_owned())),
            None => (name, None),
        };
        Self {
            session: session.to_owned(),
            sub_agent,
            turn,
        }
    }
}

impl Sessions {
    /// The archive and the index of the home, brought up to date.
    ///
    /// # Errors
    /// When there is no home, or one of them cannot be read.
    pub(crate) fn open(unlock: Unlock<'_>, context: &Context) -> Result<Self, Failure> {
        let home = context.existing_home()?;
        let archive = archive(&home, unlock, context)?;
        let mut index = Index::open(&*context.fs, home.path())?;
        index.refresh(&archive)?;
        Ok(Self {
            home,
            archive,
            index,
        })
    }

    /// The session whose id begins with `text`.
    ///
    /// # Errors
    /// When there is none, or several.
    pub(crate) fn find(&self, text: &str) -> Result<SessionId, Failure> {
        find(&self.archive, text)?.ok_or_else(|| none(text))
    }

    /// The log that `named` is.
    ///
    /// # Errors
    /// When there is none; a forgotten session is named as such.
    pub(crate) fn log(&self, named: &Named) -> Result<ArchivedLog, Failure> {
        let id = self.find(&named.session)?;
        log_of(&self.archive, &id, named.sub_agent.as_deref())
    }

    /// The figures of a session, or of the log of a subagent.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn figures(&self, name: &LogName) -> Result<Figures, Failure> {
        let mut logs = self.index.logs()?;
        logs.retain(|log| match name.sub_agent {
            None => log.name.session == name.session,
            Some(_) => log.name == *name,
        });
        Ok(Figures::of(&logs))
    }

    /// The archived sessions that `is_asked` names, by id. With `fresh` each is judged anew.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub(crate) fn judged(
        &self,
        judge: &Judge,
        fresh: bool,
        is_asked: &dyn Fn(&SessionId, &[IndexedLog]) -> bool,
    ) -> Result<Vec<JudgedSession>, Failure> {
        let stamps: BTreeMap<LogName, String> = self.archive.stamps()?.into_iter().collect();
        let mut groups: BTreeMap<SessionId, Vec<IndexedLog>> = BTreeMap::new();
        for log in self.index.logs()? {
            let id = log.name.session.clone();
            groups.entry(id).or_default().push(log);
        }
        let mut judged = Vec::new();
        for (id, logs) in groups {
            if !is_asked(&id, &logs) {
                continue;
            }
            let mut worst: Option<(LogName, LogState)> = None;
            for log in &logs {
                let stamp = stamps.get(&log.name).map(String::as_str);
                let stamp = stamp.filter(|_| !fresh);
                let state = self.state(&log.name, log.source.as_deref(), stamp, judge)?;
                let known = worst.as_ref().map(|(_, known)| known.kind);
                if known.is_none_or(|known| state.kind > known) {
                    worst = Some((log.name.clone(), state));
                }
            }
            judged.extend(worst.map(|(decided_by, state)| JudgedSession {
                id,
                logs,
                decided_by,
                state,
            }));
        }
        Ok(judged)
    }

    /// The state of the log called `name`, whose source is `source`: the kept one if nothing that it
    /// was made on has changed since. Without a stamp of its journal it is made anew.
    ///
    /// # Errors
    /// When the index or the archive fails.
    pub(crate) fn state(
        &self,
        name: &LogName,
        source: Option<&Path>,
        stamp: Option<&str>,
        judge: &Judge,
    ) -> Result<LogState, Failure> {
        let verifier = &judge.verifier;
        let fs = &*verifier.host().fs;
        let basis = stamp.map(|stamp| state::basis(source, stamp, &judge.trust, fs));
        if let Some(basis) = &basis
            && let Some(kept) = self.index.state(name, basis)?
            && let Some(state) = LogState::read(&kept)
        {
            return Ok(state);
        }
        let log = self.archive.log(name)?;
        let state = LogState::of(&log, &self.archive, verifier);
        if let Some(basis) = &basis {
            self.index.keep_state(name, basis, &state.write())?;
        }
        Ok(state)
    }
}

/// A verifier, and what distinguishes its trust from another one.
pub(crate) struct Judge {
    pub(crate) verifier: Verifier,
    trust: String,
}

impl Judge {
    /// By the trust of the home.
    ///
    /// # Errors
    /// When the home must not be trusted.
    pub(crate) fn of_home(home: &Home, context: &Context) -> Result<Self, Failure> {
        let trust = home.read_trust()?.unwrap_or_default();
        let day = context.now()?.as_micros() / DAY;
        Ok(Self {
            verifier: verifying::verifier_of_home(context)?,
            trust: format!("{} {day}", &Digest::of(&trust).to_hex()[..16]),
        })
    }
}

/// The archive of the home.
///
/// # Errors
/// When it or its key cannot be read.
pub(crate) fn archive(
    home: &Home,
    unlock: Unlock<'_>,
    context: &Context,
) -> Result<Archive, Failure> {
    let closed = Archive::open(effects(context), home.path(), None)?;
    if !closed.settings().encrypted {
        return Ok(closed);
    }
    let secret = secret(home, unlock, context)?;
    Ok(Archive::open(effects(context), home.path(), secret)?)
}

fn effects(context: &Context) -> Effects {
    Effects {
        fs: Arc::clone(&context.fs),
        clock: Arc::new(SystemClock),
        random: Arc::new(context.random),
    }
}

/// The key of an encrypted archive; `None` if its passphrase must not be asked for.
fn secret(home: &Home, unlock: Unlock<'_>, context: &Context) -> Result<Option<Secret>, Failure> {
    let bytes = Zeroizing::new(read_private_key_file(&*context.fs, &secret_place(home))?);
    let pem = String::from_utf8_lossy(&bytes);
    let key = match (PrivateKey::is_encrypted_pem(&pem), unlock) {
        (false, _) => PrivateKey::from_pem(&pem)?,
        (true, Unlock::Never) => return Ok(None),
        (true, Unlock::Ask(passphrase)) => {
            let passphrase = passphrase.for_existing_key("the archive")?;
            PrivateKey::from_encrypted_pem(&pem, passphrase.as_bytes())?
        }
    };
    Ok(Some(secret_of(&key)))
}

fn secret_of(key: &PrivateKey) -> Secret {
    let both = key.to_igor_identity();
    let mut seed = Zeroizing::new([0; 32]);
    seed.copy_from_slice(&both[SEED]);
    Secret::from_seed(&seed)
}

/// The place of the key of an encrypted archive.
fn secret_place(home: &Home) -> PathBuf {
    home.path().join("keys").join("archive.secret")
}

/// Makes the key of an archive that is to be encrypted, or reads the one that is there.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn new_secret(
    home: &Home,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<Secret, Failure> {
    let place = secret_place(home);
    if context.fs.symlink_metadata(&place).is_ok() {
        let found = secret(home, Unlock::Ask(passphrase), context)?;
        return found.ok_or_else(|| Failure::new("the archive's key cannot be read"));
    }
    let seed = Zeroizing::new(random::array::<32>(&context.random)?);
    let key = PrivateKey::from_seed(*seed);
    let pem = match passphrase.for_new_key()? {
        None => key.to_pem(),
        Some(words) => {
            let (salt, iv) = (
                random::array(&context.random)?,
                random::array(&context.random)?,
            );
            key.to_encrypted_pem(words.as_bytes(), salt, iv)?
        }
    };
    atomic::create_new(&*context.fs, &place, pem.as_bytes(), PRIVATE_FILE)?;
    Ok(secret_of(&key))
}

/// The sessions in folders of agents beside which there are no seals.
pub(crate) fn unsealed(folders: &[(Agent, LogFolder)], context: &Context) -> Vec<(Agent, PathBuf)> {
    let of_agents = folders.iter().map(|(agent, folder)| AgentFolder {
        agent: *agent,
        folder: folder.path.clone(),
    });
    let of_agents: Vec<AgentFolder> = of_agents.collect();
    let fs = &*context.fs;
    // A file that cannot be read is in the troubles of hooks and watcher.
    let is_session = |log: &PathBuf| {
        let file = open_regular(fs, log);
        let session = file.and_then(|file| session_of(&file, &of_agents));
        session.is_ok_and(|session| session.is_some())
    };
    let logs = folders.iter().flat_map(|(agent, folder)| {
        let logs = folder.logs();
        logs.map(|log| (*agent, log))
    });
    logs.filter(|(_, log)| fs.symlink_metadata(&seal_path(log)).is_err() && is_session(log))
        .collect()
}

/// What keeps the databases of agents from being sealed: sessions without a log, or tables that are not
/// known. One that cannot be read is in the troubles of the watcher.
///
/// # Errors
/// When the home or its archive cannot be read.
pub(crate) fn unsealed_databases(
    folders: &[(Agent, LogFolder)],
    context: &Context,
) -> Result<Vec<(Agent, PathBuf, String)>, Failure> {
    let home = context.existing_home()?;
    let forgotten = archive(&home, Unlock::Never, context)?.forgotten()?;
    let fs = &*context.fs;
    let mut found = Vec::new();
    for (agent, folder) in folders {
        for path in folder.logs() {
            let Ok(real) = fs.canonicalize(&path) else {
                continue;
            };
            if !database::looks_like(&real).unwrap_or(false) {
                continue;
            }
            let message = match database::find(&real) {
                Ok((database::Found::Kind(kind), sessions)) => {
                    let is_missing = |session: &&String| {
                        let log = database::place(home.path(), &real, kind, session);
                        let id = SessionId::new(kind.agent(), session);
                        fs.symlink_metadata(&log).is_err()
                            && !forgotten.iter().any(|gone| gone.session == id)
                    };
                    match sessions.keys().filter(is_missing).count() {
                        0 => continue,
                        count => format!(
                            "{}: {} not sealed; hint: threadseal watch --once",
                            path.display(),
                            counted(count as u64, "session is", "sessions are")
                        ),
                    }
                }
                Ok((database::Found::Other(why), _)) => database_seal::unknown(&path, &why),
                Err(_) => continue,
            };
            found.push((*agent, path, message));
        }
    }
    Ok(found)
}

/// The session whose id begins with `text`, also a forgotten one; `None` if there is none.
///
/// # Errors
/// When there are several.
pub(crate) fn find(archive: &Archive, text: &str) -> Result<Option<SessionId>, Failure> {
    let Ok(prefix) = text.parse::<SessionPrefix>() else {
        return Ok(None);
    };
    let mut all = archive.sessions()?;
    let forgotten = archive.forgotten()?;
    all.extend(forgotten.into_iter().map(|gone| gone.session));
    all.sort();
    all.dedup();
    match session::find(&prefix, all, |id| id) {
        Found::None => Ok(None),
        Found::One(id) => Ok(Some(id)),
        Found::Many(many) => {
            let shown: Vec<String> = many
                .iter()
                .take(MAX_CANDIDATES)
                .map(ToString::to_string)
                .collect();
            let more = match many.len().saturating_sub(MAX_CANDIDATES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Err(Failure::new(format!(
                "{text} is the beginning of several ids: {}{more}",
                shown.join(", ")
            )))
        }
    }
}

/// One log of a session.
///
/// # Errors
/// When it is not archived.
pub(crate) fn log_of(
    archive: &Archive,
    id: &SessionId,
    sub_agent: Option<&str>,
) -> Result<ArchivedLog, Failure> {
    let logs = archive.session(id)?;
    if let (true, Some(gone)) = (logs.is_empty(), forgotten(archive, id)?) {
        return Err(Failure::new(format!("{id}: {gone}")));
    }
    let is_it = |log: &&ArchivedLog| match (sub_agent, &log.name.sub_agent) {
        (None, None) => true,
        (Some(named), Some(name)) => name == named || name.strip_prefix("agent-") == Some(named),
        _ => false,
    };
    if let Some(found) = logs.iter().find(is_it) {
        return Ok(found.clone());
    }
    let names: Vec<String> = logs.iter().map(|log| log.name.to_string()).collect();
    Err(Failure::new(format!(
        "{id} has no such log; it has {}",
        names.join(", ")
    )))
}

/// The words about a forgotten session.
///
/// # Errors
/// When the tombstones cannot be read.
pub(crate) fn forgotten(archive: &Archive, id: &SessionId) -> Result<Option<String>, Failure> {
    let all = archive.forgotten()?;
    let found = all.iter().find(|gone| gone.session == *id);
    Ok(found.map(threadseal_capture::archive::Forgotten::words))
}

/// The session that an argument names, if it is no path, no address, and a home has such a session.
///
/// # Errors
/// When several sessions begin so, or the archive cannot be read.
pub(crate) fn named(argument: &Path, context: &Context) -> Result<Option<Named>, Failure> {
    let text = argument.to_str().unwrap_or_default();
    if text.is_empty() || text == "-" || context.fs.symlink_metadata(argument).is_ok() {
        return Ok(None);
    }
    let named = Named::parse(text);
    let Some(home) = context.home_where_named()? else {
        return Ok(None);
    };
    let archive = Archive::open(effects(context), home.path(), None)?;
    Ok(find(&archive, &named.session)?.map(|_| named))
}

/// The failure about a name that no session has.
pub(crate) fn none(text: &str) -> Failure {
    Failure::new(format!(
        "no session begins with {text}, and there is no such file; hint: threadseal list"
    ))
}

/// The archived log that an argument names, as a file; `None` if [`named`] finds no session.
///
/// # Errors
/// As [`named`]; or when the log is not archived.
pub(crate) fn file_of(argument: &Path, context: &Context) -> Result<Option<RegularFile>, Failure> {
    let Some(name) = named(argument, context)? else {
        return Ok(None);
    };
    let sessions = Sessions::open(Unlock::Ask(&PassphraseArgs::default()), context)?;
    let log = sessions.log(&name)?;
    let Some(newest) = log.newest() else {
        return Ok(None);
    };
    let mut fs = ArchiveFs::new(&sessions.archive);
    let mounted = fs.mount(&log, newest, &newest.last());
    Ok(Some(open_regular(&fs, &mounted.log)?))
}

/// The numbers of the lines that each of these turns of a log is made of.
///
/// # Errors
/// When no mapping reads the log, or it has no such turn.
pub(crate) fn lines_of(source: &[u8], asked: &[u64]) -> Result<Vec<BTreeSet<u64>>, Failure> {
    let unmapped = || Failure::new("no mapping reads this log, so it has no turns");
    let format = convert::detect(source).ok_or_else(unmapped)?;
    let mapped = format.map(source)?;
    let count = mapped.drafts.len() as u64;
    if let Some(turn) = asked.iter().find(|turn| **turn >= count) {
        let text = format!("there is no turn {turn}; there are {count}, from 0");
        return Err(Failure::new(text));
    }
    let numbered = (0..).zip(mapped.drafts.iter());
    let named = numbered.filter(|(number, _)| asked.contains(number));
    let lines: BTreeMap<u64, BTreeSet<u64>> = named
        .map(|(number, draft)| (number, turns::lines_of(&draft)))
        .collect();
    let of = |turn: &u64| lines.get(turn).cloned().unwrap_or_default();
    Ok(asked.iter().map(of).collect())
}

/// A proof of each of these turns of an observed log, with its label and the numbers of its lines.
///
/// # Errors
/// As [`lines_of`]; or when a turn is not sealed.
pub(crate) fn prove_turns(
    name: &str,
    log: &[u8],
    seals: &[u8],
    turns: &[u64],
) -> Result<Vec<(String, BTreeSet<u64>, ObservedProof)>, Failure> {
    let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
    let mut proofs = Vec::new();
    for (turn, numbers) in turns.iter().zip(lines_of(log, turns)?) {
        let label = format!("{name}#{turn}");
        let proof = ObservedProof::make(&label, seals, &numbers, |number| {
            let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
            let line = lines.get(at).map(|line| line.to_vec());
            line.ok_or_else(|| Error::invalid(format!("there is no line {number}")))
        })?;
        proofs.push((label, numbers, proof));
    }
    Ok(proofs)
}

/// The number of the turn to which a line of a log belongs; `None` if no mapping finds one.
pub(crate) fn turn_of(source: &[u8], line: u64) -> Option<u64> {
    let mapped = convert::detect(source)?.map(source).ok()?;
    let mut turns = (0..).zip(mapped.drafts.iter());
    let turn = turns.find(|(_, draft)| turns::lines_of(draft).contains(&line));
    turn.map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_session_a_sub_agent_and_a_turn() {
        let named = |session: &str, sub_agent: Option<&str>, turn| Named {
            session: session.to_owned(),
            sub_agent: sub_agent.map(str::to_owned),
            turn,
        };
        assert_eq!(Named::parse("3f9c"), named("3f9c", None, None));
        assert_eq!(Named::parse("3f9c#12"), named("3f9c", None, Some(12)));
        assert_eq!(
            Named::parse("codex:3f/a7#0"),
            named("codex:3f", Some("a7"), Some(0))
        );
        assert_eq!(Named::parse("3f#x"), named("3f#x", None, None));
    }
}
