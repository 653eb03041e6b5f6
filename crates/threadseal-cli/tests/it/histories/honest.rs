//! The steps that the owner of records and the programs that write them take.

use super::world::{KINDS, Kind, Record, World};
use crate::prelude::*;
use crate::prune_kinds::STEP;
use crate::scroll::{piped, turn};
use std::os::unix::fs::PermissionsExt as _;

/// Records of one history.
const MOST_RECORDS: usize = 5;

/// Microseconds after which a seal is killed: it takes some milliseconds.
const LATEST_KILL: usize = 12_000;

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";

type Step = fn(&mut World, usize);

const OF_LOGS: [Step; 15] = [
    grow, grow, grow, seal, seal, seal, finish, rename, move_alone, rotate, crash, race, convert,
    write_half, clean_up,
];

/// Takes one step: a new record, or a step of one that is there.
pub(super) fn step(world: &mut World) {
    let count = world.records.len();
    if count == 0 || (count < MOST_RECORDS && world.random.below(4) == 0) {
        return begin(world);
    }
    let index = world.random.below(count);
    let own: &[Step] = match world.records[index].kind {
        Kind::Log => &OF_LOGS,
        Kind::Document => &[edit, edit, rename, rotate_key],
        Kind::Transcript => &[go_on, go_on, end, rename, rotate_key],
        Kind::Scroll => &[rename],
        Kind::Ledger | Kind::Lineage => &[append, append],
    };
    let any: [Step; 2] = [copy_and_look, restore];
    let chosen = world.random.below(own.len() + any.len());
    let step = own.get(chosen).copied();
    step.unwrap_or_else(|| any[chosen - own.len()])(world, index);
}

/// Begins a record of any kind.
fn begin(world: &mut World) {
    let kind = world.random.pick(&KINDS);
    let number = world.number();
    let name = match kind {
        Kind::Log => format!("logs/{number}.jsonl"),
        Kind::Document => {
            let ending = world.random.pick(&["json", "md"]);
            format!("documents/{number}.{ending}")
        }
        Kind::Transcript => format!("threads/{number}.jsonl"),
        Kind::Scroll => format!("scrolls/{number}.json"),
        Kind::Ledger => {
            let store = world.random.pick(&["file:runs-", "sqlite:runs.db-"]);
            format!("{store}{number}")
        }
        Kind::Lineage => format!("file:agents-{number}"),
    };
    world.note(format!("begin {kind:?} {name}"));
    let is_signed = kind != Kind::Ledger || world.random.below(2) == 0;
    world.records.push(Record {
        kind,
        name: name.clone(),
        number,
        count: 0,
        is_signed,
        is_sealed: kind != Kind::Log,
        is_whole: kind != Kind::Log,
        is_final: false,
        is_of_ended_key: false,
        earlier: None,
    });
    let index = world.records.len() - 1;
    match kind {
        Kind::Log => {
            grow(world, index);
            if world.random.below(2) == 0 {
                seal(world, index);
            }
        }
        Kind::Document => {
            let text = match name.ends_with("json") {
                true => format!("{{\"n\":{number}}}\n"),
                false => format!("# Rules\n\nRule {number}\n"),
            };
            world.sandbox.write(&name, text);
            let inline = world.random.pick(&["", " --inline"]);
            world.ok(&format!("seal {name}{inline}"));
        }
        Kind::Transcript => {
            open_record(&world.sandbox, &name, 1);
        }
        Kind::Scroll => {
            fs::create_dir_all(world.sandbox.path("scrolls")).unwrap();
            let count = world.random.below(3) as u64 + 1;
            let line = format!("scroll seal --key self-scroll --out {name}");
            let turns: Vec<String> = (0..count)
                .map(|place| turn(place, &format!("text {number}")))
                .collect();
            let turns = format!("[{}]", turns.join(","));
            piped(&world.sandbox, &line, &turns).exits(0);
        }
        Kind::Ledger | Kind::Lineage => append(world, index),
    }
}

