//! `rye/file-system/read` and `rye/file-system/write`: files of the project, and no others.
//!
//! ```text
//! read   {path, offset?, limit?}             lines from `offset` (1 is the first), at most `limit`
//! write  {path, content, mode?,              mode: overwrite (completely or not at all), append,
//!         create_dirs?}                            create
//! ```
//! A path is relative to the project. It must not lead out of it, also not through a link. It must
//! never lead to files that this program writes (records, databases under `.ai/agent` and
//! `.ai/state`, knowledge of threads). Nor may it lead to settings: they contain hooks and limits,
//! and a model would loosen its own restrictions. Writing an item needs the permission to sign it.

mod place;

use super::{Invocation, Outcome, Tool};
use crate::bounds::{MAX_FILE_READ_BYTES, MAX_FILE_WRITE_BYTES};
use crate::capability::Capabilities;
use crate::model::ToolSchema;
use crate::no_links::LINK;
use crate::project::Project;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use threadseal_store::read::read_small;
use threadseal_store::sys::Fs;

#[derive(Debug, Clone)]
struct Files {
    fs: Arc<dyn Fs>,
    project: Arc<Project>,
}

/// Reads a file.
#[derive(Debug)]
pub struct ReadFile {
    files: Files,
    schema: ToolSchema,
}

/// Writes a file.
#[derive(Debug)]
pub struct WriteFile {
    files: Files,
    schema: ToolSchema,
    /// Of the thread that writes. None until it is known: then no item is written.
    capabilities: Capabilities,
}

impl ReadFile {
    /// Its id.
    pub(crate) const ID: &'static str = "rye/file-system/read";

    /// The tool for `project`.
    pub fn new(fs: Arc<dyn Fs>, project: Arc<Project>) -> Self {
        let schema = ToolSchema {
            name: super::model_name(Self::ID),
            description: "Reads a text file of the project.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path relative to the project"},
                    "offset": {"type": "integer", "minimum": 1, "description": "First line to read, from 1"},
                    "limit": {"type": "integer", "minimum": 1, "description": "Most lines to read"},
                },
                "required": ["path"],
            }),
        };
        Self {
            files: Files { fs, project },
            schema,
        }
    }
}

impl WriteFile {
    /// Its id.
    pub(crate) const ID: &'static str = "rye/file-system/write";

    /// The tool for `project`.
    pub fn new(fs: Arc<dyn Fs>, project: Arc<Project>) -> Self {
        let schema = ToolSchema {
            name: super::model_name(Self::ID),
            description: "Writes a text file of the project.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path relative to the project"},
                    "content": {"type": "string"},
                    "mode": {"enum": ["overwrite", "append", "create"], "default": "overwrite"},
                    "create_dirs": {"type": "boolean", "default": true},
                },
                "required": ["path", "content"],
            }),
        };
        Self {
            files: Files { fs, project },
            schema,
            capabilities: Capabilities::NONE,
        }
    }
}

impl Tool for ReadFile {
    fn id(&self) -> &str {
        Self::ID
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn parallel(&self, _: &Value) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let read = || {
            let path = self.files.path(&call.input["path"])?;
            let text = read_text(&*self.files.fs, &path)?;
            let offset = line_number(&call.input["offset"])?.unwrap_or(1);
            let limit = line_number(&call.input["limit"])?.unwrap_or(usize::MAX);
            let lines = text.split_inclusive('\n');
            Ok(lines.skip(offset - 1).take(limit).collect::<String>())
        };
        read().map_or_else(|why: String| Outcome::failed(why), Outcome::ok)
    }
}

