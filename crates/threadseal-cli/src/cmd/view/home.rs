//! [`OfHome`]: the sessions of this home, and those on this machine that are not sealed.
//!
//! ```text
//! claude-code:3f9c…            its log, where its agent has it; else the archived copy
//! claude-code:3f9c…/agent-a7   that of a subagent
//! claude-code:/home/…/x.jsonl  a log without seals, by its path
//! ```

use super::log;
use crate::context::Context;
use crate::exit::Failure;
use crate::passphrase::PassphraseArgs;
use crate::sessions::{self, Judge, JudgedSession, Named, Sessions, Unlock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_capture::Agent;
use threadseal_capture::archive::{ArchiveFs, ArchivedLog, Version};
use threadseal_capture::index::{IndexedLog, Query, search_archive};
use threadseal_capture::state::{Light, LogState, verify_archived};
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_store::observer::seal_path;
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;
use threadseal_view::shelf::{
    Drawing, Drawn, Hit, Hits, Keys, Log, MAX_FOLLOWED, Opened, Row, Session, Sessions as Rows,
    Shelf, Stamp, What,
};

/// Sessions of a home.
pub(super) struct OfHome {
    context: Context,
    sessions: Mutex<Sessions>,
    listed: Mutex<Listed>,
}

/// What was listed last.
#[derive(Default)]
struct Listed {
    rows: Vec<Row>,
    /// The logs of each session.
    logs: BTreeMap<String, Vec<IndexedLog>>,
    /// Logs without seals.
    unsealed: BTreeMap<String, PathBuf>,
}

impl OfHome {
    /// Opens the archive and the index; asks for the passphrase of an encrypted archive.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(super) fn open(passphrase: &PassphraseArgs, context: &Context) -> Result<Self, Failure> {
        Ok(Self {
            context: context.anew(),
            sessions: Mutex::new(Sessions::open(Unlock::Ask(passphrase), context)?),
            listed: Mutex::default(),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists anew.
    fn list(&self) -> Result<(), Failure> {
        let context = self.context.anew();
        let mut sessions = self.sessions();
        let Sessions { archive, index, .. } = &mut *sessions;
        index.refresh(archive)?;
        let judge = Judge::of_home(&sessions.home, &context)?;
        let judged = sessions.judged(&judge, false, &|_, _| true)?;
        drop(sessions);
        let mut listed = Listed {
            rows: judged.iter().map(row).collect(),
            ..Listed::default()
        };
        listed.logs = judged
            .into_iter()
            .map(|session| (session.id.to_string(), session.logs))
            .collect();
        for (agent, path) in unsealed(&context)? {
            let id = format!("{}:{}", agent.name(), path_text(&path));
            listed.rows.push(unsealed_row(&id, agent, &path));
            listed.unsealed.insert(id, path);
        }
        listed
            .rows
            .sort_by(|one, other| other.updated.cmp(&one.updated));
        *self.listed() = listed;
        Ok(())
    }

    /// The archived log of this name.
    fn archived(&self, name: &str) -> Result<Option<ArchivedLog>, Failure> {
        let sessions = self.sessions();
        let named = Named::parse(name);
        let Some(id) = sessions::find(&sessions.archive, &named.session)? else {
            return Ok(None);
        };
        let logs = sessions.archive.session(&id)?;
        let is_it = |log: &&ArchivedLog| log.name.to_string() == name;
        Ok(logs.iter().find(is_it).cloned())
    }

    /// The file of the agent that has this log, if there still is one.
    fn source(&self, name: &str) -> Option<PathBuf> {
        if let Some(path) = self.listed().unsealed.get(name) {
            return Some(path.clone());
        }
        // A page asks for it all the time: the archive is read only for what was never listed.
        let source = match self.indexed(name) {
            Some(log) => log.source?,
            None => self.archived(name).ok()??.source()?,
        };
        self.context
            .fs
            .symlink_metadata(&source)
            .is_ok()
            .then_some(source)
    }

    /// The log of this name, as it was listed.
    fn indexed(&self, name: &str) -> Option<IndexedLog> {
        let session = name.split('/').next().unwrap_or_default();
        let listed = self.listed();
        let mut logs = listed.logs.get(session)?.iter();
        logs.find(|log| log.name.to_string() == name).cloned()
    }

    fn log(&self, log: &ArchivedLog, sessions: &Sessions, judge: &Judge) -> Log {
        let state = LogState::of(log, &sessions.archive, &judge.verifier);
        let fs = &*self.context.fs;
        let source = log
            .source()
            .filter(|path| fs.symlink_metadata(path).is_ok());
        let newest = log.newest();
        let last = newest.map(Version::last);
        let parent = log
            .name
            .sub_agent
            .as_ref()
            .map(|_| log.name.session.to_string());
        Log {
            log: log.name.to_string(),
            parent,
            path: log.facts.source.clone(),
            bytes: match (&source, &last) {
                (Some(path), _) => log::size(fs, path),
                (None, Some(last)) => last.head.size,
                (None, None) => 0,
            },
            seals: match (&source, &last) {
                (Some(path), _) => log::size(fs, &seal_path(path)),
                (None, last) => u64::from(last.is_some()),
            },
            bodies: 0,
            head: log::known_head(newest.map(Version::record), &self.context),
            format: None,
            state: state.kind.name().to_owned(),
            light: light(state.kind.light()),
            state_text: state.words,
        }
    }

    fn unsealed_session(&self, id: &str) -> Option<Session> {
        let listed = self.listed();
        let path = listed.unsealed.get(id)?;
        let row = listed.rows.iter().find(|row| row.id == id)?.clone();
        Some(Session {
            logs: vec![Log {
                log: id.to_owned(),
                parent: None,
                path: Some(path_text(path)),
                bytes: log::size(&*self.context.fs, path),
                seals: 0,
                bodies: 0,
                head: None,
                format: None,
                state: row.state.clone(),
                state_text: row.state_text.clone(),
                light: row.light,
            }],
            row,
            links: Vec::new(),
            secrets: 0,
        })
    }

    fn archived_session(&self, id: &str) -> Result<Option<Session>, Failure> {
        if self.listed().rows.is_empty() {
            self.list()?;
        }
        let context = self.context.anew();
        let sessions = self.sessions();
        let Some(found) = sessions::find(&sessions.archive, id)? else {
            return Ok(None);
        };
        let logs = sessions.archive.session(&found)?;
        let id = found.to_string();
        let row = self.listed().rows.iter().find(|row| row.id == id).cloned();
        let Some(row) = row else {
            return Ok(None);
        };
        let judge = Judge::of_home(&sessions.home, &context)?;
        let secrets = logs.iter().filter_map(ArchivedLog::newest);
        let secrets = secrets.map(|newest| newest.secrets.len() as u64).sum();
        let mut logs: Vec<Log> = logs
            .iter()
            .map(|log| self.log(log, &sessions, &judge))
            .collect();
        logs.sort_by_key(|log| log.parent.is_some());
        for log in &mut logs {
            let indexed = self.indexed(&log.log);
            log.format = indexed.and_then(|indexed| indexed.format);
        }
        Ok(Some(Session {
            row,
            logs,
            links: Vec::new(),
            secrets,
        }))
    }

    fn open_archived(&self, name: &str, what: What) -> Result<Option<Opened>, Failure> {
        let Some(archived) = self.archived(name)? else {
            return Ok(None);
        };
        let Some(newest) = archived.newest() else {
            return Ok(None);
        };
        let mut fs = ArchiveFs::new(&self.sessions().archive);
        let mounted = fs.mount(&archived, newest, &newest.last());
        let place = match what {
            What::Bytes => mounted.log,
            What::Seals => mounted.seals,
            What::Bodies => return Ok(None),
        };
        Ok(Some(log::opened(open_regular(&fs, &place)?)))
    }
}

/// The logs of agents on this machine beside which there are no seals.
fn unsealed(context: &Context) -> Result<Vec<(Agent, PathBuf)>, Failure> {
    if context.user_home().is_none() {
        return Ok(Vec::new());
    }
    let machine = context.machine()?;
    let folders = Agent::ALL.into_iter().flat_map(|agent| {
        let folders = agent.logs(&machine).into_iter();
        folders.map(move |folder| (agent, folder))
    });
    Ok(sessions::unsealed(&folders.collect::<Vec<_>>(), context))
}

fn light(light: Light) -> &'static str {
    match light {
        Light::Green => "green",
        Light::Amber => "amber",
        Light::Red => "red",
    }
}

fn row(session: &JudgedSession) -> Row {
    let logs = &session.logs;
    let main = session.main();
    let own = main.filter(|log| log.name.sub_agent.is_none());
    let moment = |micros: Option<u64>| Some(Timestamp::from_micros(micros?).ok()?.to_iso_seconds());
    let sum = |of: fn(&IndexedLog) -> Option<u64>| {
        let mut all = logs.iter().map(of);
        all.try_fold(0, |sum: u64, one| Some(sum.saturating_add(one?)))
    };
    Row {
        id: session.id.to_string(),
        kind: "session",
        agent: session.id.agent().name().to_owned(),
        project: main.and_then(|log| log.project.clone()),
        title: own.and_then(|log| log.title.clone()),
        begun: moment(logs.iter().filter_map(|log| log.first).min()),
        updated: moment(logs.iter().filter_map(|log| log.last).max()),
        turns: own.and_then(|log| log.turns),
        tools: sum(|log| log.tools),
        tokens: sum(|log| log.tokens),
        cost: None,
        model: main.and_then(|log| log.model.clone()),
        sub_agents: logs
            .iter()
            .filter(|log| log.name.sub_agent.is_some())
            .count(),
        state: session.state.kind.name().to_owned(),
        state_text: session.words(),
        light: light(session.state.kind.light()),
    }
}

fn unsealed_row(id: &str, agent: Agent, path: &Path) -> Row {
    Row {
        id: id.to_owned(),
        kind: "session",
        agent: agent.name().to_owned(),
        title: path.file_name().map(|name| path_text(Path::new(name))),
        state: "not_sealed".to_owned(),
        state_text: "not sealed".to_owned(),
        light: "amber",
        ..Row::default()
    }
}

impl Shelf for OfHome {
    fn sessions(&self, skip: usize, most: usize) -> Result<Rows, Error> {
        // The pages of one list are of one state.
        if skip == 0 {
            self.list().map_err(log::plain)?;
        }
        let listed = self.listed();
        Ok(Rows {
            total: listed.rows.len(),
            sessions: listed.rows.iter().skip(skip).take(most).cloned().collect(),
        })
    }

    fn session(&self, id: &str) -> Result<Option<Session>, Error> {
        if let Some(session) = self.unsealed_session(id) {
            return Ok(Some(session));
        }
        self.archived_session(id).map_err(log::plain)
    }

    fn open(&self, name: &str, what: What) -> Result<Option<Opened>, Error> {
        match self.source(name) {
            Some(path) => log::open(&*self.context.fs, &path, what),
            None => self.open_archived(name, what).map_err(log::plain),
        }
    }

    fn stamp(&self, name: &str) -> Option<Stamp> {
        if let Some(path) = self.source(name) {
            return log::stamp(&*self.context.fs, &path);
        }
        // Nothing is added to a copy whose source is gone.
        Some(Stamp {
            bytes: self.indexed(name)?.size,
            seals: 1,
            changed: [0; 3],
        })
    }

    fn newest(&self) -> Vec<(String, String)> {
        let listed = self.listed();
        let rows = listed
            .rows
            .iter()
            .map(|row| (row.id.clone(), row.id.clone()));
        rows.take(MAX_FOLLOWED).collect()
    }

    fn report(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let source = self.source(name);
        let verifier = Judge::of_home(&self.sessions().home, &self.context.anew())
            .map_err(log::plain)?
            .verifier;
        if let Some(path) = source {
            return Ok(Some(log::report(verifier.verify_path(&path))));
        }
        let Some(archived) = self.archived(name).map_err(log::plain)? else {
            return Ok(None);
        };
        let result = verify_archived(&archived, &self.sessions().archive, &verifier);
        Ok(result.map(log::report))
    }

    fn trust(&self) -> Result<Keys, Error> {
        log::trust(&self.context.anew())
    }

    fn search(&self, words: &str, most: usize) -> Result<Hits, Error> {
        let sessions = self.sessions();
        let query = Query {
            words: words.to_owned(),
            most: (most as u64).saturating_add(1),
            ..Query::default()
        };
        let mut found = match sessions.archive.settings().encrypted {
            // The index of an encrypted archive holds no text.
            true => search_archive(&sessions.archive, &query)?,
            false => sessions.index.search(&query)?,
        };
        let more = found.len() > most;
        found.truncate(most);
        let hit = |hit: threadseal_capture::index::Hit| Hit {
            id: hit.name.session.to_string(),
            log: hit.name.to_string(),
            turn: hit.turn,
            role: hit.role,
            time: hit
                .time
                .and_then(|time| Timestamp::from_micros(time).ok())
                .map(Timestamp::to_iso_seconds),
            snippet: hit.snippet,
        };
        Ok(Hits {
            hits: found.into_iter().map(hit).collect(),
            more,
        })
    }

    fn drawing(&self, _: Drawn, _: &str) -> Result<Option<Drawing>, Error> {
        Ok(None)
    }
}