/// A line as Claude Code writes it, like no other one.
fn line(world: &mut World) -> String {
    let number = world.number();
    format!(
        "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"sessionId\":\"s\",\"timestamp\":\"2026-01-01T00:00:00Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"text {number}\"}}}}\n"
    )
}

fn write(world: &World, index: usize, text: &str) {
    let path = world.sandbox.path(&world.records[index].name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

/// The agent writes lines, also after a final seal.
fn grow(world: &mut World, index: usize) {
    let lines = world.random.below(3) + 1;
    let text: String = (0..lines).map(|_| line(world)).collect();
    write(world, index, &text);
    world.note(format!("{} grows by {lines}", world.records[index].name));
    world.records[index].is_whole = false;
}

/// The agent is in the middle of a line while the log is sealed.
fn write_half(world: &mut World, index: usize) {
    let text = line(world);
    let (begin, end) = text.split_at(text.len() / 2);
    world.records[index].is_whole = false;
    write(world, index, begin);
    world.note(format!("{} has half a line", world.records[index].name));
    if !world.records[index].is_final {
        seal_line(world, index, "");
        world.records[index].is_whole = false;
    }
    world.judge();
    write(world, index, end);
}

/// Seals the log; one that continues after its end becomes another record.
fn seal(world: &mut World, index: usize) {
    seal_line(world, index, "");
}

fn finish(world: &mut World, index: usize) {
    seal_line(world, index, " --final");
}

fn seal_line(world: &mut World, index: usize, end: &str) {
    keep_earlier(world, index);
    let record = world.records[index].clone();
    let restart = match record.is_final && !record.is_whole {
        true => " --restart --why resumed",
        false => "",
    };
    world.ok(&format!("seal --detached {}{end}{restart}", record.name));
    let of = &mut world.records[index];
    if !restart.is_empty() {
        of.earlier = None;
        of.is_final = false;
    }
    of.is_final |= !end.is_empty();
    (of.is_sealed, of.is_whole) = (true, true);
}

/// Keeps the files as an attacker finds them before the next seal.
fn keep_earlier(world: &mut World, index: usize) {
    let record = &world.records[index];
    if record.is_sealed && record.is_whole {
        let content = record.content(&world.sandbox);
        world.records[index].earlier = Some(content);
    }
}

/// Moves a file with the seals beside it.
fn rename(world: &mut World, index: usize) {
    move_to(world, index, true);
}

/// Moves a log without its seals.
fn move_alone(world: &mut World, index: usize) {
    move_to(world, index, false);
}

fn move_to(world: &mut World, index: usize, with_seals: bool) {
    let number = world.number();
    let record = world.records[index].clone();
    let (folder, file) = record.name.split_once('/').unwrap();
    let ending = file.rsplit_once('.').unwrap().1;
    let folder = match world.random.below(2) {
        0 => folder.to_owned(),
        _ => format!("{folder}/old"),
    };
    let to = format!("{folder}/{number}.{ending}");
    world.note(format!("{} to {to}, with seals: {with_seals}", record.name));
    fs::create_dir_all(world.sandbox.path(folder)).unwrap();
    for (path, end) in record.files(&world.sandbox).iter().zip(["", ".seal"]) {
        if end.is_empty() || with_seals {
            fs::rename(path, world.sandbox.path(format!("{to}{end}"))).unwrap();
        }
    }
    let of = &mut world.records[index];
    of.name = to;
    // What an attacker has kept is of another place.
    of.earlier = None;
}

/// The program moves its log away and begins another one in its place.
fn rotate(world: &mut World, index: usize) {
    let record = world.records[index].clone();
    let moved = format!("{}.{}", record.name, world.number());
    world.note(format!("{} is rotated to {moved}", record.name));
    let (from, to) = (&record.name, world.sandbox.path(&moved));
    fs::rename(world.sandbox.path(from), to).unwrap();
    world.records[index].name = moved;
    world.records[index].earlier = None;
    world.records.push(Record {
        is_sealed: false,
        is_whole: false,
        is_final: false,
        is_of_ended_key: false,
        earlier: None,
        ..record
    });
    grow(world, world.records.len() - 1);
}

/// A seal is killed at any point.
fn crash(world: &mut World, index: usize) {
    if world.records[index].is_final {
        return;
    }
    let line = format!("seal --detached {}", world.records[index].name);
    let mut process = world.sandbox.spawn(&line);
    let after = world.random.below(LATEST_KILL) as u64;
    std::thread::sleep(Duration::from_micros(after));
    process.kill().unwrap();
    process.wait().unwrap();
    world.note(format!("{line}: killed after {after} us"));
    world.records[index].is_whole = false;
    world.records[index].earlier = None;
}

/// Programs seal and verify one log at the same time.
fn race(world: &mut World, index: usize) {
    if world.records[index].is_final {
        return;
    }
    keep_earlier(world, index);
    let name = world.records[index].name.clone();
    world.note(format!(
        "three seals and two verifications of {name} at once"
    ));
    let lines = [
        "seal --detached",
        "verify",
        "seal --detached",
        "verify",
        "seal --detached",
    ];
    let lines = lines.map(|command| format!("{command} {name}"));
    let started: Vec<(String, Child)> = lines
        .into_iter()
        .map(|line| {
            let mut command = world.sandbox.command();
            command.args(words(&line)).stdout(Stdio::piped());
            let process = command.stderr(Stdio::piped()).spawn().unwrap();
            (line, process)
        })
        .collect();
    for (line, process) in started {
        let ran = Ran::of(process.wait_with_output().unwrap());
        // A file of any name is no record before its first seal.
        let may: &[i32] = match line.starts_with("seal") {
            true => &[0],
            false if world.records[index].is_sealed => &[0, 3],
            false => &[0, 2, 3],
        };
        let (out, error) = (&ran.stdout, &ran.stderr);
        assert!(
            may.contains(&ran.code),
            "{line}: {}\n{out}\n{error}",
            ran.code
        );
    }
    let of = &mut world.records[index];
    (of.is_sealed, of.is_whole) = (true, true);
}

/// A scroll is made from the log, which may grow afterwards.
fn convert(world: &mut World, index: usize) {
    let number = world.number();
    let name = format!("scrolls/{number}.json");
    fs::create_dir_all(world.sandbox.path("scrolls")).unwrap();
    let from = &world.records[index].name;
    world.ok(&format!(
        "scroll from claude-code {from} --key self-scroll --out {name}"
    ));
    world.records.push(Record {
        kind: Kind::Scroll,
        name,
        number,
        count: 0,
        is_signed: true,
        is_sealed: true,
        is_whole: true,
        is_final: false,
        is_of_ended_key: false,
        earlier: None,
    });
}

/// A person edits a document and seals it again.
fn edit(world: &mut World, index: usize) {
    keep_earlier(world, index);
    let number = world.number();
    let record = world.records[index].clone();
    let path = world.sandbox.path(&record.name);
    for mark in ["\"n\":", "Rule "] {
        let (from, to) = (record.number, number);
        let text = read(&path).replace(&format!("{mark}{from}"), &format!("{mark}{to}"));
        fs::write(&path, text).unwrap();
    }
    world.records[index].number = number;
    world.ok(&format!("seal {}", record.name));
}

/// The agent adds a turn to its record.
fn go_on(world: &mut World, index: usize) {
    if world.records[index].is_final {
        return;
    }
    keep_earlier(world, index);
    let path = world.sandbox.path(&world.records[index].name);
    let mut recorder = reopened(&world.sandbox, &path, "self-rye.rye");
    say(&mut recorder, "cognition_in", "one more question");
    world.records[index].count += 1;
    let turn = world.records[index].count as u64 + 1;
    recorder.seal(turn, Ext::default()).unwrap();
    world.note(format!("{} has turn {turn}", world.records[index].name));
}

fn end(world: &mut World, index: usize) {
    if world.records[index].is_final {
        return;
    }
    keep_earlier(world, index);
    world.ok(&format!("seal {} --final", world.records[index].name));
    world.records[index].is_final = true;
}

/// A record of a run, or a checkpoint. Runs without signatures have the same id: signed ones are
/// bound to theirs.
fn append(world: &mut World, index: usize) {
    let of = &world.records[index];
    if of.kind == Kind::Ledger && of.is_signed && of.is_of_ended_key {
        return append_with_successor(world, index);
    }
    if of.count > 0 {
        keep_earlier(world, index);
    }
    world.records[index].count += 1;
    let Record {
        kind,
        name,
        number,
        count,
        is_signed,
        ..
    } = world.records[index].clone();
    world.note(format!("append to {name}"));
    if kind == Kind::Lineage {
        world.sandbox.write("state", format!("state {count}"));
        let own = "--state state --budget 100 --price 10";
        return world.ok(&format!(
            "lineage append {name} --agent counter{number} {own} --tick {count} --code {CODE}"
        ));
    }
    let run = match is_signed {
        true => format!("r{number} --sign"),
        false => "run".to_owned(),
    };
    let line = format!("ledger append {name} --run {run}");
    piped(&world.sandbox, &line, STEP).exits(0);
}

/// A ledger names its signers, and the key that could name another one has ended: another run
/// continues.
fn append_with_successor(world: &mut World, index: usize) {
    let Record { name, number, .. } = world.records[index].clone();
    let line = format!("ledger append {name} --sign --run");
    piped(&world.sandbox, &format!("{line} r{number}"), STEP).fails_with("--parent");
    let next = world.number();
    let line = format!("{line} r{next} --parent r{number}");
    piped(&world.sandbox, &line, STEP).exits(0);
    world.note(format!("{name} continues as run r{next}"));
    world.records[index].number = next;
    world.records[index].is_of_ended_key = false;
}

/// A copy in another folder is as good as its source.
fn copy_and_look(world: &mut World, index: usize) {
    let record = world.records[index].clone();
    if record.files(&world.sandbox).is_empty() {
        return;
    }
    let folder = format!("copy-{}", world.number());
    world.note(format!("{} is copied to {folder}", record.name));
    fs::create_dir_all(world.sandbox.path(&folder)).unwrap();
    for path in record.files(&world.sandbox) {
        let to = world.sandbox.path(&folder).join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, to).unwrap()),
        }
    }
    let may: &[i32] = if record.is_sealed {
        &[0, 3]
    } else {
        &[0, 2, 3]
    };
    world.expect(&format!("verify {folder}"), may);
    world.expect("verify .", &[0, 3]);
    fs::remove_dir_all(world.sandbox.path(folder)).unwrap();
}

