//! [`OfProject`]: the threads of a project, and its runs of graphs.

use super::log::{self, Judged, Kept};
use crate::cmd::thread::databases;
use crate::context::Context;
use crate::exit::Failure;
use crate::project::ProjectArgs;
use crate::verified_events::VerifiedEvents;
use crate::verifying;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::graph_state::Course;
use threadseal_runtime::project::Project;
use threadseal_runtime::registry::{Filter, SqliteRegistry, Thread};
use threadseal_runtime::status::Status;
use threadseal_store::bodies;
use threadseal_store::observer::seal_path;
use threadseal_store::read::{Source as _, open_regular};
use threadseal_store::sys::path_text;
use threadseal_verify::Verifier;
use threadseal_view::shelf::{
    Drawing, Drawn, Edge, Hits, Keys, Link, Log, MAX_FOLLOWED, Node, Opened, Row, Session,
    Sessions, Shelf, Stamp, What,
};

/// Most threads of a list.
const MAX_THREADS: usize = 10_000;
/// Bytes at the beginning of a transcript that have its first events.
const FIRST_BYTES: u64 = 64 << 10;
/// The type of the event that begins a run of a graph.
const GRAPH: &[u8] = br#""graph_started""#;
/// What the ids of threads begin with.
const PREFIX: &str = "thread:";

/// The threads of a project.
pub(super) struct OfProject {
    context: Context,
    project: Project,
    kept: Kept,
}

impl OfProject {
    /// The project that is named, or in which the command runs; `None` if it runs in none.
    ///
    /// # Errors
    /// When the named one cannot be read, or is another user's.
    pub(super) fn find(args: &ProjectArgs, context: &Context) -> Result<Option<Self>, Failure> {
        let project = match args.is_named() {
            true => args.open(context)?,
            false => match args.open(context) {
                Ok(project) => project,
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Self {
            context: context.anew(),
            project,
            kept: Kept::default(),
        }))
    }

    /// All threads, newest first.
    fn threads(&self) -> Result<Vec<Thread>, Failure> {
        let filter = Filter {
            limit: Some(MAX_THREADS),
            ..Filter::default()
        };
        let mut threads = Vec::new();
        for path in databases(&self.context, &self.project, Project::registry)? {
            threads.extend(SqliteRegistry::view(&path, |view| view.list(&filter))?.threads);
        }
        threads.sort_by(|one, other| other.created_at.cmp(&one.created_at));
        threads.truncate(MAX_THREADS);
        Ok(threads)
    }

    fn transcript(&self, id: &str) -> Option<PathBuf> {
        let id = ThreadId::parse(id.strip_prefix(PREFIX)?).ok()?;
        let folder = self.project.find_thread(&*self.context.fs, &id).ok()??;
        Some(folder.transcript())
    }

    fn verifier(&self) -> Result<Verifier, Error> {
        verifying::verifier_of_home(&self.context.anew()).map_err(log::plain)
    }

    fn judged(&self, thread: &Thread, verifier: &Verifier) -> Option<Judged> {
        let path = self.transcript(&id(&thread.id))?;
        Some(self.kept.judged(&path, verifier))
    }

    fn row(&self, thread: &Thread, threads: &[Thread], verifier: &Verifier) -> Row {
        let judged = self.judged(thread, verifier);
        let status = thread
            .status
            .as_ref()
            .map_or_else(String::as_str, |status| Status::as_str(*status));
        let (state, text, light) = match judged {
            Some(judged) => (judged.state, judged.text, judged.light),
            None => (
                "missing".to_owned(),
                "its transcript is missing".to_owned(),
                "amber",
            ),
        };
        Row {
            id: id(&thread.id),
            kind: if self.is_graph(thread) {
                "graph"
            } else {
                "thread"
            },
            agent: "threadseal".to_owned(),
            project: Some(path_text(self.project.root())),
            title: Some(thread.directive.clone()),
            begun: thread.created_at.clone(),
            updated: thread
                .completed_at
                .clone()
                .or_else(|| thread.updated_at.clone()),
            turns: Some(thread.turns),
            tools: None,
            tokens: Some(thread.input_tokens.saturating_add(thread.output_tokens)),
            cost: Some(thread.spend.to_real()),
            model: thread.model.clone(),
            sub_agents: children(thread, threads).count(),
            state,
            state_text: format!("{}; {text}", status.replace('_', " ")),
            light,
        }
    }

    /// Is it a run of a graph? Its record begins with one.
    fn is_graph(&self, thread: &Thread) -> bool {
        let path = self.transcript(&id(&thread.id));
        let file = path.and_then(|path| open_regular(&*self.context.fs, &path).ok());
        let mut first = Vec::new();
        let read = file.map(|file| file.range(0, FIRST_BYTES).next_chunk(&mut first));
        let is_begun = first.windows(GRAPH.len()).any(|part| part == GRAPH);
        matches!(read, Some(Ok(()))) && is_begun
    }

    /// The chain and the children of a thread.
    fn family(&self, id: &str) -> Result<Option<Drawing>, Error> {
        let threads = self.threads().map_err(log::plain)?;
        if !threads.iter().any(|thread| self::id(&thread.id) == id) {
            return Ok(None);
        }
        let mut drawing = Drawing::default();
        let mut inside = vec![id.to_owned()];
        let mut at = 0;
        while let Some(next) = inside.get(at).cloned() {
            let of = threads.iter().find(|thread| self::id(&thread.id) == next);
            let related = of
                .into_iter()
                .flat_map(|thread| relations(thread, &threads));
            for (_, other) in related {
                if !inside.contains(&other) {
                    inside.push(other);
                }
            }
            at += 1;
        }
        let verifier = self.verifier()?;
        for thread in threads
            .iter()
            .filter(|thread| inside.contains(&self::id(&thread.id)))
        {
            let id = self::id(&thread.id);
            let judged = self.judged(thread, &verifier);
            for (from, kind) in [
                (&thread.parent, "child"),
                (&thread.continuation_of, "continues"),
            ] {
                drawing.edges.extend(from.as_ref().map(|from| Edge {
                    from: format!("{PREFIX}{from}"),
                    to: id.clone(),
                    kind,
                }));
            }
            drawing.nodes.push(Node {
                label: thread.id.as_str().to_owned(),
                state: judged.map_or_else(|| "missing".to_owned(), |judged| judged.text),
                session: Some(id.clone()),
                id,
            });
        }
        Ok(Some(drawing))
    }

