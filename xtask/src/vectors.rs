//! Writes the native attack vectors: `testkit/transcripts/native/`.
//!
//! Every file is made from fixed keys, times and salts, so that a second run writes the same bytes.
//! `expect.toml` next to them gives the verdict of each.

use crate::console::Fallible;
use std::fmt::Write as _;
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::salts::Secret;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::event::{EventType, Payload, Salt};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, Link, Sealer, Signers, Stamp, observed};

/// Keys, and a clock that advances by a millisecond per line.
struct Maker {
    native: LocalSigner,
    rye: LocalSigner,
    other: LocalSigner,
    ticks: u64,
}

/// The vectors, each with its expected verdict.
#[derive(Default)]
struct Vectors {
    files: Vec<(String, Vec<u8>)>,
    expect: String,
}

impl Vectors {
    fn add(&mut self, name: &str, verdict: &str, flags: &str, why: &str, bytes: &[u8]) {
        let _ = write!(
            self.expect,
            "\n[[vector]]\nfile = \"{name}\"\nverdict = \"{verdict}\"\n"
        );
        if !flags.is_empty() {
            let _ = writeln!(self.expect, "flags = [{flags}]");
        }
        let _ = writeln!(self.expect, "why = \"{why}\"");
        self.files.push((name.to_owned(), bytes.to_vec()));
    }
}

impl Maker {
    fn new() -> Self {
        let signer = |seed, usage| LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage);
        Self {
            native: signer(1, KeyUsage::Native),
            rye: signer(2, KeyUsage::Rye),
            other: signer(4, KeyUsage::Native),
            ticks: 0,
        }
    }

    fn stamp(&mut self) -> Fallible<Stamp> {
        self.ticks += 1;
        let timestamp = Timestamp::from_micros(1_771_356_405_000_000 + self.ticks * 1000)?;
        let salt: [u8; 16] = Digest::of(&self.ticks.to_be_bytes()).as_bytes()[..16].try_into()?;
        Ok(Stamp {
            timestamp,
            salt: Salt::from_bytes(salt),
        })
    }

    fn begin(&mut self, record: u8, out: &mut Vec<u8>) -> Fallible<Sealer> {
        let id = RecordId::from_bytes([record; 32]);
        let manifest = Manifest::new(id, *self.native.public_key(), *self.rye.public_key());
        let stamps = [self.stamp()?, self.stamp()?];
        let thread = ThreadId::parse("testkit/native-1")?;
        let signers = Signers {
            native: &self.native,
            rye: &self.rye,
        };
        Ok(Sealer::begin(thread, manifest, stamps, signers, out)?)
    }

    fn event(
        &mut self,
        sealer: &mut Sealer,
        name: &str,
        payload: &str,
        out: &mut Vec<u8>,
    ) -> Fallible<()> {
        let stamp = self.stamp()?;
        sealer.event(
            stamp,
            &EventType::parse(name)?,
            &Payload::parse(payload.as_bytes())?,
            out,
        )?;
        Ok(())
    }

    fn turn(&mut self, sealer: &mut Sealer, out: &mut Vec<u8>) -> Fallible<()> {
        self.event(
            sealer,
            "cognition_in",
            "{\"text\":\"clean up\",\"role\":\"user\"}",
            out,
        )?;
        self.event(
            sealer,
            "cognition_out",
            "{\"text\":\"May I delete data/?\"}",
            out,
        )?;
        let call = "{\"tool\":\"ask\",\"call_id\":\"c1\",\"input\":{\"q\":\"delete?\"}}";
        self.event(sealer, "tool_call_start", call, out)?;
        self.event(
            sealer,
            "tool_call_result",
            "{\"call_id\":\"c1\",\"output\":\"no\"}",
            out,
        )
    }

    fn seal(&mut self, sealer: &mut Sealer, turn: u64, out: &mut Vec<u8>) -> Fallible<Head> {
        self.seal_ext(sealer, turn, false, Ext::default(), out)
    }

    fn seal_ext(
        &mut self,
        sealer: &mut Sealer,
        turn: u64,
        is_final: bool,
        ext: Ext,
        out: &mut Vec<u8>,
    ) -> Fallible<Head> {
        let stamp = self.stamp()?;
        let signers = Signers {
            native: &self.native,
            rye: &self.rye,
        };
        Ok(sealer.seal(stamp, turn, is_final, ext, signers, out)?)
    }

    fn end(&mut self, sealer: &mut Sealer, turn: u64, out: &mut Vec<u8>) -> Fallible<Head> {
        let stamp = self.stamp()?;
        sealer.end(
            stamp,
            Ending::Completed,
            &Payload::parse(b"{\"cost\":{}}")?,
            out,
        )?;
        self.seal_ext(sealer, turn, true, Ext::default(), out)
    }

    /// An ended record of two turns, and the length of its first part, up to the seal of turn 1.
    fn record(&mut self, record: u8) -> Fallible<(Vec<u8>, usize, Head)> {
        let mut out = Vec::new();
        let mut sealer = self.begin(record, &mut out)?;
        self.turn(&mut sealer, &mut out)?;
        self.seal(&mut sealer, 1, &mut out)?;
        let first = out.len();
        self.turn(&mut sealer, &mut out)?;
        let head = self.end(&mut sealer, 2, &mut out)?;
        Ok((out, first, head))
    }
}