impl Tool for WriteFile {
    fn id(&self) -> &str {
        Self::ID
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn under(&self, capabilities: &Capabilities) -> Option<Arc<dyn Tool>> {
        Some(Arc::new(Self {
            files: self.files.clone(),
            schema: self.schema.clone(),
            capabilities: capabilities.clone(),
        }))
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let write = || {
            let path = self.files.path(&call.input["path"])?;
            let relative = path
                .strip_prefix(self.files.project.root())
                .unwrap_or(&path);
            for name in self.files.names(&path, relative)? {
                place::writable(&name, &self.capabilities)?;
            }
            let content = call.input["content"]
                .as_str()
                .ok_or("`content` must be a text")?;
            if content.len() > MAX_FILE_WRITE_BYTES {
                return Err(format!("more than {MAX_FILE_WRITE_BYTES} bytes"));
            }
            if call.input["create_dirs"].as_bool() != Some(false)
                && let Some(folder) = path.parent()
            {
                std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
                // A link may have appeared there since the path was checked.
                self.files.inside(&path)?;
            }
            let mode = call.input["mode"].as_str().unwrap_or("overwrite");
            store(&path, mode, content.as_bytes())?;
            Ok(json!({"path": relative.to_string_lossy(), "bytes": content.len()}))
        };
        write().map_or_else(|why: String| Outcome::failed(why), Outcome::ok)
    }
}

impl Files {
    /// The file of a model's path.
    fn path(&self, path: &Value) -> Result<PathBuf, String> {
        let text = path.as_str().ok_or("`path` must be a text")?;
        let path = Path::new(text);
        let relative = path.strip_prefix(self.project.root()).unwrap_or(path);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if relative.as_os_str().is_empty()
            || text.contains('\0')
            || !relative.components().all(plain)
        {
            return Err(format!("{text:?} is no file of the project"));
        }
        let clean: PathBuf = relative
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        let full = self.project.root().join(clean);
        self.inside(&full)?;
        Ok(full)
    }

    /// Where `path` really leads, below the project: links on the way to it are followed.
    fn real(&self, path: &Path) -> Result<PathBuf, String> {
        let said = |error: std::io::Error| error.to_string();
        let root = self.fs.canonicalize(self.project.root()).map_err(said)?;
        let there = |path: &&Path| self.fs.symlink_metadata(path).is_ok();
        let known = path.ancestors().find(there).unwrap_or(path);
        let rest = path.strip_prefix(known).unwrap_or(Path::new(""));
        let real = self.fs.canonicalize(known).map_err(said)?.join(rest);
        Ok(real.strip_prefix(root).unwrap_or(&real).to_owned())
    }

    /// All names of the file below the project: the given one, the target of links, names through
    /// links of guarded folders.
    fn names(&self, path: &Path, relative: &Path) -> Result<Vec<PathBuf>, String> {
        let (root, real) = (self.project.root(), self.real(path)?);
        let mut names = vec![relative.to_owned(), real.clone()];
        for folder in place::guarded() {
            if let Ok(led) = self.fs.canonicalize(&root.join(folder)) {
                let led = led.strip_prefix(root).unwrap_or(&led);
                names.extend(place::also(&real, folder, led));
            }
        }
        Ok(names)
    }

    fn inside(&self, path: &Path) -> Result<(), String> {
        self.project
            .inside(&*self.fs, path)
            .map_err(|error| error.to_string())
    }
}

fn line_number(value: &Value) -> Result<Option<usize>, String> {
    match value {
        Value::Null => Ok(None),
        value => {
            let number = value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number
                .filter(|number| *number > 0)
                .map(Some)
                .ok_or_else(|| "a line number is 1 or more".to_owned())
        }
    }
}

fn read_text(fs: &dyn Fs, path: &Path) -> Result<String, String> {
    // A pipe or a device would never end, and is refused before it is opened.
    let bytes = read_small(fs, path, MAX_FILE_READ_BYTES).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8 text", path.display()))
}

fn store(path: &Path, mode: &str, content: &[u8]) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => return Err(format!("{}: {LINK}", path.display())),
        Ok(found) if !found.is_file() => {
            return Err(format!("{}: not a regular file", path.display()));
        }
        _ => {}
    }
    match mode {
        "overwrite" => {
            let folder = path.parent().ok_or("no folder")?;
            let mut file = tempfile::NamedTempFile::new_in(folder).map_err(said)?;
            file.write_all(content).map_err(said)?;
            keep_mode(path, file.as_file()).map_err(said)?;
            file.persist(path)
                .map(drop)
                .map_err(|error| said(error.error))
        }
        "append" => {
            let mut file = OpenOptions::new()
                .append(true)
                .create(true)
                // A link or a pipe may have appeared there since the path was checked.
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                .open(path)
                .map_err(said)?;
            file.write_all(content).map_err(said)
        }
        "create" => {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .map_err(said)?;
            file.write_all(content).map_err(said)
        }
        other => Err(format!("{other:?} is no mode: overwrite, append or create")),
    }
}

/// A replaced file keeps its permissions; a new one gets the default permissions.
fn keep_mode(path: &Path, file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = match path.metadata() {
        Ok(old) => old.permissions().mode(),
        Err(_) => 0o644,
    };
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests;
