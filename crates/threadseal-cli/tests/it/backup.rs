//! `home backup|restore`.

use crate::prelude::*;
use age::secrecy::SecretString;
use std::os::unix::fs::PermissionsExt as _;

const PASSPHRASE: &str = "correct horse";

fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.write("pass", format!("{PASSPHRASE}\n"));
    sandbox.write("old.json", "{\"a\":1}\n");
    sandbox.ok("seal old.json");
    sandbox
}

fn back_up(sandbox: &Sandbox, name: &str) {
    sandbox.ok(format!("home backup -o {name} --passphrase-file pass"));
}

fn lose_home(sandbox: &Sandbox) {
    fs::remove_dir_all(sandbox.home()).unwrap();
}

fn restore(sandbox: &Sandbox, name: &str) -> Ran {
    sandbox.sh(format!("home restore {name} --passphrase-file pass"))
}

/// An age file with this archive inside.
fn sealed(archive: &[u8]) -> Vec<u8> {
    let mut recipient = age::scrypt::Recipient::new(SecretString::from(PASSPHRASE));
    recipient.set_work_factor(2);
    age::encrypt(&recipient, archive).unwrap()
}

fn header(kind: tar::EntryType, path: &str, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    // Raw bytes: the crate refuses to write bad paths.
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    header
}

const DESCRIPTION: &str = "{\"format\":\"threadseal-backup/1\",\"home\":\"/h\",\"made\":\"2026-01-01T00:00:00Z\",\"origin\":null}";