/// Writes all vectors into `folder`.
pub(crate) fn write(folder: &Path) -> Fallible<()> {
    let vectors = all()?;
    std::fs::create_dir_all(folder)?;
    for (name, bytes) in &vectors.files {
        std::fs::write(folder.join(name), bytes)?;
    }
    std::fs::write(folder.join("expect.toml"), &vectors.expect)?;
    Ok(())
}

fn all() -> Fallible<Vectors> {
    let mut maker = Maker::new();
    let mut vectors = Vectors::default();
    let key = maker.native.public_key().to_hex();
    let _ = write!(
        vectors.expect,
        "# Verdicts of the files beside this one; `xtask vectors` writes all of them.\n# Trust for every vector: the raw public key below, for native signatures.\ntrusted_key = \"{key}\"\n"
    );
    edits(&mut maker, &mut vectors)?;
    tails_and_heads(&mut maker, &mut vectors)?;
    keys(&mut maker, &mut vectors)?;
    salted(&mut maker, &mut vectors)?;
    Ok(vectors)
}

fn edits(maker: &mut Maker, vectors: &mut Vectors) -> Fallible<()> {
    let (record, _, _) = maker.record(1)?;
    let text = String::from_utf8(record.clone())?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let without = |index: usize| [&lines[..index], &lines[index + 1..]].concat().concat();
    vectors.add(
        "valid.jsonl",
        "verified",
        "",
        "two turns with a tool call, ended by a final seal",
        &record,
    );
    let forged_approval = text.replacen("\"output\":\"no\"", "\"output\":\"ok\"", 1);
    vectors.add(
        "approval_forged.jsonl",
        "tampered",
        "",
        "the human's no became ok",
        forged_approval.as_bytes(),
    );
    vectors.add(
        "event_deleted.jsonl",
        "tampered",
        "",
        "the question was deleted",
        without(3).as_bytes(),
    );
    let doubled = [&lines[..4], &lines[3..]].concat().concat();
    vectors.add(
        "event_doubled.jsonl",
        "tampered",
        "",
        "an event replayed",
        doubled.as_bytes(),
    );
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    vectors.add(
        "events_swapped.jsonl",
        "tampered",
        "",
        "two events change places",
        swapped.concat().as_bytes(),
    );
    let smuggled = lines[5].replacen("\"output\":\"no\"", "\"output\":\"yes, and all of it\"", 1);
    let inserted = [&lines[..6], &[smuggled.as_str()], &lines[6..]]
        .concat()
        .concat();
    vectors.add(
        "event_smuggled.jsonl",
        "tampered",
        "",
        "an event inserted before a seal",
        inserted.as_bytes(),
    );
    let carriage = [
        &lines[..10].concat(),
        lines[5].trim_end(),
        "\r",
        &lines[10..].concat(),
    ]
    .concat();
    vectors.add(
        "carriage_return.jsonl",
        "tampered",
        "",
        "an event smuggled before another by a bare CR",
        carriage.as_bytes(),
    );
    vectors.add(
        "seal_removed.jsonl",
        "tampered",
        "",
        "the seal of turn 1 is gone",
        without(6).as_bytes(),
    );
    let stripped: String = lines
        .iter()
        .filter(|l| !l.contains("\"checkpoint\""))
        .copied()
        .collect();
    vectors.add(
        "seals_stripped.jsonl",
        "tampered",
        "",
        "no seal is left",
        stripped.as_bytes(),
    );
    vectors.add(
        "manifest_removed.jsonl",
        "tampered",
        "",
        "line 1 is gone",
        lines[1..].concat().as_bytes(),
    );
    let turn = text.replacen("\"turn\":1,", "\"turn\":2,", 1);
    vectors.add(
        "turn_edited.jsonl",
        "tampered",
        "",
        "a seal's turn was changed",
        turn.as_bytes(),
    );
    let spaced = text.replacen("{\"timestamp\"", "{ \"timestamp\"", 1);
    vectors.add(
        "manifest_respelled.jsonl",
        "tampered",
        "",
        "a blank in line 1",
        spaced.as_bytes(),
    );
    let (other, _, _) = maker.record(2)?;
    let other = String::from_utf8(other)?;
    let foreign = [
        lines[0],
        other.split_inclusive('\n').nth(1).ok_or("no line 2")?,
    ]
    .concat();
    vectors.add(
        "seal_of_another_record.jsonl",
        "tampered",
        "",
        "seal 0 of another record",
        foreign.as_bytes(),
    );
    vectors.add(
        "empty_after_manifest.jsonl",
        "tampered",
        "",
        "line 1 alone",
        lines[0].as_bytes(),
    );
    Ok(())
}

