//! The watcher's side of the link to hooks: it holds what they ask for, and reports how far it is.
//!
//! ```text
//! hook ─► a thread for each link ─► held on the disk ─► "held" ─► channel ─► sealed ─► no longer held
//!                                                      (strict: the answer waits for the seal)
//! ```

use super::{Wake, Watch};
use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::output::Out;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use threadseal_capture::hook::link::{
    self, Answer, Ask, WatchedFolder, WatcherStatus, read_line, write_line,
};
use threadseal_capture::hook::requests::{Request, Requests};
use threadseal_capture::hook::troubles::{Trouble, Troubles};
use threadseal_core::time::Timestamp;
use threadseal_store::atomic::{self, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::sys::{Access, FileHandle, failure, path_text};

/// Links that are served at once; a hook that gets none seals alone.
const MAX_LINKS: usize = 64;
/// How long the other side may take for its line.
const LINE_LIMIT: Duration = Duration::from_secs(2);
/// How long a strict hook waits for its seal.
const SEAL_LIMIT: Duration = Duration::from_secs(10);

/// A request, and who waits for its seal.
pub(super) struct Asked {
    pub(super) request: Request,
    since: Duration,
    reply: Option<SyncSender<Result<(), String>>>,
}

/// The watcher of the home: its lock, its requests, its state.
pub(super) struct Server {
    /// Locked while the watcher lives.
    _lock: Arc<dyn FileHandle>,
    requests: Arc<Requests>,
    /// What an earlier watcher left.
    left: Vec<Request>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    status: WatcherStatus,
    /// When each request that waits was made.
    waiting: Vec<Duration>,
}

impl Server {
    /// Takes the lock of the watcher, and listens.
    pub(super) fn start(context: &Context, wake: Sender<Wake>) -> Result<Self, Failure> {
        let home = context.existing_home()?.path().to_owned();
        let fs = &*context.fs;
        atomic::create_directories(fs, &home.join("capture"), PRIVATE_DIRECTORY)?;
        let place = home.join("capture/watch.lock");
        let lock = fs.open(&place, Access::OpenOrCreate(PRIVATE_FILE));
        let lock = lock.map_err(|error| failure("open", &place, &error))?;
        if !lock
            .try_lock()
            .map_err(|error| failure("lock", &place, &error))?
        {
            return Err(Failure::new(
                "a watcher of this home runs already; hint: threadseal status",
            ));
        }
        let (requests, left) = Requests::open(fs, &home)?;
        let listener = link::listen(&home)
            .map_err(|error| Failure::io("listen at", &link::socket(&home), &error))?;
        let status = WatcherStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: SystemClock.now()?.to_iso_seconds(),
            ..WatcherStatus::default()
        };
        let state = State {
            status,
            waiting: Vec::new(),
        };
        let server = Self {
            _lock: lock,
            requests: Arc::new(requests),
            left,
            state: Arc::new(Mutex::new(state)),
        };
        let (requests, state) = (Arc::clone(&server.requests), Arc::clone(&server.state));
        let links = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if links.load(Ordering::Relaxed) >= MAX_LINKS {
                    continue;
                }
                links.fetch_add(1, Ordering::Relaxed);
                let (links, wake) = (Arc::clone(&links), wake.clone());
                let (requests, state) = (Arc::clone(&requests), Arc::clone(&state));
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(LINE_LIMIT));
                    let _ = stream.set_write_timeout(Some(LINE_LIMIT));
                    if let Ok(ask) = read_line(&stream) {
                        // A hook that does not wait for the answer is served all the same.
                        let _ = write_line(&stream, &answer(ask, &requests, &state, &wake));
                    }
                    links.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(server)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(ask: Ask, requests: &Requests, state: &Mutex<State>, wake: &Sender<Wake>) -> Answer {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let (request, strict) = match ask {
        Ask::Seal { request, strict } => (request, strict),
        Ask::Status => {
            let state = lock();
            let now = SystemClock.elapsed();
            let oldest = state.waiting.iter().min().copied().unwrap_or(now);
            let behind = now.saturating_sub(oldest).as_millis();
            return Answer::Status(WatcherStatus {
                waiting: state.waiting.len() as u64,
                behind_ms: u64::try_from(behind).unwrap_or(u64::MAX),
                ..state.status.clone()
            });
        }
    };
    if let Err(error) = requests.hold(&request) {
        let why = error.to_string();
        return Answer::Failed { why };
    }
    let since = SystemClock.elapsed();
    lock().waiting.push(since);
    let (reply, sealed) = sync_channel(1);
    let asked = Asked {
        request,
        since,
        reply: strict.then_some(reply),
    };
    if wake.send(Wake::Request(asked)).is_err() {
        let why = "the watcher is ending".to_owned();
        return Answer::Failed { why };
    }
    if !strict {
        return Answer::Held;
    }
    match sealed.recv_timeout(SEAL_LIMIT) {
        Ok(Ok(())) => Answer::Sealed,
        Ok(Err(why)) => Answer::Failed { why },
        Err(_) => Answer::Failed {
            why: format!("it is not sealed after {} s", SEAL_LIMIT.as_secs()),
        },
    }
}

/// The troubles of the home, which `status` shows.
///
/// # Errors
/// When there is no home.
pub(super) fn troubles(context: &Context) -> Result<Troubles, Failure> {
    Ok(Troubles::of(context.existing_home()?.path()))
}

impl Watch<'_> {
    /// Does what an earlier watcher promised.
    pub(super) fn take_up_requests(&mut self, out: &mut Out) {
        let left = match &mut self.server {
            Some(server) => std::mem::take(&mut server.left),
            None => return,
        };
        let since = SystemClock.elapsed();
        let asked = left.into_iter().map(|request| Asked {
            request,
            since,
            reply: None,
        });
        let asked: Vec<Asked> = asked.collect();
        self.answer(&asked, out);
    }

    /// Seals what hooks ask for, and answers those that wait.
    pub(super) fn answer(&mut self, asked: &[Asked], out: &mut Out) {
        if asked.is_empty() {
            return;
        }
        let logs: std::collections::BTreeSet<PathBuf> = asked
            .iter()
            .flat_map(|asked| asked.request.logs.clone())
            .collect();
        self.seal_all(&logs, out);
        let mut of_databases = BTreeMap::new();
        for asked in asked {
            let Request {
                database, session, ..
            } = &asked.request;
            let sealed = match database {
                None => Ok(()),
                Some(database) => of_databases
                    .entry((database, session))
                    .or_insert_with(|| self.seal_named(database, session.as_deref(), out))
                    .clone(),
            };
            let refused = asked
                .request
                .logs
                .iter()
                .find_map(|log| self.refused.get(log));
            if let Some(reply) = &asked.reply {
                let _ = reply.send(refused.map_or(sealed, |why| Err(why.message.clone())));
            }
        }
        let Some(server) = &self.server else {
            return;
        };
        let mut state = server.state();
        for asked in asked {
            if let Some(at) = state.waiting.iter().position(|since| *since == asked.since) {
                state.waiting.swap_remove(at);
            }
        }
        drop(state);
        if let Err(error) = server.requests.end(asked.len() as u64) {
            complain(&error.to_string());
        }
    }

    /// Notes the state for `status`, and the troubles.
    pub(super) fn report_state(&mut self, is_polling: bool) {
        let Some(server) = &self.server else {
            return;
        };
        let counted = self.numbered();
        let folders = counted.map(|(folder, logs, passed_over)| WatchedFolder {
            agent: folder.agent_name().map(str::to_owned),
            path: folder.path.clone(),
            logs,
            passed_over,
        });
        let folders = folders.collect();
        let mut state = server.state();
        state.status.folders = folders;
        state.status.has_looked = true;
        state.status.is_polling = is_polling;
        state.status.seals = self.seals;
    }

    /// Notes that a file cannot be sealed, or that it is sealed now.
    pub(super) fn note_trouble(&self, path: &std::path::Path, why: Option<&str>) {
        let Some(troubles) = &self.troubles else {
            return;
        };
        let at = SystemClock
            .now()
            .map_or_else(|_| String::new(), Timestamp::to_iso_seconds);
        let trouble = Trouble {
            at,
            of: "watch".to_owned(),
            about: path_text(path),
            why: why.map(str::to_owned),
        };
        if let Err(error) = troubles.add(&*self.context.fs, trouble) {
            complain(&error.to_string());
        }
    }
}
