//! The watcher as a service of the user: a unit of systemd, or an agent of launchd.
//!
//! ```text
//! systemd   $XDG_CONFIG_HOME/systemd/user/threadseal.service      systemctl --user
//! launchd   ~/Library/LaunchAgents/dev.threadseal.watch.plist     launchctl
//! ```
//! The file is ours as a whole, and its first line proves that no one edited it.

use crate::agent::machine::{Machine, System};
use crate::process::{self, Ended};
use crate::settings::plugin::{XML_END, marked};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::sys::Fs;

/// How long a service manager may take.
const LIMIT: Duration = Duration::from_secs(20);
const UNIT: &str = "threadseal.service";
const LABEL: &str = "dev.threadseal.watch";

/// A program that runs services of a user.
#[derive(Debug, Clone)]
pub struct ServiceManager {
    kind: Kind,
    program: PathBuf,
    uid: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Systemd,
    Launchd,
}

impl ServiceManager {
    /// The service manager of this machine, if it has one.
    pub fn of(machine: &Machine, fs: &dyn Fs) -> Option<Self> {
        let (kind, name) = match machine.system() {
            System::Unix => (Kind::Systemd, "systemctl"),
            System::MacOs => (Kind::Launchd, "launchctl"),
            System::Windows => return None,
        };
        let program = machine.program(fs, name, &[])?;
        let uid = fs.effective_uid();
        Some(Self { kind, program, uid })
    }

    /// The file of the service.
    pub fn file(&self, machine: &Machine) -> PathBuf {
        match self.kind {
            Kind::Systemd => machine.config().join("systemd/user").join(UNIT),
            Kind::Launchd => {
                let agents = machine.home().join("Library/LaunchAgents");
                agents.join(format!("{LABEL}.plist"))
            }
        }
    }

    /// The text of that file.
    pub fn text(&self, program: &Path, home: Option<&Path>) -> String {
        let mut words = vec![program.to_string_lossy().into_owned(), "watch".to_owned()];
        if let Some(home) = home {
            words.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
        }
        match self.kind {
            Kind::Systemd => systemd(&words),
            Kind::Launchd => launchd(&words),
        }
    }

    /// How people call it.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Systemd => "systemd user unit threadseal.service",
            Kind::Launchd => "launchd agent dev.threadseal.watch",
        }
    }

    /// Does it run for this user?
    pub fn is_there(&self) -> bool {
        match self.kind {
            Kind::Systemd => self.succeeds(&["--user", "show-environment"]),
            Kind::Launchd => self.succeeds(&["print", &self.domain()]),
        }
    }

    /// Does the service run?
    pub fn is_running(&self) -> bool {
        match self.kind {
            Kind::Systemd => self.succeeds(&["--user", "is-active", "--quiet", UNIT]),
            Kind::Launchd => self.succeeds(&["print", &self.target()]),
        }
    }

    /// Starts the service now and at each login; a running one is started anew.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, machine: &Machine) -> Result<(), Error> {
        match self.kind {
            Kind::Systemd => {
                self.call(&["--user", "daemon-reload"])?;
                self.call(&["--user", "enable", "--quiet", UNIT])?;
                self.call(&["--user", "restart", UNIT])
            }
            Kind::Launchd => {
                // A service of an older version may run; none is no error.
                self.succeeds(&["bootout", &self.target()]);
                let file = self.file(machine);
                self.call(&["bootstrap", &self.domain(), &file.to_string_lossy()])
            }
        }
    }

    /// Stops the service, now and for later logins.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Systemd => self.call(&["--user", "disable", "--now", "--quiet", UNIT]),
            Kind::Launchd => self.call(&["bootout", &self.target()]),
        }
    }

    /// Lets the manager forget a file that was removed.
    pub fn forget(&self) {
        if self.kind == Kind::Systemd {
            // It also reads its files anew at the next login.
            self.succeeds(&["--user", "daemon-reload"]);
        }
    }

    /// The command that starts the service by hand.
    pub fn start_command(&self, machine: &Machine) -> String {
        match self.kind {
            Kind::Systemd => format!("systemctl --user enable --now {UNIT}"),
            Kind::Launchd => {
                let file = self.file(machine);
                format!("launchctl bootstrap {} {}", self.domain(), file.display())
            }
        }
    }

    fn domain(&self) -> String {
        format!("gui/{}", self.uid)
    }

    fn target(&self) -> String {
        format!("gui/{}/{LABEL}", self.uid)
    }

    fn run(&self, arguments: &[&str]) -> Result<Ended, Error> {
        let mut command = Command::new(&self.program);
        process::run(command.args(arguments), b"", LIMIT)
    }

    fn succeeds(&self, arguments: &[&str]) -> bool {
        self.run(arguments).is_ok_and(|ended| ended.succeeded())
    }

    fn call(&self, arguments: &[&str]) -> Result<(), Error> {
        let ended = self.run(arguments)?;
        if ended.succeeded() {
            return Ok(());
        }
        let program = self.program.file_name().unwrap_or_default();
        let program = program.to_string_lossy();
        let call = arguments.join(" ");
        let why = ended.reason();
        let text = format!("{program} {call} failed: {why}");
        Err(Error::new(ErrorKind::External, text))
    }
}

