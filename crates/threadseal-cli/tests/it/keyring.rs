//! The user's keyring as a second place of the log: a real Secret Service on its own bus, and buses
//! that are silent or absent.

use crate::marks::Kept;
use crate::prelude::*;
use std::os::unix::net::UnixListener;

/// A bus that starts no service on its own, least of all a locked keyring.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// The maximum number of probes of a keyring that starts.
const MAX_PROBES: usize = 1000;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bus with an empty, open keyring, in a folder that replaces the user's own.
struct Session {
    /// None after the keyring was stopped.
    keyring: Option<Running>,
    _bus: Running,
    address: String,
    folder: tempfile::TempDir,
}

impl Session {
    /// None, and a line that begins with `skipped: `, where the programs are not installed.
    fn start() -> Option<Self> {
        for program in ["dbus-daemon", "gnome-keyring-daemon"] {
            if !Path::new("/usr/bin").join(program).exists() {
                println!("skipped: {program} is not installed");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let (socket, settings) = (folder.path().join("bus"), folder.path().join("bus.conf"));
        let text = BUS.replace("SOCKET", socket.to_str().unwrap());
        fs::write(&settings, text).unwrap();
        let mut bus = Command::new("/usr/bin/dbus-daemon");
        bus.args(["--nofork", "--print-address", "--config-file"])
            .arg(&settings)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut bus = Running(bus.spawn().unwrap());
        let mut address = String::new();
        let said = bus.0.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut address).unwrap();
        let mut session = Self {
            keyring: None,
            _bus: bus,
            address: address.trim_end().to_owned(),
            folder,
        };
        session.unlock();
        Some(session)
    }

    /// Starts a keyring over the files of this folder.
    fn unlock(&mut self) {
        let mut keyring = Command::new("/usr/bin/gnome-keyring-daemon");
        keyring
            .args(["--foreground", "--unlock", "--components=secrets"])
            .env_clear()
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut keyring = keyring.spawn().unwrap();
        keyring
            .stdin
            .take()
            .unwrap()
            .write_all(b"correct horse")
            .unwrap();
        self.keyring = Some(Running(keyring));
        // The keyring is ready when a log can be kept in it.
        for _ in 0..MAX_PROBES {
            let probe = self.kept().sh("init --mark keyring");
            if probe.code == 0 && !probe.stderr.contains("warning") {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the keyring does not answer");
    }

    fn kept(&self) -> Kept {
        kept(&self.address)
    }
}

fn kept(bus: &str) -> Kept {
    Kept {
        sandbox: Sandbox::new(),
        environment: vec![("DBUS_SESSION_BUS_ADDRESS", bus.to_owned())],
    }
}

// T-MARK-15
#[test]
fn a_home_that_was_put_back_is_noticed_by_the_keyring_of_its_user() {
    let Some(session) = Session::start() else {
        return;
    };
    let kept = session.kept();
    kept.ok("init --mark keyring");
    assert_eq!(kept.status()["marks"][1]["place"], "keyring");
    kept.notices_that_it_was_put_back();
    kept.ok("log status")
        .prints("in keyring\n")
        .prints("every program of this user");
    // The keyring contains nothing about this log, only about another one.
    let other = session.kept();
    other.ok("init --mark keyring:");
    other.seal("a.json");
    other.ok("log status");
}

// T-MARK-15
#[test]
fn heads_sealed_without_the_keyring_wait_for_it_with_a_warning() {
    let Some(mut session) = Session::start() else {
        return;
    };
    let kept = session.kept();
    kept.ok("init --mark keyring");
    kept.seal("a.json");
    session.keyring = None;
    kept.seal("b.json")
        .warns("to be written")
        .warns("keyring: ");
    kept.sh("verify a.json --json").prints("mark_unreadable");
    kept.exits(3, "log status");
    session.unlock();
    kept.seal("c.json").warns_nothing();
    let status = kept.status();
    status.is(json!({"state": "good", "marks/1/size": status["size"]}));
    // A keyring that is lost for good can be removed from the places.
    session.keyring = None;
    kept.exits(2, "log restart --anyway");
    kept.ok("log mark remove keyring:");
    kept.ok("log status");
}

/// A place can be added and removed by either of its names, and refuses a copy that was rolled
/// back.
// T-MARK-15
#[test]
fn the_keyring_is_added_to_a_log_that_is_there_unless_it_contradicts_it() {
    let Some(session) = Session::start() else {
        return;
    };
    let kept = session.kept();
    kept.ok("init");
    kept.seal("a.json");
    kept.put_aside();
    kept.ok("log mark add keyring");
    assert_eq!(kept.status()["marks"][1]["size"], 3);
    kept.seal("b.json");
    kept.put_back();
    // The copy does not know that the place was added, and learns of the rollback when it names the
    // place.
    kept.ok("log status");
    kept.exits(2, "log mark add keyring:")
        .warns("log_rolled_back");
}

// T-MARK-15
#[test]
fn a_bus_that_never_answers_and_one_that_is_not_there_hold_up_no_seal() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("bus");
    // A client that connects waits for ever.
    let _silent = UnixListener::bind(&socket).unwrap();
    let silent = format!("unix:path={}", socket.display());
    let absent = format!("unix:path={}", folder.path().join("nothing").display());
    for (address, silent) in [(silent, true), (absent, false)] {
        let kept = kept(&address);
        kept.ok("init");
        kept.seal("a.json");
        // A log that had the keyring, and lost it.
        let logs = kept.sandbox.home().join("log");
        let id = read(logs.join("current"));
        let path = logs.join(id.trim_end()).join("log.json");
        let text = read(&path);
        fs::write(&path, text.replacen(']', ",\"keyring\"]", 1)).unwrap();
        kept.seal("b.json").warns("to be written");
        kept.exits(3, "log status")
            .prints("cannot be read: keyring: ");
        // Each of these commands would wait in vain for the silent bus.
        if silent {
            continue;
        }
        kept.ok("verify b.json");
        kept.exits(2, "log restart --anyway");
        kept.ok("log mark remove keyring");
        kept.exits(2, "log mark add keyring").warns("keyring: ");
        for bad in ["keyring:login", "keyring://user@login"] {
            kept.exits(2, format!("log mark add {bad}"));
        }
    }
}
