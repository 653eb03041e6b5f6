//! The machine that is looked at, as a value: folders, programs and variables of its user.
//!
//! Only the command reads the environment. It fills this value, and tests fill it with a folder of
//! their own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_store::sys::{FileKind, Fs};

/// The kind of the operating system, as far as places differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux and other systems with the folders of the XDG specification.
    Unix,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl System {
    /// The system that this program was built for.
    pub const HERE: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Unix
    };
}

/// Folders, programs and variables of a user.
#[derive(Debug, Clone)]
pub struct Machine {
    home: PathBuf,
    search: Vec<PathBuf>,
    variables: BTreeMap<&'static str, PathBuf>,
    system: System,
    root: PathBuf,
}

impl Machine {
    /// The variables that move folders of agents.
    pub const VARIABLES: [&'static str; 14] = [
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "CONTINUE_GLOBAL_DIR",
        "COPILOT_HOME",
        "GEMINI_CLI_HOME",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "GOOSE_PATH_ROOT",
        "MSWEA_GLOBAL_CONFIG_DIR",
        "PI_CODING_AGENT_DIR",
        "QWEN_HOME",
        "QWEN_RUNTIME_DIR",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ];

    /// A machine with the user's folder `home`, the value of `PATH`, and a look-up of variables.
    ///
    /// An empty variable counts as unset, and so does a relative one: it would name another place
    /// in every folder.
    ///
    /// # Errors
    /// When `home` is relative.
    pub fn new(
        home: PathBuf,
        path: Option<&OsStr>,
        variable: impl Fn(&str) -> Option<OsString>,
        system: System,
    ) -> Result<Self, Error> {
        if !home.is_absolute() {
            let shown = home.display();
            return Err(Error::invalid(format!(
                "HOME is {shown}, which is relative"
            )));
        }
        let variables = Self::VARIABLES.into_iter().filter_map(|name| {
            let value = PathBuf::from(variable(name)?);
            value.is_absolute().then_some((name, value))
        });
        let search = path.map(std::env::split_paths).into_iter().flatten();
        Ok(Self {
            variables: variables.collect(),
            search: search.filter(|folder| folder.is_absolute()).collect(),
            home,
            system,
            root: PathBuf::from("/"),
        })
    }

    /// The user's folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The system.
    pub fn system(&self) -> System {
        self.system
    }

    /// The same with another folder for the files of the whole machine.
    #[must_use]
    pub fn with_root(self, root: PathBuf) -> Self {
        Self { root, ..self }
    }

    /// A file of the whole machine, for all of its users.
    pub fn of_all_users(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(inner) => self.root.join(inner),
            Err(_) => path.to_owned(),
        }
    }

    /// The folder that `variable` names, or else `default` in the user's folder.
    pub fn folder(&self, variable: &str, default: &str) -> PathBuf {
        self.variable(variable)
            .map_or_else(|| self.home.join(default), Path::to_owned)
    }

    /// The value of a variable that moves folders.
    pub fn variable(&self, name: &str) -> Option<&Path> {
        self.variables.get(name).map(PathBuf::as_path)
    }

    /// Where programs keep settings.
    pub fn config(&self) -> PathBuf {
        self.folder("XDG_CONFIG_HOME", ".config")
    }

    /// Where programs with windows keep settings.
    pub fn application_support(&self) -> PathBuf {
        match self.system {
            System::MacOs => self.home.join("Library/Application Support"),
            System::Windows => self.home.join("AppData/Roaming"),
            System::Unix => self.config(),
        }
    }

    /// Where programs keep data.
    pub fn data(&self) -> PathBuf {
        self.folder("XDG_DATA_HOME", ".local/share")
    }

    /// A program that a shell of this user finds, or that is in one of the folders `also`.
    pub fn program(&self, fs: &dyn Fs, name: &str, also: &[PathBuf]) -> Option<PathBuf> {
        let names = match self.system {
            System::Windows => vec![format!("{name}.exe"), format!("{name}.cmd")],
            System::MacOs | System::Unix => vec![name.to_owned()],
        };
        let folders = self.search.iter().chain(also);
        let places = folders.flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let mut programs = places.filter(|place| self.is_program(fs, place));
        programs.next()
    }

    fn is_program(&self, fs: &dyn Fs, place: &Path) -> bool {
        let found = fs.metadata(place);
        found.is_ok_and(|found| {
            let may_run = found.mode & 0o111 != 0 || self.system == System::Windows;
            found.kind == FileKind::Regular && may_run
        })
    }

    /// A path as people write it: `~` for the user's folder.
    pub fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.home) {
            Ok(inner) if inner.as_os_str().is_empty() => "~".to_owned(),
            Ok(inner) => format!("~/{}", inner.display()),
            Err(_) => path.display().to_string(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use threadseal_store::sys::RealFs;

    /// A machine whose user has the folder `home`, with programs in `home/bin`.
    pub(crate) fn machine(home: &Path) -> Machine {
        let path = home.join("bin").into_os_string();
        Machine::new(home.to_owned(), Some(&path), |_| None, System::Unix).unwrap()
    }

    #[test]
    fn empty_and_relative_variables_count_as_unset() {
        let set = |name: &str| match name {
            "CODEX_HOME" => Some("here".into()),
            "COPILOT_HOME" => Some(OsString::new()),
            "QWEN_HOME" => Some("/else".into()),
            _ => None,
        };
        let machine = Machine::new("/u".into(), None, set, System::Unix).unwrap();
        assert_eq!(
            machine.folder("CODEX_HOME", ".codex"),
            Path::new("/u/.codex")
        );
        assert_eq!(machine.folder("COPILOT_HOME", ".x"), Path::new("/u/.x"));
        assert_eq!(machine.folder("QWEN_HOME", ".qwen"), Path::new("/else"));
        assert!(Machine::new("u".into(), None, |_| None, System::Unix).is_err());
    }

    #[test]
    fn a_program_is_a_file_that_may_run_in_a_folder_of_the_search_path() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        let bin = folder.path().join("bin");
        std::fs::create_dir_all(bin.join("codex")).unwrap();
        let program = bin.join("claude");
        std::fs::write(&program, "").unwrap();
        let find = |name| machine.program(&RealFs, name, &[]);
        assert_eq!(find("claude"), None);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("claude"), Some(program));
        assert_eq!(find("codex"), None);
    }

    #[test]
    fn paths_below_the_user_s_folder_are_shown_short() {
        let machine = machine(Path::new("/home/u"));
        let shown = |path: &str| machine.shown(Path::new(path));
        assert_eq!(shown("/home/u/.claude"), "~/.claude");
        assert_eq!(shown("/home/u"), "~");
        assert_eq!(shown("/home/user"), "/home/user");
    }
}