    /// The nodes of a run, in the order of its last visits.
    fn run(&self, id: &str) -> Result<Option<Drawing>, Failure> {
        let Some(path) = self.transcript(id) else {
            return Ok(None);
        };
        let read = VerifiedEvents::read(&path, &self.context.anew())?;
        let events = read
            .events
            .iter()
            .map(|event| (event.event_type.as_str(), &event.payload));
        let Ok(course) = Course::of_record(events) else {
            return Ok(None);
        };
        let visits = course.visits();
        let nodes = visits.iter().map(|visit| Node {
            id: visit.node.to_owned(),
            label: format!("{} {}", visit.step, visit.node),
            state: visit.status.to_owned(),
            session: None,
        });
        let pairs = visits.iter().zip(visits.iter().skip(1));
        Ok(Some(Drawing {
            nodes: nodes.collect(),
            edges: pairs
                .map(|(from, to)| Edge {
                    from: from.node.to_owned(),
                    to: to.node.to_owned(),
                    kind: "next",
                })
                .collect(),
        }))
    }
}

fn id(thread: &ThreadId) -> String {
    format!("{PREFIX}{}", thread.as_str())
}

fn children<'t>(of: &'t Thread, threads: &'t [Thread]) -> impl Iterator<Item = &'t Thread> {
    threads
        .iter()
        .filter(|thread| thread.parent.as_deref() == Some(of.id.as_str()))
}

/// The threads that a thread is connected to, each with the kind of the connection.
fn relations(thread: &Thread, threads: &[Thread]) -> Vec<(&'static str, String)> {
    let named = [
        ("continues", &thread.continuation_of),
        ("continued_by", &thread.continuation),
        ("parent", &thread.parent),
    ];
    let named = named
        .into_iter()
        .filter_map(|(kind, other)| Some((kind, format!("{PREFIX}{}", other.as_deref()?))));
    let children = children(thread, threads).map(|child| ("child", id(&child.id)));
    named.chain(children).collect()
}

impl Shelf for OfProject {
    fn sessions(&self, skip: usize, most: usize) -> Result<Sessions, Error> {
        let threads = self.threads().map_err(log::plain)?;
        let verifier = self.verifier()?;
        let shown = threads.iter().skip(skip).take(most);
        Ok(Sessions {
            sessions: shown
                .map(|thread| self.row(thread, &threads, &verifier))
                .collect(),
            total: threads.len(),
        })
    }

    fn session(&self, id: &str) -> Result<Option<Session>, Error> {
        let threads = self.threads().map_err(log::plain)?;
        let Some(thread) = threads.iter().find(|thread| self::id(&thread.id) == id) else {
            return Ok(None);
        };
        let row = self.row(thread, &threads, &self.verifier()?);
        let path = self.transcript(id);
        let fs = &*self.context.fs;
        let links = relations(thread, &threads).into_iter();
        let mut links: Vec<Link> = links.map(|(kind, id)| Link { kind, id }).collect();
        if row.kind == "graph" || !links.is_empty() {
            links.push(Link {
                kind: "graph",
                id: id.to_owned(),
            });
        }
        let log = path.map(|path| Log {
            log: id.to_owned(),
            parent: None,
            bytes: log::size(fs, &path),
            seals: log::size(fs, &seal_path(&path)),
            bodies: log::size(fs, &bodies::place_of(&path)),
            head: log::known_head(thread.record, &self.context),
            path: Some(path_text(&path)),
            format: None,
            state: row.state.clone(),
            state_text: row.state_text.clone(),
            light: row.light,
        });
        Ok(Some(Session {
            row,
            logs: log.into_iter().collect(),
            links,
            secrets: 0,
        }))
    }

    fn open(&self, log: &str, what: What) -> Result<Option<Opened>, Error> {
        let path = self.transcript(log);
        path.map_or(Ok(None), |path| log::open(&*self.context.fs, &path, what))
    }

    fn stamp(&self, log: &str) -> Option<Stamp> {
        log::stamp(&*self.context.fs, &self.transcript(log)?)
    }

    fn newest(&self) -> Vec<(String, String)> {
        let threads = self.threads().unwrap_or_default();
        let ids = threads
            .iter()
            .map(|thread| (id(&thread.id), id(&thread.id)));
        ids.take(MAX_FOLLOWED).collect()
    }

    fn report(&self, log: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = self.transcript(log) else {
            return Ok(None);
        };
        Ok(Some(log::report(self.verifier()?.verify_path(&path))))
    }

    fn trust(&self) -> Result<Keys, Error> {
        log::trust(&self.context.anew())
    }

    fn search(&self, _: &str, _: usize) -> Result<Hits, Error> {
        // Threads have no index; the page searches in the one that is open.
        Ok(Hits::default())
    }

    fn drawing(&self, of: Drawn, id: &str) -> Result<Option<Drawing>, Error> {
        if of != Drawn::Graph {
            return Ok(None);
        }
        match self.run(id).map_err(log::plain)? {
            Some(run) => Ok(Some(run)),
            None => self.family(id),
        }
    }
}