fn tails_and_heads(maker: &mut Maker, vectors: &mut Vectors) -> Fallible<()> {
    let (record, first, head) = maker.record(3)?;
    let cut = &record[..first];
    let expect = format!("\"--expect-head\", \"{head}\"");
    vectors.add(
        "cut_at_a_seal.jsonl",
        "open",
        "",
        "cut after the seal of turn 1: nothing tells without a head",
        cut,
    );
    vectors.add(
        "cut_at_a_seal_head_known.jsonl",
        "truncated",
        &expect,
        "the same, against the known head",
        cut,
    );
    vectors.add(
        "head_known.jsonl",
        "verified",
        &expect,
        "the whole record against its head",
        &record,
    );
    let (other, _, _) = maker.record(4)?;
    vectors.add(
        "head_of_another_record.jsonl",
        "foreign",
        &expect,
        "a record against another one's head",
        &other,
    );
    let (fork, _, _) = maker.record(3)?;
    vectors.add(
        "forked.jsonl",
        "forked",
        &expect,
        "same record id and length, other content, both sealed",
        &fork,
    );
    vectors.add(
        "torn.jsonl",
        "unsigned_tail",
        "",
        "the last line was cut off while it was written",
        &record[..record.len() - 40],
    );
    let appended = [&record[..], b"{\"timestamp\":1.000000,\"thread_id\":\"testkit/native-1\",\"event_type\":\"cognition_in\",\"salt\":\"00000000000000000000000000000000\",\"payload\":{\"text\":\"now do it\"}}\n"].concat();
    vectors.add(
        "event_appended.jsonl",
        "unsigned_tail",
        "",
        "an event after the final seal",
        &appended,
    );
    let garbage = [&record[..], b"garbage\n"].concat();
    vectors.add(
        "garbage_appended.jsonl",
        "unsigned_tail",
        "",
        "a line that is no event after the final seal",
        &garbage,
    );
    vectors.add(
        "other_thread_asked_for.jsonl",
        "foreign",
        "\"--thread\", \"testkit/native-2\"",
        "another thread was asked for",
        &record,
    );
    let mut adopted = Vec::new();
    let mut sealer = maker.begin(5, &mut adopted)?;
    let tail = b"{\"torn";
    adopted.extend_from_slice(tail);
    sealer.tail_adopted(maker.stamp()?, tail, &mut adopted)?;
    maker.end(&mut sealer, 0, &mut adopted)?;
    vectors.add(
        "tail_adopted.jsonl",
        "partial",
        "",
        "a recovering writer kept bytes that no seal covered",
        &adopted,
    );
    let mut linked = Vec::new();
    let mut sealer = maker.begin(6, &mut linked)?;
    maker.turn(&mut sealer, &mut linked)?;
    maker.end(&mut sealer, 1, &mut linked)?;
    let stamp = maker.stamp()?;
    sealer.link(
        stamp,
        Link::Resumed,
        &Payload::parse(b"{\"new_thread_id\":\"testkit/native-2\"}")?,
        &mut linked,
    )?;
    vectors.add(
        "link_not_sealed.jsonl",
        "unsigned_tail",
        "",
        "a link after the end without its final seal",
        &linked,
    );
    maker.seal_ext(&mut sealer, 1, true, Ext::default(), &mut linked)?;
    vectors.add(
        "link_sealed.jsonl",
        "verified",
        "",
        "a link after the end, closed by a final seal",
        &linked,
    );
    Ok(())
}