fn archive(entries: &[(tar::Header, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let name = "threadseal-backup.json";
    let first = header(tar::EntryType::Regular, name, DESCRIPTION.len() as u64);
    builder.append(&first, DESCRIPTION.as_bytes()).unwrap();
    for (header, bytes) in entries {
        builder.append(header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn a_lost_home_is_restored_and_seals_anew() {
    let sandbox = ready();
    let before = tree_digest(&sandbox.home().join("keys"));
    back_up(&sandbox, "home.age");
    let mode = fs::metadata(sandbox.path("home.age"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    lose_home(&sandbox);
    restore(&sandbox, "home.age").prints("nothing was logged after the backup");
    assert_eq!(tree_digest(&sandbox.home().join("keys")), before);
    for (path, mode) in [
        ("", 0o700),
        ("keys", 0o700),
        ("keys/self.native.key", 0o600),
    ] {
        let found = fs::metadata(sandbox.home().join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o777, mode, "{path:?}");
    }
    sandbox.ok("verify old.json");
    sandbox.write("new.json", "{}\n");
    sandbox.ok("seal new.json");
    sandbox.ok("verify old.json new.json");
    sandbox.ok("log fsck");
}

/// The commands of the drill in `docs/operators.md`.
#[test]
fn the_drill_of_the_operators_page_works() {
    let page = fs::read_to_string(threadseal_testkit::in_repository("docs/operators.md")).unwrap();
    let block = page.split("<!-- drill -->").nth(1).unwrap();
    let block = block.split("```").nth(1).unwrap();
    let lines: Vec<&str> = block
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .collect();
    assert!(lines.len() > 7, "{lines:?}");
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let program = Path::new(crate::sandbox::PROGRAM).parent().unwrap();
    for line in lines {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(sandbox.work());
        command.env("THREADSEAL_HOME", sandbox.home());
        command.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
        let done = command.output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {told}");
    }
}

// T-HOME-01
#[test]
fn a_restored_home_does_not_commit_onto_a_log_that_went_on() {
    let sandbox = ready();
    back_up(&sandbox, "home.age");
    sandbox.write("later.json", "{}\n");
    sandbox.ok("seal later.json");
    lose_home(&sandbox);
    let restored = restore(&sandbox, "home.age");
    assert_eq!(restored.code, 3, "{}", restored.stdout);
    restored.prints("threadseal log restart");
    sandbox.write("new.json", "{}\n");
    // A record is sealed all the same, and the log does not change.
    let log = fs::read_to_string(sandbox.home().join("log/current")).unwrap();
    let log = sandbox.home().join("log").join(log.trim());
    let files = ["checkpoint", "journal"].map(|name| log.join(name));
    let before = files.clone().map(|file| fs::read(file).unwrap());
    sandbox.ok("seal new.json").warns("log_rolled_back");
    assert_eq!(files.map(|file| fs::read(file).unwrap()), before);
    sandbox.ok("log restart");
    sandbox.ok("seal new.json");
    sandbox.ok("verify old.json new.json");
}

// T-HOME-06
#[test]
fn an_older_home_without_a_second_place_is_restored_with_a_warning() {
    let sandbox = ready();
    back_up(&sandbox, "home.age");
    sandbox.write("later.json", "{}\n");
    sandbox.ok("seal later.json");
    lose_home(&sandbox);
    fs::remove_dir_all(sandbox.home().with_file_name("home.marks")).unwrap();
    let restored = restore(&sandbox, "home.age").exits(3);
    restored.prints("no second place shows whether the log went on after the backup");
    let ran = sandbox.json("verify later.json");
    assert!(ran["results"][0].codes().contains(&"mark_missing"), "{ran}");
    sandbox.write("new.json", "{}\n");
    sandbox
        .ok("seal new.json")
        .warns("the second place of the log is gone");
    // Who kept the newer log elsewhere has the proof.
    sandbox.ok("log status").prints("state  good");
}

// T-HOME-02
#[test]
fn no_archive_writes_outside_of_the_home() {
    let sandbox = ready();
    lose_home(&sandbox);
    let parent = sandbox.home().parent().unwrap().to_owned();
    let (regular, link) = (tar::EntryType::Regular, tar::EntryType::Symlink);
    let mut linked = header(link, "keys/a", 0);
    linked.set_link_name("/tmp").unwrap();
    linked.set_cksum();
    let mut hard = header(tar::EntryType::Link, "keys/b", 0);
    hard.set_link_name("keys/c").unwrap();
    hard.set_cksum();
    let deep = format!("{}x", "d/".repeat(16));
    let file = |path: &str| (header(regular, path, 1), &b"x"[..]);
    let odd = |kind, path: &str| (header(kind, path, 0), &b""[..]);
    let cases: Vec<(&str, Vec<(tar::Header, &[u8])>)> = vec![
        ("parent", vec![file("../evil")]),
        ("inner parent", vec![file("keys/../../evil")]),
        ("absolute", vec![file("/tmp/evil")]),
        ("dot", vec![file("./evil")]),
        ("empty name", vec![file("keys//evil")]),
        ("folder name", vec![file("keys/")]),
        ("control", vec![file("a\nb")]),
        ("deep", vec![file(&deep)]),
        ("twice", vec![file("a"), file("a")]),
        ("file as folder", vec![file("a"), file("a/b")]),
        ("symlink", vec![(linked.clone(), &b""[..])]),
        (
            "through a symlink",
            vec![(linked, &b""[..]), file("keys/a/evil")],
        ),
        ("hard link", vec![(hard, &b""[..])]),
        ("folder", vec![odd(tar::EntryType::Directory, "d/")]),
        ("fifo", vec![odd(tar::EntryType::Fifo, "f")]),
        ("device", vec![odd(tar::EntryType::Char, "c")]),
        (
            "long name",
            vec![
                (header(tar::EntryType::GNULongName, "n", 1), &b"x"[..]),
                file("y"),
            ],
        ),
        (
            "extension",
            vec![
                (header(tar::EntryType::XHeader, "n", 1), &b"x"[..]),
                file("y"),
            ],
        ),
    ];
    for (name, entries) in cases {
        sandbox.write("bad.age", sealed(&archive(&entries)));
        let before = tree_digest(&parent);
        let refused = restore(&sandbox, "bad.age");
        assert_eq!(refused.code, 2, "{name}: {}", refused.stderr);
        assert_eq!(tree_digest(&parent), before, "{name}");
    }
    assert!(!Path::new("/tmp/evil").exists());
}

// T-HOME-03
#[test]
fn a_damaged_or_cut_backup_restores_nothing() {
    let sandbox = ready();
    back_up(&sandbox, "home.age");
    let whole = fs::read(sandbox.path("home.age")).unwrap();
    lose_home(&sandbox);
    let mut flipped = whole.clone();
    let last = flipped.len() - 20;
    flipped[last] ^= 1;
    let mut trailing = archive(&[(header(tar::EntryType::Regular, "a", 1), b"x")]);
    trailing.extend_from_slice(b"more");
    let other =
        b"{\"format\":\"threadseal-backup/2\",\"home\":\"/h\",\"made\":\"\",\"origin\":null}";
    let mut builder = tar::Builder::new(Vec::new());
    let first = header(
        tar::EntryType::Regular,
        "threadseal-backup.json",
        other.len() as u64,
    );
    builder.append(&first, &other[..]).unwrap();
    let later = builder.into_inner().unwrap();
    for (name, bytes) in [
        ("cut", whole[..whole.len() - 1].to_vec()),
        ("cut early", whole[..whole.len() / 2].to_vec()),
        ("flipped", flipped),
        ("empty", Vec::new()),
        ("no age", b"hello\n".to_vec()),
        ("trailing", sealed(&trailing)),
        ("no backup", sealed(b"")),
        ("later format", sealed(&later)),
    ] {
        sandbox.write("bad.age", bytes);
        let refused = restore(&sandbox, "bad.age");
        assert_eq!(refused.code, 2, "{name}: {}", refused.stderr);
        assert!(!sandbox.home().exists(), "{name}");
    }
    sandbox.write("wrong", "another\n");
    sandbox
        .sh("home restore home.age --passphrase-file wrong")
        .fails_with("cannot open");
    assert!(!sandbox.home().exists());
    // An empty folder may be there, and any file may not.
    fs::create_dir(sandbox.home()).unwrap();
    restore(&sandbox, "home.age");
    sandbox.ok("verify old.json");
    restore(&sandbox, "home.age").fails_with("there is a home");
}

#[test]
fn a_backup_is_for_recipients_too_and_replaces_no_file() {
    let sandbox = ready();
    let identity = age::x25519::Identity::generate();
    let secret = age::secrecy::ExposeSecret::expose_secret(&identity.to_string()).to_owned();
    let path = sandbox.write("age.txt", format!("# mine\n{secret}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.ok(format!(
        "home backup -o home.age --recipient {}",
        identity.to_public()
    ));
    sandbox
        .sh("home backup -o home.age --passphrase-file pass")
        .fails_with("exists");
    sandbox
        .sh("home backup -o x.age --recipient age1x")
        .fails_with("no recipient");
    let inside = sandbox.home().join("x.age");
    sandbox
        .sh(format!(
            "home backup -o {} --passphrase-file pass",
            inside.display()
        ))
        .fails_with("inside the home");
    lose_home(&sandbox);
    sandbox
        .sh("home restore home.age")
        .fails_with("--identity FILE");
    sandbox.ok("home restore home.age --identity age.txt");
    sandbox.ok("verify old.json");
}

// T-HOME-04
#[test]
fn a_backup_while_others_seal_and_rotate_restores_a_whole_home() {
    let sandbox = ready();
    let mut writers: Vec<Child> = ["a", "b"]
        .iter()
        .map(|name| {
            let path = sandbox.path(format!("{name}.sh"));
            let program = crate::sandbox::PROGRAM;
            let text = format!(
                "for i in 1 2 3 4; do echo '{{}}' > {name}$i.json; {program} seal -q {name}$i.json; done\n"
            );
            fs::write(&path, text).unwrap();
            let mut command = Command::new("sh");
            command
                .arg(path)
                .current_dir(sandbox.work())
                .env("THREADSEAL_HOME", sandbox.home())
                .env("HOME", sandbox.work())
                .spawn()
                .unwrap()
        })
        .collect();
    back_up(&sandbox, "1.age");
    sandbox.ok("key rotate self");
    back_up(&sandbox, "2.age");
    for writer in &mut writers {
        assert!(writer.wait().unwrap().success());
    }
    for name in ["1.age", "2.age"] {
        let home = sandbox.work().join(format!("{name}.home"));
        let shown = home.display();
        sandbox.sh(format!(
            "home restore {name} --passphrase-file pass --home {shown}"
        ));
        // Each file of the log and each key fits the others.
        // The log went on after the first backup, and that alone is found.
        let told = sandbox.sh(format!("log fsck --home {shown}"));
        let is_older = |line: &str| line.starts_with("log_rolled_back");
        assert!(
            told.code == 0 || told.stdout.lines().all(is_older),
            "{}",
            told.stdout
        );
        sandbox.ok(format!("key list --home {shown}"));
    }
}
