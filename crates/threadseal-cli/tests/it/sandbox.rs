//! A place of its own for each test: empty home, empty working folder, no environment.

use crate::schemas;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use threadseal_core::digest::Digest;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_threadseal");

/// A folder in memory, if the machine has one with room for all tests: the commands wait for each
/// durable write, and there it costs nothing.
static MEMORY: LazyLock<Option<&str>> = LazyLock::new(|| {
    let folder = "/dev/shm";
    let free = Command::new("df").args(["-Pk", folder]).output().ok()?;
    let free = String::from_utf8(free.stdout).ok()?;
    let free: u64 = free
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    (free > 4 << 20).then_some(folder)
});

/// Two folders that are removed with the value: `work`, where commands run, and the home beside it.
pub(crate) struct Sandbox {
    root: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = match *MEMORY {
            Some(folder) => tempfile::tempdir_in(folder).unwrap(),
            None => tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(root.path().join("work")).unwrap();
        Self { root }
    }

    /// The working folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A file or folder under the working folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.work().join(name)
    }

    /// The text of a file under the working folder.
    #[track_caller]
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> String {
        read(self.path(name))
    }

    /// The home; made by `init`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Removes all knowledge of records from the host: heads, log and second place. The trust
    /// stays, and so do the keys except for the log's.
    pub(crate) fn forget(&self) {
        take_log_away(&self.home());
        for part in [
            self.home().join("heads"),
            self.home().with_file_name("home.marks"),
        ] {
            if part.exists() {
                std::fs::remove_dir_all(part).unwrap();
            }
        }
        std::fs::create_dir(self.home().join("heads")).unwrap();
    }

    /// Keeps the home or a folder as it is, below `before`, for [`Self::restore`].
    pub(crate) fn keep(&self, names: &[&str]) {
        for name in names {
            copy(&self.place(name), &self.path("before").join(name));
        }
    }

    /// Puts the home or a folder back as it was when it was kept.
    #[track_caller]
    pub(crate) fn restore(&self, name: &str) {
        put_back(&self.path("before").join(name), &self.place(name));
    }

    fn place(&self, name: &str) -> PathBuf {
        match name {
            "home" => self.home(),
            _ => self.path(name),
        }
    }

    /// Empties the store of heads, so that only the log still knows the records.
    pub(crate) fn forget_heads(&self) {
        empty(&self.home().join("heads"));
    }

    /// A copy of the home in the hands of a thief, without its log, which would show that it is a
    /// copy.
    pub(crate) fn stolen(&self) -> PathBuf {
        let home = set_aside(&self.home());
        take_log_away(&home);
        home
    }

    /// The verdict of the file at `path`, which may be verified together with others.
    #[track_caller]
    pub(crate) fn verdict_of(&self, path: impl AsRef<Path>, exit: i32) -> String {
        let path = path.as_ref().to_str().unwrap();
        let told = self.exits(exit, format!("verify {path:?} --json")).json();
        told.report_on(path)["verdict"].text().to_owned()
    }

    /// Everything verifies, and standard error is empty.
    #[track_caller]
    pub(crate) fn is_good(&self, paths: &str) {
        for line in [&format!("verify {paths}"), "log status", "log fsck"] {
            self.ok(line).warns_nothing();
        }
    }

    /// Writes a file under the working folder, with the folders it needs.
    pub(crate) fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// What `key list` shows of a key.
    #[track_caller]
    pub(crate) fn key(&self, name: &str) -> Value {
        self.json("key list")["keys"].item("name", name).clone()
    }

    /// Writes a file under the working folder and seals it; a document has the seal in it.
    #[track_caller]
    pub(crate) fn sealed(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.write(name, bytes);
        let is_log = name.ends_with("log") || name.ends_with("jsonl");
        let inline = if is_log { "" } else { "--inline" };
        self.ok(format!("seal {inline} {name:?}"));
    }

    /// Runs a command line with another home.
    pub(crate) fn in_home(&self, home: &Path, line: &str) -> Ran {
        let mut command = self.command();
        command.args(words(line)).env("THREADSEAL_HOME", home);
        Ran::of(command.output().unwrap())
    }

    /// The command with no environment except this sandbox.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .env("THREADSEAL_HOME", self.home())
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// Starts a command line, whose output is lost.
    pub(crate) fn spawn(&self, line: &str) -> Child {
        let mut command = self.command();
        command.args(words(line)).stdout(Stdio::null());
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs to the end in a session of its own, so that it has no terminal for questions.
    pub(crate) fn detached<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        let mut command = Command::new("setsid");
        command
            .arg("--wait")
            .arg(PROGRAM)
            .args(arguments)
            .env_clear()
            .env("THREADSEAL_HOME", self.home())
            .current_dir(self.work())
            .stdin(Stdio::null());
        Ran::of(command.output().unwrap())
    }
}