/// A backup of this very state is put back.
fn restore(world: &mut World, index: usize) {
    let record = world.records[index].clone();
    let content = record.content(&world.sandbox);
    record.remove(&world.sandbox);
    put(&content);
    world.note(format!("{} is restored", record.name));
}

/// Writes files anew, for their owner alone as the keys among them must be.
pub(super) fn put(content: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in content {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// The agent deletes an old session with its seals.
fn clean_up(world: &mut World, index: usize) {
    // The seals of a log that was moved alone are elsewhere, and the ones beside a log without a seal
    // are a moved log's. A seal that was killed may have been made.
    let record = &world.records[index];
    let mut files = record.files(&world.sandbox);
    let is_verified = || world.sandbox.sh(format!("verify {}", record.name)).code == 0;
    match record.is_sealed || is_verified() {
        true if files.len() == 1 => return,
        true => {}
        false => files.truncate(1),
    }
    let record = world.records.remove(index);
    for path in files {
        fs::remove_file(path).unwrap();
    }
    world.note(format!("{} is deleted by its agent", record.name));
}

/// The key of the home is replaced. The command refuses it while a thread of the key is open.
fn rotate_key(world: &mut World, _: usize) {
    let is_open = |record: &Record| record.kind == Kind::Transcript && !record.is_final;
    let code = match world.records.iter().any(is_open) {
        true => 2,
        false => 0,
    };
    world.expect("key rotate self", &[code]);
    if code == 0 {
        for record in &mut world.records {
            record.is_of_ended_key = true;
        }
    }
}
