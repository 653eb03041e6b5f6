//! The files of a new project: a tour of what a project declares, and its settings as comments. The
//! tour runs without a key, because a script in its settings answers where no model can.

use super::FOLDER_MODE;
use crate::context::Context;
use crate::exit::Failure;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_runtime::item::Finder;
use threadseal_runtime::project::Project;
use threadseal_store::atomic::{self, SHARED_FILE};
use threadseal_store::sys::directory_of;

/// The files, relative to the project.
const FILES: [(&str, &str); 8] = [
    (
        ".ai/directives/tour/report.md",
        include_str!("../../../scaffold/report.md"),
    ),
    (
        ".ai/directives/tour/judge.md",
        include_str!("../../../scaffold/judge.md"),
    ),
    (
        ".ai/tools/tour/words.yaml",
        include_str!("../../../scaffold/words.yaml"),
    ),
    (
        ".ai/graphs/tour/measure.yaml",
        include_str!("../../../scaffold/measure.yaml"),
    ),
    (
        ".ai/config/agent/models.yaml",
        include_str!("../../../scaffold/models.yaml"),
    ),
    (
        ".ai/config/agent/coordination.yaml",
        include_str!("../../../scaffold/coordination.yaml"),
    ),
    (
        ".ai/config/agent/resilience.yaml",
        include_str!("../../../scaffold/resilience.yaml"),
    ),
    ("tour/text.txt", include_str!("../../../scaffold/text.txt")),
];

/// Writes the missing files of the tour, and returns them. A project with items of its own gets
/// none.
///
/// # Errors
/// When the project cannot be read, or a file cannot be written.
pub(super) fn write(project: &Project, context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let root = project.root();
    let ours: BTreeSet<PathBuf> = FILES.iter().map(|(name, _)| root.join(name)).collect();
    let finder = Finder::new(Arc::clone(&context.fs), vec![root.to_owned()]);
    if finder.files()?.iter().any(|file| !ours.contains(file)) {
        return Ok(Vec::new());
    }
    let mut written = Vec::new();
    for (name, text) in FILES {
        let path = root.join(name);
        if context.fs.symlink_metadata(&path).is_ok() {
            continue;
        }
        project.inside(&*context.fs, &path)?;
        atomic::create_directories(&*context.fs, directory_of(&path), FOLDER_MODE)?;
        atomic::create_new(&*context.fs, &path, text.as_bytes(), SHARED_FILE)?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_runtime::config::coordination::Coordination;
    use threadseal_runtime::config::resilience::Resilience;
    use threadseal_runtime::yaml;

    /// The file with its settings in force: each comment of one `#` becomes a line.
    fn in_force(name: &str) -> String {
        let (_, text) = FILES.iter().find(|(file, _)| file.ends_with(name)).unwrap();
        let settings = text.lines().skip_while(|line| !line.is_empty());
        let lines = settings.map(|line| line.strip_prefix("# ").unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_commented_settings_are_valid_and_state_the_defaults() {
        let read = |name| {
            let text = in_force(name);
            assert!(!text.trim().is_empty(), "{name}");
            yaml::parse(name, &text).unwrap()
        };
        let mut coordination = Coordination::default();
        coordination.overlay(&read("coordination.yaml")).unwrap();
        assert_eq!(coordination, Coordination::default());
        let mut resilience = Resilience::default();
        resilience.overlay(&read("resilience.yaml")).unwrap();
        assert_eq!(resilience, Resilience::default());
    }
}