/// Runs commands to their end.
pub(crate) trait Shell {
    /// The only report of a command line, whose exit code fits the verdict.
    #[track_caller]
    fn report(&self, line: impl AsRef<str>) -> Value {
        let ran = self.sh(format!("{} --json", line.as_ref()));
        let results = &ran.json()["results"];
        assert_eq!(results.list().len(), 1, "{results}");
        assert_eq!(ran.code, exit_of(results[0]["verdict"].text()), "{results}");
        results[0].clone()
    }

    /// The verdict of the only report.
    #[track_caller]
    fn verdict(&self, line: impl AsRef<str>) -> String {
        self.report(line)["verdict"].text().to_owned()
    }

    /// Runs a command with arguments that a line cannot hold.
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran;

    /// Runs a command line: see [`words`].
    fn sh(&self, line: impl AsRef<str>) -> Ran {
        self.run(words(line.as_ref()))
    }

    /// Runs a command line that exits with this code.
    #[track_caller]
    fn exits(&self, code: i32, line: impl AsRef<str>) -> Ran {
        self.sh(line).exits(code)
    }

    /// Runs a command line that exits with 0.
    #[track_caller]
    fn ok(&self, line: impl AsRef<str>) -> Ran {
        self.exits(0, line)
    }

    /// The output of a command line with `--json` that exits with 0.
    #[track_caller]
    fn json(&self, line: impl AsRef<str>) -> Value {
        self.ok(format!("{} --json", line.as_ref())).json()
    }
}

/// Does a line refuse a record for evidence: `… is VERDICT: MESSAGE [CODE]`?
fn has_evidence(line: &str) -> bool {
    let is = |verdict: &&str| line.contains(&format!(" is {verdict}: "));
    line.contains(']') && EVIDENCE.iter().any(is)
}

/// The verdicts of exit code 1.
const EVIDENCE: [&str; 8] = [
    "forged",
    "tampered",
    "forked",
    "rolled_back",
    "truncated",
    "foreign",
    "missing",
    "malformed",
];

/// The exit code that a verdict has.
pub(crate) fn exit_of(verdict: &str) -> i32 {
    match verdict {
        "verified" => 0,
        "unknown_signer" | "unsigned" | "partial" | "consistent" | "unsigned_tail" | "open" => 3,
        _ => 1,
    }
}

impl Shell for Sandbox {
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        Ran::of(self.command().args(arguments).output().unwrap())
    }
}