fn keys(maker: &mut Maker, vectors: &mut Vectors) -> Fallible<()> {
    let mut rotated = Vec::new();
    let mut sealer = maker.begin(7, &mut rotated)?;
    let stamp = maker.stamp()?;
    sealer.announce_key(stamp, maker.other.public_key(), &mut rotated)?;
    maker.seal(&mut sealer, 0, &mut rotated)?;
    std::mem::swap(&mut maker.native, &mut maker.other);
    maker.end(&mut sealer, 0, &mut rotated)?;
    vectors.add(
        "key_rotated.jsonl",
        "verified",
        "",
        "the record went over to a second key",
        &rotated,
    );
    let (stranger, _, _) = maker.record(8)?;
    std::mem::swap(&mut maker.native, &mut maker.other);
    vectors.add(
        "stranger.jsonl",
        "unknown_signer",
        "",
        "the whole record by a key that nobody vouches for",
        &stranger,
    );
    let pin = format!("\"--key\", \"{}\"", maker.native.public_key().to_hex());
    vectors.add(
        "stranger_pinned.jsonl",
        "unknown_signer",
        &pin,
        "the same, with the genuine key pinned",
        &stranger,
    );
    let mut unknown = Vec::new();
    let mut sealer = maker.begin(9, &mut unknown)?;
    let ext = Ext {
        optional: vec![("quorum".into(), "2".into())],
        ..Ext::default()
    };
    maker.seal_ext(&mut sealer, 0, false, ext, &mut unknown)?;
    vectors.add(
        "ext_unknown_critical.jsonl",
        "malformed",
        "",
        "a critical member that no verifier knows",
        &unknown,
    );
    let observer = LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Observed);
    let log = b"{\"n\":1}\n{\"n\":2}\n";
    let mut seals = Vec::new();
    let mut file = observed::begin(
        RecordId::from_bytes([10; 32]),
        *observer.public_key(),
        None,
        &mut seals,
    );
    let leaves: Vec<Digest> = [&b"{\"n\":1}"[..], b"{\"n\":2}"]
        .map(threadseal_core::merkle::leaf_hash)
        .into();
    file.seal(
        &leaves,
        log.len() as u64,
        true,
        maker.stamp()?.timestamp,
        &observer,
        &mut seals,
    )?;
    let trust = format!("\"--key\", \"{}\"", observer.public_key().to_hex());
    vectors.add(
        "observed.jsonl",
        "verified",
        &trust,
        "an ended log of another program, under detached seals",
        log,
    );
    vectors
        .files
        .push(("observed.jsonl.seal".into(), seals.clone()));
    vectors.add(
        "observed_edited.jsonl",
        "tampered",
        &trust,
        "line 2 of such a log was changed",
        b"{\"n\":1}\n{\"n\":9}\n",
    );
    vectors
        .files
        .push(("observed_edited.jsonl.seal".into(), seals));
    Ok(())
}

