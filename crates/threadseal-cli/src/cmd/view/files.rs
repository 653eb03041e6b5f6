//! [`Files`]: files that a person named, and the records of folders.

use super::log::{self, Judged, Kept};
use crate::cmd::lineage::input::Input;
use crate::context::Context;
use crate::exit::Failure;
use crate::record;
use crate::verifying;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::lineage::DrawnLink;
use threadseal_store::bodies;
use threadseal_store::observer::seal_path;
use threadseal_store::sys::path_text;
use threadseal_verify::inputs;
use threadseal_verify::request::{LineageRequest, VerifyRequest};
use threadseal_verify::{FileResult, Verifier};
use threadseal_view::shelf::{
    Drawing, Drawn, Edge, Hits, Keys, Link, Log, MAX_FOLLOWED, Node, Opened, Row, Session,
    Sessions, Shelf, Stamp, What,
};

/// Most files of a list.
const MAX_FILES: usize = 10_000;
/// What the ids of files begin with.
const PREFIX: &str = "file:";
/// Hex digits of a link's hash in a drawing.
const SHORT_HASH: usize = 8;

/// Files.
pub(super) struct Files {
    context: Context,
    named: Vec<PathBuf>,
    paths: Vec<PathBuf>,
    kept: Kept,
}

impl Files {
    /// The files at `named`; of folders those that are records.
    ///
    /// # Errors
    /// When one cannot be read, or there are too many.
    pub(super) fn find(named: &[PathBuf], context: &Context) -> Result<Self, Failure> {
        let found = inputs::find(named, &record::stores());
        if let Some(error) = found.errors.first() {
            return Err(Failure::new(error.message.clone()));
        }
        if found.files.len() > MAX_FILES {
            let text = format!("more than {MAX_FILES} files; hint: name a smaller folder");
            return Err(Failure::new(text));
        }
        let verifier = verifying::verifier_of_home(context)?;
        let is_record =
            |file: &inputs::Candidate| file.named || verifier.verify_candidate(file).tells();
        let paths = found
            .files
            .iter()
            .filter(|file| is_record(file))
            .map(|file| file.path.clone());
        Ok(Self {
            context: context.anew(),
            named: named.to_vec(),
            paths: paths.collect(),
            kept: Kept::default(),
        })
    }

    /// The ids of what was named, where these are files.
    pub(super) fn ids(&self) -> Vec<String> {
        let named = self.named.iter().filter(|path| self.paths.contains(path));
        named.map(|path| id(path)).collect()
    }

    fn path(&self, id: &str) -> Option<&Path> {
        let text = id.strip_prefix(PREFIX)?;
        let path = self.paths.iter().find(|path| path_text(path) == text)?;
        Some(path)
    }

    fn verifier(&self) -> Result<Verifier, Error> {
        verifying::verifier_of_home(&self.context.anew()).map_err(log::plain)
    }

    fn row(&self, path: &Path, judged: &Judged) -> Row {
        let changed = self.context.fs.metadata(path).ok();
        let changed = changed.and_then(|found| u64::try_from(found.modified_ns / 1000).ok());
        let changed = changed.and_then(|micros| Timestamp::from_micros(micros).ok());
        let is_link = judged.format.as_deref() == Some("lineage");
        Row {
            id: id(path),
            kind: if is_link { "lineage" } else { "file" },
            agent: judged.format.clone().unwrap_or_else(|| "file".to_owned()),
            project: path
                .parent()
                .map(path_text)
                .filter(|folder| !folder.is_empty()),
            title: path.file_name().map(|name| path_text(Path::new(name))),
            updated: changed.map(Timestamp::to_iso_seconds),
            state: judged.state.clone(),
            state_text: judged.text.clone(),
            light: judged.light,
            ..Row::default()
        }
    }
}

fn id(path: &Path) -> String {
    format!("{PREFIX}{}", path_text(path))
}

impl Shelf for Files {
    fn sessions(&self, skip: usize, most: usize) -> Result<Sessions, Error> {
        let verifier = self.verifier()?;
        let shown = self.paths.iter().skip(skip).take(most);
        let rows = shown.map(|path| self.row(path, &self.kept.judged(path, &verifier)));
        Ok(Sessions {
            total: self.paths.len(),
            sessions: rows.collect(),
        })
    }

