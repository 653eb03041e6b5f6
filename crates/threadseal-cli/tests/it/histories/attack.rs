//! One act of an attacker who may write every file but those of the home.

use super::honest::put;
use super::world::{Kind, Record, World};
use crate::prelude::*;

/// Bytes of the beginning of a scroll that show what it is.
const LONGEST_MARK: u64 = 20;

/// The record that is attacked: where no history is left for an attack, it is a log.
pub(super) fn strike(world: &mut World) {
    let is_target = |record: &Record| record.is_sealed && record.is_whole && record.is_signed;
    let targets: Vec<usize> = (0..world.records.len())
        .filter(|index| is_target(&world.records[*index]))
        .collect();
    if targets.is_empty() {
        world
            .sandbox
            .write("logs/last.jsonl", "{\"n\":1}\n{\"n\":2}\n");
        world.ok("seal logs/last.jsonl");
        world.records.push(Record {
            kind: Kind::Log,
            name: "logs/last.jsonl".to_owned(),
            number: 0,
            count: 0,
            is_signed: true,
            is_sealed: true,
            is_whole: true,
            is_final: false,
            is_of_ended_key: false,
            earlier: None,
        });
        return act(world, world.records.len() - 1);
    }
    let index = world.random.pick(&targets);
    act(world, index);
}

fn act(world: &mut World, index: usize) {
    let acts: [fn(&mut World, usize) -> bool; 12] = [
        edit,
        edit_and_seal,
        cut,
        strip,
        strip_edit_and_seal,
        reseal_elsewhere,
        swap,
        roll_back,
        delete,
        reorder,
        transplant,
        edit_and_convert,
    ];
    // Not every act is possible on every record; an edit is.
    let chosen = world.random.pick(&acts);
    if !chosen(world, index) {
        edit(world, index);
    }
    let name = world.records[index].name.clone();
    world.expect(&format!("verify {name}"), &[1, 2, 3]);
    // A folder does not show what was deleted with all its seals, or cut before its first mark; the
    // home does.
    let record = &world.records[index];
    let has_mark = |path: &PathBuf| fs::metadata(path).unwrap().len() > LONGEST_MARK;
    let files = record.files(&world.sandbox);
    let is_gone = files.is_empty() || (record.kind == Kind::Scroll && !files.iter().any(has_mark));
    let all = if is_gone {
        "verify --all ."
    } else {
        "verify ."
    };
    world.expect(all, &[1, 2, 3]);
}

/// The files of a record that hold its content: no seals, no database.
fn main_files(world: &World, index: usize) -> Vec<PathBuf> {
    let record = &world.records[index];
    let content = record.content(&world.sandbox).into_iter();
    let is_main = |path: &PathBuf| {
        let name = name_of(path);
        let no_content = [".seal", ".lock", ".identity"];
        !no_content.iter().any(|ending| name.ends_with(ending))
    };
    content
        .filter(|(_, bytes)| !bytes.is_empty())
        .map(|(path, _)| path)
        .filter(is_main)
        .collect()
}

/// Changes a byte.
fn edit(world: &mut World, index: usize) -> bool {
    if world.records[index].name.starts_with("sqlite:") {
        return delete(world, index);
    }
    let files = main_files(world, index);
    let path = files[world.random.below(files.len())].clone();
    let mut bytes = fs::read(&path).unwrap();
    let mut at = world.random.below(bytes.len());
    // A scroll lists these digits as not covered.
    while is_below_a_double(&bytes, at) {
        at = world.random.below(bytes.len());
    }
    bytes[at] ^= 1 << world.random.below(7);
    fs::write(&path, bytes).unwrap();
    world.note(format!(
        "attack: byte {at} of {} is changed",
        path.display()
    ));
    true
}

/// The digits of nanoseconds since 1970 that a double does not hold.
const DIGITS_BELOW_A_DOUBLE: usize = 3;

/// Is the byte one of the last digits of a turn's `timestamp_ns`?
fn is_below_a_double(bytes: &[u8], at: usize) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let after = bytes[at..].iter().take_while(|byte| is_digit(byte)).count();
    let before = bytes[..at]
        .iter()
        .rev()
        .take_while(|byte| is_digit(byte))
        .count();
    let name = b"\"timestamp_ns\":";
    let number = &bytes[..at - before];
    (1..=DIGITS_BELOW_A_DOUBLE).contains(&after) && number.ends_with(name)
}

/// Changes a byte of a file that the owner then seals again.
fn edit_and_seal(world: &mut World, index: usize) -> bool {
    if !is_log_of_two(world, index) {
        return false;
    }
    edit(world, index);
    let name = world.records[index].name.clone();
    world.run(&format!("seal {name}"));
    true
}

/// A log of which an attack may leave a line.
fn is_log_of_two(world: &World, index: usize) -> bool {
    let record = &world.records[index];
    record.kind == Kind::Log && lines(world.sandbox.path(&record.name)).len() > 1
}

/// Cuts the end off.
fn cut(world: &mut World, index: usize) -> bool {
    if matches!(world.records[index].kind, Kind::Ledger | Kind::Lineage) {
        return false;
    }
    let path = world.sandbox.path(&world.records[index].name);
    let bytes = fs::read(&path).unwrap();
    let rest = world.random.below(bytes.len());
    fs::write(&path, &bytes[..rest]).unwrap();
    world.note(format!("attack: {} is cut to {rest}", path.display()));
    true
}