fn replaced(bytes: &[u8], old: &str, new: &str) -> Fallible<Vec<u8>> {
    let text = std::str::from_utf8(bytes)?;
    if !text.contains(old) {
        return Err(format!("there is no {old}").into());
    }
    Ok(text.replacen(old, new, 1).into_bytes())
}

/// The lines of the log under salted seals.
const SALTED: [&[u8]; 3] = [b"{\"n\":1}", b"{\"password\":\"abc\"}", b"{\"n\":3}"];

/// Logs of other programs under seals of format 2, whose lines have salts.
fn salted(maker: &mut Maker, vectors: &mut Vectors) -> Fallible<()> {
    let observer = LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Observed);
    let log = [&SALTED.join(&b'\n')[..], b"\n"].concat();
    let (record, mut seals) = (RecordId::from_bytes([11; 32]), Vec::new());
    let root = Some(Secret::from_bytes([7; 16]));
    let mut file = observed::begin(record, *observer.public_key(), root, &mut seals);
    let (lines, size) = (
        SALTED.map(threadseal_core::merkle::leaf_hash),
        log.len() as u64,
    );
    let (time, stated) = (maker.stamp()?.timestamp, maker.stamp()?.timestamp);
    let seal = file.seal(&lines, size, true, time, &observer, &mut seals)?;
    let redaction = observed::Redaction {
        head: seal.head,
        runs: vec![(2, 1)],
        time: stated,
        by: "testkit".to_owned(),
        why: "a password".to_owned(),
    };
    let redacted = observed::redact(&seals, &redaction, &observer)?;
    let without = observed::replace_redacted(&log, &observed::sound(&redacted)?);
    let edited = replaced(&log, "abc", "abd")?;
    let wrong = replaced(&seals, "[[32,0,\"07", "[[32,0,\"08")?;
    let is_statement = |line: &&[u8]| line.starts_with(b"{\"redacted\":");
    let lines = || redacted.split_inclusive(|byte| *byte == b'\n');
    let unstated: Vec<&[u8]> = lines().filter(|line| !is_statement(line)).collect();
    let unstated = unstated.concat();
    // The statement is there, and the root of the salts still is.
    let front = seals.split_inclusive(|byte| *byte == b'\n').take(2);
    let unfinished = front.chain(lines().skip(2)).collect::<Vec<_>>().concat();
    let rows: [(&str, &str, &str, &[u8], &[u8]); 7] = [
        (
            "salted",
            "verified",
            "a log under salted seals",
            &log,
            &seals,
        ),
        (
            "salted_edited",
            "tampered",
            "line 2 of such a log was changed",
            &edited,
            &seals,
        ),
        (
            "salted_redacted",
            "verified",
            "line 2 was redacted",
            &without,
            &redacted,
        ),
        (
            "salted_unfinished",
            "verified",
            "line 2 is still there after its redaction, and its salt, too",
            &log,
            &unfinished,
        ),
        (
            "salted_guessed",
            "tampered",
            "somebody put line 2 back, without its salt",
            &log,
            &redacted,
        ),
        (
            "salted_unstated",
            "tampered",
            "the salt of line 2 is gone, and no statement names it",
            &without,
            &unstated,
        ),
        (
            "salted_wrong_root",
            "malformed",
            "the root of the salts is not that of the header",
            &log,
            &wrong,
        ),
    ];
    let trust = format!("\"--key\", \"{}\"", observer.public_key().to_hex());
    for (name, verdict, why, log, seals) in rows {
        vectors.add(&format!("{name}.jsonl"), verdict, &trust, why, log);
        vectors
            .files
            .push((format!("{name}.jsonl.seal"), seals.to_vec()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_testkit_holds_what_this_writes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = root.join("testkit/transcripts/native");
        let vectors = all().unwrap();
        for (name, bytes) in &vectors.files {
            assert!(
                std::fs::read(folder.join(name)).unwrap() == *bytes,
                "{name}"
            );
        }
        let expect = std::fs::read_to_string(folder.join("expect.toml")).unwrap();
        assert_eq!(expect, vectors.expect);
    }
}