/// Removes the log of a home, if it has one, and its key, which would show that the log is missing.
pub(crate) fn take_log_away(home: &Path) {
    let log = home.join("log");
    if log.exists() {
        std::fs::remove_dir_all(log).unwrap();
    }
    for key in std::fs::read_dir(home.join("keys")).unwrap() {
        let path = key.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("log-")
        {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Copies a folder with its whole content.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A copy of a folder, beside it, for [`put_back`].
pub(crate) fn set_aside(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let beside = |number: &u32| folder.with_file_name(format!("{name}-{number}"));
    let free = |number: &u32| !beside(number).exists();
    let to = beside(&(1..).find(free).unwrap());
    copy(folder, &to);
    to
}

/// Replaces a folder by a copy.
#[track_caller]
pub(crate) fn put_back(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).unwrap();
    copy(from, to);
}

/// Empties a folder.
#[track_caller]
pub(crate) fn empty(folder: &Path) {
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::create_dir(folder).unwrap();
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The result of a process that ended; its JSON must be as `spec/schemas` has it.
    pub(crate) fn of(output: Output) -> Self {
        let ran = Self {
            code: output.status.code().expect("the command was not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        schemas::check(&ran.stdout);
        ran
    }

    /// Checks that the exit code is `code`; shows everything if it is not.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "\n-- stdout\n{}\n-- stderr\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Checks that the command did not do it: exactly one line on standard error, which contains
    /// `part`, and exit 2; or exit 1, where the line names a record and the evidence against it.
    #[track_caller]
    pub(crate) fn fails_with(self, part: &str) -> Self {
        let ran = self.fails();
        assert_eq!(ran.stderr.lines().count(), 1, "one line: {}", ran.stderr);
        assert!(ran.stderr.starts_with("threadseal: "), "{}", ran.stderr);
        ran.stderr.has(part);
        ran
    }

    /// Checks that the command did not do it: exit 1 where standard error names a record and the
    /// evidence against it, else 2.
    #[track_caller]
    pub(crate) fn fails(self) -> Self {
        let code = if has_evidence(&self.stderr) { 1 } else { 2 };
        self.exits(code)
    }

    /// As [`Ran::fails_with`], for evidence against a record.
    #[track_caller]
    pub(crate) fn refuses_with(self, part: &str) -> Self {
        let ran = self.fails_with(part);
        assert!(has_evidence(&ran.stderr), "{}", ran.stderr);
        ran
    }

    /// Checks that standard output contains `part`.
    #[track_caller]
    pub(crate) fn prints(self, part: &str) -> Self {
        self.stdout.has(part);
        self
    }

    /// Checks that standard output does not contain `part`.
    #[track_caller]
    pub(crate) fn omits(self, part: &str) -> Self {
        self.stdout.lacks(part);
        self
    }

    /// Checks that standard output begins with `part`.
    #[track_caller]
    pub(crate) fn begins_with(self, part: &str) -> Self {
        assert!(
            self.stdout.starts_with(part),
            "{:?} does not begin with {part:?}",
            self.stdout
        );
        self
    }

    /// Checks that standard error contains `part`.
    #[track_caller]
    pub(crate) fn warns(self, part: &str) -> Self {
        self.stderr.has(part);
        self
    }

    /// Checks that standard error does not contain `part`.
    #[track_caller]
    pub(crate) fn does_not_warn(self, part: &str) -> Self {
        self.stderr.lacks(part);
        self
    }

    /// Checks that standard error is empty.
    #[track_caller]
    pub(crate) fn warns_nothing(self) -> Self {
        assert_eq!(self.stderr, "");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.stdout))
    }
}

/// Checks of a text that show the text when they fail.
pub(crate) trait Text {
    fn has(&self, part: &str) -> &Self;
    fn lacks(&self, part: &str) -> &Self;
}

impl Text for str {
    #[track_caller]
    fn has(&self, part: &str) -> &Self {
        assert!(
            self.contains(part),
            "{part:?} is not in
{self}"
        );
        self
    }

    #[track_caller]
    fn lacks(&self, part: &str) -> &Self {
        assert!(
            !self.contains(part),
            "{part:?} is in
{self}"
        );
        self
    }
}

/// Codes of findings: each is whole.
impl<S: AsRef<str> + std::fmt::Debug> Text for [S] {
    #[track_caller]
    fn has(&self, part: &str) -> &Self {
        assert!(
            self.iter().any(|code| code.as_ref() == part),
            "{part} is not in {self:?}"
        );
        self
    }

    #[track_caller]
    fn lacks(&self, part: &str) -> &Self {
        assert!(
            self.iter().all(|code| code.as_ref() != part),
            "{part} is in {self:?}"
        );
        self
    }
}

/// Members of JSON that must have a type; a failure shows the value.
pub(crate) trait Json {
    fn text(&self) -> &str;
    fn list(&self) -> &Vec<Value>;
    fn number(&self) -> u64;
    /// A text member of each item of an array.
    fn texts(&self, member: &str) -> Vec<&str>;
    /// The codes of a report's findings, or of the findings of all reports.
    fn codes(&self) -> Vec<&str>;
    /// The item of an array with this member.
    fn item(&self, member: &str, value: &str) -> &Value;
    /// The report on a file.
    fn report_on(&self, path: &str) -> &Value;
    /// Checks these members; `a/0/b` is a member of a member.
    fn is(&self, expected: Value);
}

impl Json for Value {
    #[track_caller]
    fn text(&self) -> &str {
        self.as_str()
            .unwrap_or_else(|| panic!("not a string: {self}"))
    }

    #[track_caller]
    fn list(&self) -> &Vec<Value> {
        self.as_array()
            .unwrap_or_else(|| panic!("not an array: {self}"))
    }

    #[track_caller]
    fn number(&self) -> u64 {
        self.as_u64()
            .unwrap_or_else(|| panic!("not a number: {self}"))
    }

    #[track_caller]
    fn texts(&self, member: &str) -> Vec<&str> {
        let items = self.list().iter();
        items.map(|item| item[member].text()).collect()
    }

    #[track_caller]
    fn codes(&self) -> Vec<&str> {
        match self.get("results") {
            Some(results) => results.list().iter().flat_map(Json::codes).collect(),
            None => self["findings"].texts("code"),
        }
    }

    #[track_caller]
    fn item(&self, member: &str, value: &str) -> &Value {
        let item = self.list().iter().find(|item| item[member] == value);
        item.unwrap_or_else(|| panic!("no {member} {value}: {self:#}"))
    }

    #[track_caller]
    fn report_on(&self, path: &str) -> &Value {
        let mut reports = self["results"].list().iter();
        let report = reports.find(|report| report["path"].text().ends_with(path));
        report.unwrap_or_else(|| panic!("no report on {path}: {self:#}"))
    }

    #[track_caller]
    fn is(&self, expected: Value) {
        for (path, expected) in expected.as_object().unwrap() {
            let found = self.pointer(&format!("/{path}")).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{path} of {self:#}");
        }
    }
}

/// The words of a command line. Blanks separate them; a word in quotes may contain blanks. In double
/// quotes the escapes of Rust count, so that a line may contain `{path:?}`.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, ' ') => words.extend(word.take()),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if letter == open => quote = None,
            (Some('"'), '\\') => {
                let letter = match letters.next() {
                    Some('n') => '\n',
                    Some('u') => {
                        let code: String = letters.by_ref().take_while(|c| *c != '}').collect();
                        let code = u32::from_str_radix(&code[1..], 16).unwrap();
                        char::from_u32(code).unwrap()
                    }
                    Some(letter @ ('"' | '\\' | '\'')) => letter,
                    other => panic!("no escape: {other:?}"),
                };
                word.get_or_insert_default().push(letter);
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    assert_eq!(quote, None, "the quotes of {line:?} do not end");
    words.extend(word);
    words
}

/// The text of a file.
#[track_caller]
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a file, with their ends.
#[track_caller]
pub(crate) fn lines(path: impl AsRef<Path>) -> Vec<String> {
    let text = read(path);
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// A file as JSON.
#[track_caller]
pub(crate) fn json_file(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

/// The lines of a file as JSON.
#[track_caller]
pub(crate) fn json_lines(path: impl AsRef<Path>) -> Vec<Value> {
    let lines = lines(path).into_iter();
    lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

/// Removes the last line of a file.
pub(crate) fn cut_line(path: &Path) {
    let lines = lines(path);
    std::fs::write(path, lines[..lines.len() - 1].concat()).unwrap();
}

/// Cuts a native transcript after the seal before the last.
pub(crate) fn cut_to_seal(path: &Path) {
    let mut lines = lines(path);
    lines.pop();
    let seal = |line: &String| line.contains("\"event_type\":\"checkpoint\"");
    let last = lines.iter().rposition(seal).unwrap();
    std::fs::write(path, lines[..=last].concat()).unwrap();
}

/// Writes other bytes into a file for the time of a check.
#[track_caller]
pub(crate) fn while_it_holds(path: &Path, bytes: impl AsRef<[u8]>, check: impl FnOnce()) {
    let whole = std::fs::read(path).unwrap();
    assert_ne!(
        bytes.as_ref(),
        whole,
        "{}: nothing was changed",
        path.display()
    );
    std::fs::write(path, bytes).unwrap();
    check();
    std::fs::write(path, whole).unwrap();
}

/// The name of a file or folder.
pub(crate) fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Replaces the first `from` in a file.
#[track_caller]
pub(crate) fn replace(path: impl AsRef<Path>, from: &str, to: &str) {
    let text = read(&path);
    text.has(from);
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// Compares with `tests/snapshots/<name>.txt`; `THREADSEAL_BLESS=1` writes it instead.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let bless = option_env("THREADSEAL_BLESS").is_some();
    threadseal_store::snapshot::check(&folder.join(format!("{name}.txt")), text, bless);
}

/// An environment variable of the test run.
#[expect(
    clippy::disallowed_methods,
    reason = "tests read their environment here"
)]
pub(crate) fn option_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

/// A part of the test data beside the project, if it exists.
pub(crate) fn shared(part: &str) -> Option<PathBuf> {
    let root = option_env("THREADSEAL_SHARED")
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let path = root.join(part);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: no {part}");
    None
}

/// One digest of the names and bytes of every file below `root`, and of the folders' names.
pub(crate) fn tree_digest(root: &Path) -> String {
    digest(walk(root))
}

/// One digest of the names and bytes of every file below `root`.
pub(crate) fn files_digest(root: &Path) -> String {
    let is_folder = |path: &PathBuf| std::fs::symlink_metadata(path).unwrap().is_dir();
    digest(
        walk(root)
            .into_iter()
            .filter(|path| !is_folder(path))
            .collect(),
    )
}

/// Larger sparse files, which no disk could hold, are compared by their size alone.
const HASHED_BYTES_MAX: u64 = 64 << 20;

fn digest(mut paths: Vec<PathBuf>) -> String {
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend_from_slice(path.as_os_str().as_encoded_bytes());
        let found = std::fs::symlink_metadata(&path).unwrap();
        if found.is_file() && found.len() < HASHED_BYTES_MAX {
            let bytes = std::fs::read(&path).unwrap();
            all.extend_from_slice(Digest::of(&bytes).as_bytes());
        }
        if !found.is_dir() {
            all.extend_from_slice(&found.len().to_be_bytes());
        }
    }
    Digest::of(&all).to_hex()
}

/// Everything below `root`.
pub(crate) fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}
