//! Knowledge entries, found by their words.
//!
//! ```text
//! .ai/knowledge/…/<name>.md                    an entry; its id is the path below, without `.md`
//! .ai/knowledge/agent/threads/<directive>/…    a thread for readers ([`Project::knowledge_entry`])
//! ```
//! A search compares text without regard to case, by all words of a query. Each hit carries the
//! verdict on its file, checked against the head that this host knows. Changed files are found too,
//! and are marked as changed. Entries of threads are renderings for readers; threads continue from
//! transcripts.

use crate::bounds::{MAX_KNOWLEDGE_BYTES, MAX_KNOWLEDGE_FILES, MAX_SEARCH_SNIPPET_CHARS};
use crate::project::Project;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::fold::folded;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Report, Verdict};
use threadseal_core::trust::Trust;
use threadseal_formats::document::{DocumentKind, ItemType, Options, verify};
use threadseal_store::host::Host;
use threadseal_store::read::read_small;
use threadseal_store::sys::{FileKind, Fs, cause};

/// An entry that has all words of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its item id: the path below `.ai/knowledge`, without `.md`.
    pub id: String,
    /// The verdict on it.
    pub verdict: Verdict,
    /// How often it contains the words.
    pub count: usize,
    /// The first line that has one of them, shortened.
    pub snippet: String,
    /// Its number, from 1.
    pub line: usize,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries, those with most of the words first.
    pub hits: Vec<Hit>,
    /// Files that are too large to be looked at.
    pub too_large: Vec<PathBuf>,
}

/// The entries below `.ai/knowledge` that have every word of `query`.
///
/// # Errors
/// Kind `InvalidInput` when the query has no words, `Limit` above [`MAX_KNOWLEDGE_FILES`],
/// `External` when the system fails.
pub fn search(host: &Host, project: &Project, trust: &Trust, query: &str) -> Result<Found, Error> {
    let words: Vec<String> = query.split_whitespace().map(folded).collect();
    if words.is_empty() {
        return Err(Error::invalid("name a word to look for"));
    }
    let root = project.ai().join("knowledge");
    project.inside(&*host.fs, &root)?;
    let mut found = Found::default();
    for path in files(&*host.fs, &root)? {
        let bytes = match read_small(&*host.fs, &path, MAX_KNOWLEDGE_BYTES) {
            Err(error) if error.kind() == ErrorKind::Limit => {
                found.too_large.push(path);
                continue;
            }
            bytes => bytes?,
        };
        // The verdict reports invalid UTF-8; the rest of the text is still searched.
        let text = String::from_utf8_lossy(&bytes);
        if let Some((count, line, snippet)) = look(&text, &words) {
            let id = path.strip_prefix(&root).unwrap_or(&path).with_extension("");
            found.hits.push(Hit {
                id: id.to_string_lossy().into_owned(),
                verdict: judge(host, trust, &path, &bytes)?.verdict,
                count,
                snippet,
                line,
            });
        }
    }
    let order = |a: &Hit, b: &Hit| b.count.cmp(&a.count).then_with(|| a.id.cmp(&b.id));
    found.hits.sort_by(order);
    Ok(found)
}

/// How often the words occur in a text that has them all, and the first line with one of them.
fn look(text: &str, words: &[String]) -> Option<(usize, usize, String)> {
    let lower = folded(text);
    if !words.iter().all(|word| lower.contains(word.as_str())) {
        return None;
    }
    let times = words
        .iter()
        .map(|word| lower.matches(word.as_str()).count());
    let has = |line: &str| {
        let line = folded(line);
        words.iter().any(|word| line.contains(word.as_str()))
    };
    // Signatures are digits and letters, which may contain a short word by chance.
    let is_signature =
        |line: &str| line.starts_with("<!-- rye:signed:") || line.starts_with("<!-- threadseal:");
    let mut lines = text.lines().enumerate();
    let (at, line) = lines.find(|(_, line)| has(line) && !is_signature(line))?;
    let snippet = line.trim().chars().take(MAX_SEARCH_SNIPPET_CHARS).collect();
    Some((times.sum(), at + 1, snippet))
}

fn judge(host: &Host, trust: &Trust, path: &Path, bytes: &[u8]) -> Result<Report, Error> {
    let path = path.to_string_lossy();
    let mut options = Options {
        path: &path,
        item_type: Some(ItemType::Knowledge),
        ..Options::new(DocumentKind::Markdown, trust, host.clock.now()?)
    };
    let report = verify(bytes, &options)?.report;
    // The record is known only after a first look.
    let known = match report.record {
        Some(record) => host.heads.fetch(&record)?,
        None => None,
    };
    let Some(known) = known else {
        return Ok(report);
    };
    options.expect_head = Some(ExpectedHead::Head(known.head));
    Ok(verify(bytes, &options)?.report)
}

/// All Markdown files below `root`, links not followed.
fn files(fs: &dyn Fs, root: &Path) -> Result<Vec<PathBuf>, Error> {
    let fail = |path: &Path, error: &io::Error| {
        Error::new(
            ErrorKind::External,
            format!("cannot read {}: {error}", path.display()),
        )
        .with_source(cause(error))
    };
    let (mut folders, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let names = match fs.read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names.map_err(|error| fail(&folder, &error))?,
        };
        for name in names {
            let path = folder.join(name);
            let kind = fs.symlink_metadata(&path);
            match kind.map_err(|error| fail(&path, &error))?.kind {
                FileKind::Directory => folders.push(path),
                FileKind::Regular if path.extension().is_some_and(|end| end == "md") => {
                    found.push(path);
                }
                _ => {}
            }
        }
        if found.len() + folders.len() > MAX_KNOWLEDGE_FILES {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "more than {MAX_KNOWLEDGE_FILES} entries below {}",
                    root.display()
                ),
            ));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