fn systemd(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let body = format!(
        "[Unit]\n\
         Description=ThreadSeal: seal the sessions of agents as they grow\n\
         Documentation=man:threadseal-watch(1)\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         Nice=10\n\
         UMask=0077\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        words.join(" ")
    );
    marked("#", "", &body)
}

/// A word of `ExecStart`: `%` begins a specifier there, `$` a variable.
fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"");
    let word = word.replace('%', "%%").replace('$', "$$");
    format!("\"{word}\"")
}

fn launchd(words: &[String]) -> String {
    let escaped = |word: &String| {
        let word = word.replace('&', "&amp;").replace('<', "&lt;");
        format!("    <string>{}</string>\n", word.replace('>', "&gt;"))
    };
    let words: String = words.iter().map(escaped).collect();
    let body = format!(
        "<plist version=\"1.0\">\n<dict>\n\
         \x20 <key>Label</key>\n  <string>{LABEL}</string>\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n\
         \x20 <key>RunAtLoad</key>\n  <true/>\n\
         \x20 <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n\
         \x20 <key>ProcessType</key>\n  <string>Background</string>\n\
         \x20 <key>Umask</key>\n  <integer>63</integer>\n\
         </dict>\n</plist>\n"
    );
    marked("<!--", XML_END, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::plugin::is_unedited;

    fn manager(kind: Kind) -> ServiceManager {
        ServiceManager {
            kind,
            program: "/usr/bin/manager".into(),
            uid: 501,
        }
    }

    #[test]
    fn a_unit_runs_the_program_whatever_its_path_holds() {
        let program = Path::new("/opt/100% \"x\"/$HOME/threadseal");
        let text = manager(Kind::Systemd).text(program, Some(Path::new("/srv/h")));
        let line = text.lines().find(|line| line.starts_with("ExecStart="));
        assert_eq!(
            line,
            Some(
                "ExecStart=\"/opt/100%% \\\"x\\\"/$$HOME/threadseal\" \"watch\" \"--home\" \"/srv/h\""
            )
        );
        assert!(is_unedited(&text), "{text}");
        let plist = manager(Kind::Launchd).text(Path::new("/a&b/<c>"), None);
        assert!(
            plist.contains("<string>/a&amp;b/&lt;c&gt;</string>"),
            "{plist}"
        );
        assert!(is_unedited(&plist) && !is_unedited(&plist.replace("true", "false")));
    }

    #[test]
    fn a_machine_without_a_manager_has_no_service() {
        let folder = tempfile::tempdir().unwrap();
        let machine = crate::agent::machine::tests::machine(folder.path());
        assert!(ServiceManager::of(&machine, &threadseal_store::sys::RealFs).is_none());
    }
}