/// Takes the seals away.
fn strip(world: &mut World, index: usize) -> bool {
    let name = world.records[index].name.clone();
    let seals = world.sandbox.path(format!("{name}.seal"));
    if !seals.exists() {
        return false;
    }
    fs::remove_file(seals).unwrap();
    world.note(format!("attack: the seals of {name} are gone"));
    true
}

/// Takes the seals away, edits, and lets the owner seal again.
fn strip_edit_and_seal(world: &mut World, index: usize) -> bool {
    let is_done = is_log_of_two(world, index) && strip(world, index) && edit(world, index);
    if is_done {
        let name = world.records[index].name.clone();
        world.run(&format!("seal {name}"));
    }
    is_done
}

/// Edits, and seals with another home's key.
fn reseal_elsewhere(world: &mut World, index: usize) -> bool {
    if !strip(world, index) {
        return false;
    }
    edit(world, index);
    let stranger = ready();
    let path = world.sandbox.path(&world.records[index].name);
    let how = match world.records[index].kind {
        Kind::Document => "seal",
        _ => "seal --detached",
    };
    let ran = stranger.sh(format!("{how} {path:?}"));
    world.note(format!("attack: a stranger seals it: {}", ran.code));
    true
}

/// Exchanges two lines.
fn reorder(world: &mut World, index: usize) -> bool {
    if !is_log_of_two(world, index) {
        return false;
    }
    let path = world.sandbox.path(&world.records[index].name);
    let mut lines = lines(&path);
    let last = lines.len() - 1;
    lines.swap(last, last - 1);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    world.note(format!(
        "attack: the last lines of {} are swapped",
        path.display()
    ));
    true
}

/// Puts a record of another home in the place.
fn transplant(world: &mut World, index: usize) -> bool {
    let record = world.records[index].clone();
    let path = world.sandbox.path(&record.name);
    let stranger = ready();
    match record.kind {
        Kind::Log => {
            stranger.write("own.jsonl", "{\"mine\":1}\n");
            stranger.ok("seal --detached own.jsonl");
        }
        Kind::Document => {
            stranger.sealed("own.md", "# Mine\n");
        }
        Kind::Transcript => {
            open_record(&stranger, "own.jsonl", 1);
        }
        Kind::Scroll | Kind::Ledger | Kind::Lineage => return false,
    }
    for own in walk(&stranger.work()) {
        let ending = if name_of(&own).ends_with(".seal") {
            ".seal"
        } else {
            ""
        };
        fs::copy(&own, format!("{}{ending}", path.display())).unwrap();
    }
    world.note(format!("attack: {} is a stranger's", record.name));
    true
}

/// Edits a log, of which the owner then makes a scroll.
fn edit_and_convert(world: &mut World, index: usize) -> bool {
    if world.records[index].kind != Kind::Log {
        return false;
    }
    let files = world.records[index].files(&world.sandbox);
    // Of a log of one line without its seals, an edit leaves nothing that was sealed: it is another log.
    if files.len() == 1 && lines(&files[0]).len() == 1 {
        return false;
    }
    edit(world, index);
    let from = world.records[index].name.clone();
    let out = "laundered.json";
    let convert = format!("scroll from claude-code {from} --key self-scroll --out {out}");
    if world.run(&convert).code == 0 {
        world.expect(&format!("verify {out}"), &[1, 2, 3]);
    }
    true
}

/// Exchanges two records.
fn swap(world: &mut World, index: usize) -> bool {
    let record = world.records[index].clone();
    let is_other = |other: &&Record| {
        other.kind == record.kind
            && other.name != record.name
            && other.is_sealed
            && other.files(&world.sandbox).len() == record.files(&world.sandbox).len()
    };
    let Some(other) = world.records.iter().find(is_other).cloned() else {
        return false;
    };
    // A place shows nothing of a scroll, and each of both is whole.
    if matches!(record.kind, Kind::Scroll | Kind::Ledger | Kind::Lineage) {
        return false;
    }
    let files = [record.files(&world.sandbox), other.files(&world.sandbox)];
    for (one, two) in files[0].iter().zip(&files[1]) {
        let aside = world.sandbox.path("aside");
        fs::rename(one, &aside).unwrap();
        fs::rename(two, one).unwrap();
        fs::rename(&aside, two).unwrap();
    }
    world.note(format!(
        "attack: {} and {} are swapped",
        record.name, other.name
    ));
    true
}

/// Puts an earlier state back, with its seals.
fn roll_back(world: &mut World, index: usize) -> bool {
    let record = world.records[index].clone();
    let Some(earlier) = record.earlier.clone() else {
        return false;
    };
    if earlier == record.content(&world.sandbox) {
        return false;
    }
    record.remove(&world.sandbox);
    put(&earlier);
    world.note(format!("attack: {} is rolled back", record.name));
    true
}

/// Deletes the record, with or without its seals.
fn delete(world: &mut World, index: usize) -> bool {
    let with_seals = world.random.below(2) == 0;
    let record = world.records[index].clone();
    for path in record.files(&world.sandbox) {
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false if with_seals || !name_of(&path).ends_with(".seal") => {
                fs::remove_file(path).unwrap();
            }
            false => {}
        }
    }
    world.note(format!(
        "attack: {} is deleted, seals: {with_seals}",
        record.name
    ));
    true
}