    fn session(&self, id: &str) -> Result<Option<Session>, Error> {
        let Some(path) = self.path(id) else {
            return Ok(None);
        };
        let judged = self.kept.judged(path, &self.verifier()?);
        let row = self.row(path, &judged);
        let fs = &*self.context.fs;
        let links = (row.kind == "lineage").then(|| Link {
            kind: "lineage",
            id: id.to_owned(),
        });
        Ok(Some(Session {
            logs: vec![Log {
                log: id.to_owned(),
                parent: None,
                path: Some(path_text(path)),
                bytes: log::size(fs, path),
                seals: log::size(fs, &seal_path(path)),
                bodies: log::size(fs, &bodies::place_of(path)),
                head: log::known_head(judged.record, &self.context),
                format: judged.format,
                state: judged.state,
                state_text: judged.text,
                light: judged.light,
            }],
            links: links.into_iter().collect(),
            secrets: 0,
            row,
        }))
    }

    fn open(&self, log: &str, what: What) -> Result<Option<Opened>, Error> {
        let path = self.path(log);
        path.map_or(Ok(None), |path| log::open(&*self.context.fs, path, what))
    }

    fn stamp(&self, log: &str) -> Option<Stamp> {
        log::stamp(&*self.context.fs, self.path(log)?)
    }

    fn newest(&self) -> Vec<(String, String)> {
        let first = self.paths.iter().take(MAX_FOLLOWED);
        first.map(|path| (id(path), id(path))).collect()
    }

    fn report(&self, log: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = self.path(log) else {
            return Ok(None);
        };
        let verifier = self.verifier()?;
        let result = match verifier.verify_path(path) {
            FileResult::Link(facts, reports) => {
                let mut seen = [FileResult::Link(facts, reports)];
                let named = inputs::find(&[path.to_owned()], &record::stores());
                let joined = verifier.lineage_reports(&named.files, &mut seen);
                FileResult::Reports(joined.map_err(|error| log::plain(error.into()))?)
            }
            result => result,
        };
        Ok(Some(log::report(result)))
    }

    fn trust(&self) -> Result<Keys, Error> {
        log::trust(&self.context.anew())
    }

    fn search(&self, _: &str, _: usize) -> Result<Hits, Error> {
        // Files have no index; the page searches in the one that is open.
        Ok(Hits::default())
    }

    fn drawing(&self, of: Drawn, id: &str) -> Result<Option<Drawing>, Error> {
        match self.path(id) {
            Some(_) if of == Drawn::Lineage => lineages(&self.named, &self.context.anew())
                .map(Some)
                .map_err(log::plain),
            _ => Ok(None),
        }
    }
}

/// The links of all lineages at `paths`.
fn lineages(paths: &[PathBuf], context: &Context) -> Result<Drawing, Failure> {
    let asked = VerifyRequest {
        lineage: LineageRequest {
            draw: true,
            ..LineageRequest::default()
        },
        ..verifying::verifier_of_home(context)?.request().clone()
    };
    let input = Input::asking(paths, asked, context)?;
    let outcomes = input.verifier.lineages(input.links()?, input.view)?;
    let mut drawing = Drawing::default();
    for outcome in &outcomes {
        let forked = |link: &DrawnLink| {
            let parent = outcome.forks.iter().find(|fork| fork.parent == link.parent);
            parent.is_some_and(|fork| {
                fork.children
                    .iter()
                    .any(|child| child.hash == link.link.hash)
            })
        };
        for link in &outcome.links {
            let hash = link.link.hash.to_hex();
            let (header, short) = (&link.link.header, &hash[..SHORT_HASH]);
            drawing.nodes.push(Node {
                label: format!("{short}  tick {}", header.tick),
                state: state_of(link, outcome.report.verdict.as_str()),
                session: None,
                id: hash.clone(),
            });
            if let Some(parent) = link.parent {
                drawing.edges.push(Edge {
                    from: parent.to_hex(),
                    to: hash,
                    kind: if forked(link) { "fork" } else { "next" },
                });
            }
        }
    }
    Ok(drawing)
}

fn state_of(link: &DrawnLink, verdict: &str) -> String {
    match link.findings.first() {
        Some(code) => code.as_str().replace('_', " "),
        None if link.of_line => verdict.replace('_', " "),
        None => "not of the line".to_owned(),
    }
}
