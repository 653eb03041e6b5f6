//! Proofs of lines of an observed log: one file shows a turn of it, and no other line
//! (`spec/proofs.md`, "Proofs of observed turns").
//!
//! ```text
//! threadseal/1 proof of observed lines LF
//! label <text> LF                   the turn, in its maker's words: nothing proves them
//! header <line 1 of the seal file> LF
//! next <line of the seal file that names a next key> LF       … of those before the seal, in order
//! seal <line of a seal> LF
//! alone <number> … LF               lines that are not shown, whose own hash is in this file; where
//!                                   the header has format 2 instead: shows <number of lines> LF
//! run <first> <count> LF            for each run of lines, in order …
//! line <base64> LF                  … its lines,
//! salt <hex> LF                     … the salt after each line, where the header has format 2,
//! hash <base64> LF                  … and a range proof of them in the seal's tree
//! ```
//! One proof has one text. A seal states that these bytes existed, not who wrote them. In format 1
//! hashes of lines have no salt: a reader who guesses all of a line under `alone` can confirm the
//! guess. In format 2 nothing can be guessed.

use super::VerifyOptions;
use super::handover::Keys;
use super::observed::{
    self, Header, NextKey, ObservedSeal, SealAlone, SealFile, names_next, seal_alone,
};
use std::collections::BTreeSet;
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::limits::{MAX_OBSERVED_NEXT_KEYS, MAX_TURN_PROOF_BYTES, MAX_TURN_PROOF_LINES};
use threadseal_core::merkle::{RangeProof, leaf_hash};
use threadseal_core::record::parse_decimal;
use threadseal_core::report::{
    CheckName, CheckResult, Finding, FindingCode, Format, Profile, Report, Stats, Verdict,
};
use threadseal_core::salts::Secret;

/// The first line of a file.
pub const FIRST_LINE: &str = "threadseal/1 proof of observed lines";
/// Most bytes of a label.
pub const MAX_LABEL_BYTES: usize = 1024;

fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_BYTES && !text.chars().any(char::is_control)
}

/// A proof as written in the file; only its form is checked. An instance proves nothing: call
/// [`check_file`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedProof {
    label: String,
    header: String,
    next: Vec<String>,
    seal: String,
    alone: Vec<u64>,
    runs: Vec<Run>,
}

/// Lines that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    /// The number of the first line, from 1.
    first: u64,
    lines: Vec<Vec<u8>>,
    /// The salt of each line; none in format 1.
    salts: Vec<Secret>,
    proof: RangeProof,
}

/// The result of a check.
#[derive(Debug, Clone)]
pub struct CheckedLines {
    /// The verdict and its evidence. `verified`: a trusted key sealed a log with these lines.
    pub report: Report,
    /// What the maker calls the lines; none where there is evidence against the proof.
    pub label: Option<String>,
    /// Number, from 1, and bytes of each line; none where there is evidence against the proof.
    pub lines: Vec<(u64, Vec<u8>)>,
    /// Lines that are not shown, and that a guess could confirm.
    pub guessable: Vec<u64>,
}

impl ObservedProof {
    /// A proof that the lines with these `numbers`, from 1, are in the log under the last seal of
    /// the file `seals`. `line` gives their bytes, without LF.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is no such line or no seal, `Refused` when the seals have
    /// faults or a line differs from its seal, `Limit` beyond the bounds of a proof.
    pub fn make(
        label: &str,
        seals: &[u8],
        numbers: &BTreeSet<u64>,
        mut line: impl FnMut(u64) -> Result<Vec<u8>, Error>,
    ) -> Result<Self, Error> {
        let file = observed::parse(seals).map_err(|finding| Error::invalid(finding.message))?;
        let is_fault = |verdict: &Verdict| *verdict != Verdict::UnsignedTail;
        if file.faults.iter().any(|(verdict, _)| is_fault(verdict)) {
            let text = "the seal file has faults; hint: threadseal verify";
            return Err(Error::refused(text));
        }
        let (header, next, seal) = own_lines(seals, &file)?;
        if !is_label(label) {
            return Err(Error::invalid("the label of the proof is no short line"));
        }
        if numbers.len() > MAX_TURN_PROOF_LINES {
            let text = format!("a proof shows at most {MAX_TURN_PROOF_LINES} lines");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let mut runs = Vec::new();
        for (first, end) in ranges(numbers) {
            let range = |number: u64| usize::try_from(number - 1).unwrap_or(usize::MAX);
            let proof = RangeProof::make(&file.leaves, range(first), range(end));
            let proof = proof.map_err(|_| Error::invalid(format!("line {first} is not sealed")))?;
            let mut run = Run {
                first,
                lines: Vec::new(),
                salts: Vec::new(),
                proof,
            };
            for number in first..end {
                run.add(&file, number, line(number)?)?;
            }
            runs.push(run);
        }
        if runs.is_empty() {
            return Err(Error::invalid("the turn has no line of its own to prove"));
        }
        let size = file.leaves.len() as u64;
        let alone = alone(file.salts().is_some(), &runs, size);
        let proof = Self {
            label: label.to_owned(),
            header,
            next,
            seal,
            alone,
            runs,
        };
        if proof.to_string().len() > MAX_TURN_PROOF_BYTES {
            let text = format!("a proof has at most {MAX_TURN_PROOF_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(proof)
    }

    /// Lines that are not shown, and whose own hash is in the proof.
    pub fn alone(&self) -> &[u64] {
        &self.alone
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the text has another form, `Limit` beyond a bound.
    pub fn parse(file: &[u8]) -> Result<Self, Error> {
        if file.len() > MAX_TURN_PROOF_BYTES {
            let text = format!("a proof has at most {MAX_TURN_PROOF_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let text = std::str::from_utf8(file).map_err(|_| Error::invalid("it is not UTF-8"))?;
        let read = Self::read(text).filter(|read| read.to_string() == text);
        read.ok_or_else(|| Error::invalid("it is not spelled as a proof of observed lines"))
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n').peekable();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let label = lines.next()?.strip_prefix("label ")?;
        let header = lines.next()?.strip_prefix("header ")?;
        let mut next_keys = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("next ")) {
            next_keys.push(line["next ".len()..].to_owned());
            if next_keys.len() > MAX_OBSERVED_NEXT_KEYS {
                return None;
            }
        }
        let seal = lines.next()?.strip_prefix("seal ")?;
        let is_salted = is_salted(header);
        let next = lines.next()?;
        // The number of lines is compared when the text is written again.
        let alone = match is_salted {
            true => next.strip_prefix("shows ").map(|_| "")?,
            false => next.strip_prefix("alone")?,
        };
        let alone = alone.split(' ').skip(1).map(parse_decimal);
        let mut proof = Self {
            label: label.to_owned(),
            header: header.to_owned(),
            next: next_keys,
            seal: seal.to_owned(),
            alone: alone.collect::<Option<_>>()?,
            runs: Vec::new(),
        };
        let mut count = 0;
        while let Some(run) = lines.next() {
            let (first, shown) = run.strip_prefix("run ")?.split_once(' ')?;
            let shown = usize::try_from(parse_decimal(shown)?).ok()?;
            count += shown;
            if count > MAX_TURN_PROOF_LINES || shown == 0 {
                return None;
            }
            let (mut own, mut salts) = (Vec::new(), Vec::new());
            for _ in 0..shown {
                let line = lines.next()?.strip_prefix("line")?;
                let line = line.strip_prefix(' ').unwrap_or(line);
                own.push(encoding::parse_base64(line)?);
                if is_salted {
                    salts.push(Secret::parse_hex(lines.next()?.strip_prefix("salt ")?)?);
                }
            }
            let mut hashes = Vec::new();
            while let Some(hash) = lines.next_if(|line| line.starts_with("hash ")) {
                let hash = encoding::parse_base64(&hash["hash ".len()..])?;
                hashes.push(Digest::from_bytes(hash.try_into().ok()?));
            }
            proof.runs.push(Run {
                first: parse_decimal(first).filter(|first| *first > 0)?,
                lines: own,
                salts,
                proof: RangeProof::from_hashes(hashes).ok()?,
            });
        }
        let is_label = is_label(&proof.label);
        (is_label && proof.has_order()).then_some(proof)
    }

    /// Are the runs in order, with a line between each two?
    fn has_order(&self) -> bool {
        let ends = self.runs.iter().map(Run::end);
        let firsts = self.runs.iter().skip(1).map(|run| run.first);
        let apart = ends
            .zip(firsts)
            .all(|(end, first)| end.is_some_and(|end| end < first));
        // No tree reaches as far as a last run that has no end.
        apart && !self.runs.is_empty()
    }

    fn check(&self, options: &VerifyOptions<'_>) -> CheckedLines {
        let mut report = Report::begin(Format::Proof, Profile::Observed);
        report.trust = Some(options.trust.digest());
        report.stats = Stats {
            events: self.runs.iter().map(|run| run.lines.len() as u64).sum(),
            checkpoints: 1,
            ..Stats::default()
        };
        let author = "author: an observed seal proves that bytes existed, not who wrote them";
        report.unauthenticated.push(author.to_owned());
        let label = "label: the words of the proof's maker";
        report.unauthenticated.push(label.to_owned());
        let found = self.look(&mut report);
        let Some(SealAlone {
            header,
            next_keys,
            seal,
        }) = found
        else {
            return CheckedLines {
                report,
                label: None,
                lines: Vec::new(),
                guessable: Vec::new(),
            };
        };
        report.record = Some(seal.head.record);
        report.head = Some(seal.head);
        report.dates.sealed = Some(seal.time);
        let vouched = check_trust(&mut report, &header, &next_keys, &seal, options);
        report.check(CheckName::Trust, CheckResult::of(vouched), None);
        for number in &self.alone {
            let text = format!(
                "the hash of line {number} alone is in the proof: a reader can confirm a guess of that whole line"
            );
            report.find(Finding::note(FindingCode::SiblingsGuessable, text));
        }
        let proved = !report.verdict.is_evidence() && !report.has_other_signer();
        let lines = self
            .runs
            .iter()
            .flat_map(|run| (run.first..).zip(run.lines.clone()));
        CheckedLines {
            report,
            label: proved.then(|| self.label.clone()),
            lines: if proved { lines.collect() } else { Vec::new() },
            guessable: self.alone.clone(),
        }
    }

    /// All checks but trust.
    fn look(&self, report: &mut Report) -> Option<SealAlone> {
        let found = seal_alone(self.header.as_bytes(), &self.next, self.seal.as_bytes());
        let Some(found) = found else {
            let text = "the signature of the seal does not verify under the key of the header, or the one named last";
            let finding = Finding::error(FindingCode::SignatureBad, text);
            report.downgrade(Verdict::Forged, finding);
            return None;
        };
        report.check(CheckName::Signatures, CheckResult::Pass, None);
        let (seal, header) = (&found.seal, &found.header);
        let is_sealed =
            |run: &Run| run.proof.root(&run.leaves(), run.first - 1, seal.lines) == Ok(seal.root);
        if !self.runs.iter().all(is_sealed) {
            let text = "these are not the lines that were sealed in this place";
            let finding = Finding::error(FindingCode::ContentChanged, text);
            report.downgrade(Verdict::Tampered, finding);
            return None;
        }
        if self.alone != alone(header.is_salted(), &self.runs, seal.lines) {
            let text = "the proof does not name the lines that a reader could guess";
            let finding = Finding::error(FindingCode::ProofMalformed, text);
            report.downgrade(Verdict::Malformed, finding);
            return None;
        }
        report.check(CheckName::Inclusion, CheckResult::Pass, None);
        Some(found)
    }
}

impl Run {
    /// Adds line `number` with its salt.
    fn add(&mut self, file: &SealFile, number: u64, bytes: Vec<u8>) -> Result<(), Error> {
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let plain = leaf_hash(&bytes);
        if file.is_replaced(index, &plain) {
            return Err(Error::refused(format!("line {number} was redacted")));
        }
        let leaf = file.walk(index).next_leaf(&plain);
        if leaf.is_none() || file.leaves.get(index) != leaf.as_ref() {
            let text = format!("line {number} is not the one that was sealed");
            return Err(Error::refused(text));
        }
        self.lines.push(bytes);
        let salt = file.salts().and_then(|salts| salts.salt(number - 1));
        self.salts.extend(salt);
        Ok(())
    }

    /// The leaves of its lines.
    fn leaves(&self) -> Vec<Digest> {
        let plain = self.lines.iter().map(|line| leaf_hash(line));
        match self.salts.is_empty() {
            true => plain.collect(),
            false => plain
                .zip(&self.salts)
                .map(|(plain, salt)| salt.leaf(&plain))
                .collect(),
        }
    }

    /// The number after its last line.
    fn end(&self) -> Option<u64> {
        self.first.checked_add(self.lines.len() as u64)
    }
}

impl fmt::Display for ObservedProof {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}\nlabel {}", self.label)?;
        writeln!(out, "header {}", self.header)?;
        for next in &self.next {
            writeln!(out, "next {next}")?;
        }
        writeln!(out, "seal {}", self.seal)?;
        match is_salted(&self.header) {
            true => {
                let shown: usize = self.runs.iter().map(|run| run.lines.len()).sum();
                write!(out, "shows {shown}")?;
            }
            false => out.write_str("alone")?,
        }
        for number in &self.alone {
            write!(out, " {number}")?;
        }
        out.write_str("\n")?;
        for run in &self.runs {
            writeln!(out, "run {} {}", run.first, run.lines.len())?;
            let mut salts = run.salts.iter();
            for line in &run.lines {
                writeln!(out, "line {}", encoding::base64(line))?;
                if let Some(salt) = salts.next() {
                    writeln!(out, "salt {}", salt.to_hex())?;
                }
            }
            for hash in run.proof.hashes() {
                writeln!(out, "hash {}", encoding::base64(hash.as_bytes()))?;
            }
        }
        Ok(())
    }
}

/// Gives the verdict on a file that begins as a proof of observed lines.
pub fn check_file(file: &[u8], options: &VerifyOptions<'_>) -> CheckedLines {
    let mut checked = match ObservedProof::parse(file) {
        Ok(proof) => proof.check(options),
        Err(error) => {
            let mut report = Report::begin(Format::Proof, Profile::Observed);
            report.trust = Some(options.trust.digest());
            let finding = Finding::error(FindingCode::ProofMalformed, error.to_string());
            report.downgrade(Verdict::Malformed, finding);
            CheckedLines {
                report,
                label: None,
                lines: Vec::new(),
                guessable: Vec::new(),
            }
        }
    };
    checked.report.stats.bytes = file.len() as u64;
    checked
}

/// Is this the header of a seal file whose lines have salts?
fn is_salted(header: &str) -> bool {
    Header::parse(header.as_bytes()).is_some_and(|header| header.is_salted())
}

/// Judges the key of the seal; true where the trust vouches for it.
fn check_trust(
    report: &mut Report,
    header: &Header,
    next_keys: &[NextKey],
    seal: &ObservedSeal,
    options: &VerifyOptions<'_>,
) -> bool {
    let own = |key: &PublicKey| Some(seal.head).filter(|_| *key == seal.key);
    let keys = Keys {
        first: (header.key, own(&header.key)),
        next: next_keys
            .iter()
            .map(|next| (next, own(&next.key)))
            .collect(),
    };
    let Some(judged) = keys.judge(options).pop() else {
        return false;
    };
    if judged.is_refuted {
        let text =
            "a key that has ended names another key in its place than in the log of this host";
        let finding = Finding::error(FindingCode::KeyNotAllowed, text);
        report.downgrade(Verdict::Forged, finding);
    }
    report.signer(&judged.key, &judged.judgement)
}

/// The header, the lines that name next keys, and the line of the last seal.
fn own_lines(seals: &[u8], file: &SealFile) -> Result<(String, Vec<String>, String), Error> {
    let none = || Error::invalid("the log has no seal");
    file.last().ok_or_else(none)?;
    let end = usize::try_from(file.sealed_bytes).map_err(|_| none())?;
    let text = seals
        .get(..end)
        .and_then(|seals| std::str::from_utf8(seals).ok());
    let text = text.ok_or_else(none)?;
    let header = text.lines().next().ok_or_else(none)?;
    let seal = text.lines().next_back().ok_or_else(none)?;
    let next = text.lines().filter(|line| names_next(line.as_bytes()));
    let next = next.map(str::to_owned).collect();
    Ok((header.to_owned(), next, seal.to_owned()))
}

/// The runs of these numbers: first, and the number after the last.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, end)) if *end == *number => *end += 1,
            _ => ranges.push((*number, number.saturating_add(1))),
        }
    }
    ranges.retain(|(first, _)| *first > 0);
    ranges
}

/// The numbers of the lines that are not shown, and whose own hash is in a range proof and can be
/// guessed: it has no salt.
fn alone(is_salted: bool, runs: &[Run], size: u64) -> Vec<u64> {
    let mut alone = BTreeSet::new();
    if is_salted {
        return Vec::new();
    }
    for run in runs {
        let shown = (run.first - 1, run.end().map_or(size, |end| end - 1));
        subtrees(0, size, shown, &mut alone);
    }
    for run in runs {
        for number in run.first..run.end().unwrap_or(run.first) {
            alone.remove(&number);
        }
    }
    alone.into_iter().collect()
}

/// Walks down to the subtrees whose hashes are in the proof, and notes those of one line.
fn subtrees(from: u64, to: u64, shown: (u64, u64), alone: &mut BTreeSet<u64>) {
    let is_beside = to <= shown.0 || from >= shown.1;
    if to - from == 1 && is_beside {
        alone.insert(from + 1);
    }
    if to - from <= 1 || is_beside || (shown.0 <= from && to <= shown.1) {
        return;
    }
    // RFC 6962: the left part has the largest power of two below the number of leaves.
    let left = from + (to - from).next_power_of_two() / 2;
    subtrees(from, left, shown, alone);
    subtrees(left, to, shown, alone);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::observed::begin;
    use threadseal_core::key::Signer as _;
    use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
    use threadseal_core::record::RecordId;
    use threadseal_core::time::Timestamp;
    use threadseal_core::trust::Trust;

    fn line(number: u64) -> Vec<u8> {
        format!("{{\"line\":{number},\"secret\":\"word{number}\"}}").into_bytes()
    }

    fn signer() -> LocalSigner {
        LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Observed)
    }

    /// No salts, and those of one record.
    const FORMATS: [Option<Secret>; 2] = [None, Some(Secret::from_bytes([4; 16]))];

    fn seals(lines: u64, root: Option<Secret>) -> Vec<u8> {
        let (signer, mut out) = (signer(), Vec::new());
        let mut file = begin(
            RecordId::from_bytes([8; 32]),
            *signer.public_key(),
            root,
            &mut out,
        );
        let leaves: Vec<Digest> = (1..=lines).map(|number| leaf_hash(&line(number))).collect();
        let time = Timestamp::from_micros(1_771_356_405_001_000).unwrap();
        file.seal(&leaves, 100 * lines, false, time, &signer, &mut out)
            .unwrap();
        out
    }

    fn proof(lines: u64, numbers: &[u64], root: Option<Secret>) -> ObservedProof {
        let numbers = numbers.iter().copied().collect();
        ObservedProof::make("claude-code:s#1", &seals(lines, root), &numbers, |number| {
            Ok(line(number))
        })
        .unwrap()
    }

    fn checked(file: &[u8]) -> CheckedLines {
        let trust = Trust::key(*signer().public_key());
        check_file(
            file,
            &VerifyOptions {
                trust: &trust,
                now: Timestamp::from_micros(1_771_356_406_000_000).unwrap(),
                held_since: None,
                thread: None,
            },
        )
    }

    #[test]
    fn lines_of_a_turn_are_proved_without_the_log() {
        for lines in 1..=17 {
            for numbers in [
                vec![1],
                vec![lines],
                vec![1, lines],
                (1..=lines).collect(),
                (1..=lines).step_by(2).collect(),
            ] {
                for root in FORMATS {
                    let text = proof(lines, &numbers, root).to_string();
                    let found = checked(text.as_bytes());
                    assert_eq!(found.report.verdict, Verdict::Verified, "{text}");
                    let shown = found.lines.iter().map(|(number, _)| *number);
                    let mut shown: Vec<u64> = shown.collect();
                    shown.dedup();
                    let mut asked = numbers.clone();
                    asked.dedup();
                    assert_eq!(shown, asked);
                    let is_own = |(number, bytes): &(u64, Vec<u8>)| *bytes == line(*number);
                    assert!(found.lines.iter().all(is_own));
                }
            }
        }
    }

    // T-ARC-20
    #[test]
    fn every_changed_byte_of_a_proof_is_noticed_and_none_is_verified() {
        for root in FORMATS {
            let text = proof(11, &[3, 4, 7], root).to_string();
            let good = checked(text.as_bytes());
            for at in 0..text.len() {
                for change in [1, 2, 32] {
                    let mut changed = text.clone().into_bytes();
                    changed[at] ^= change;
                    let found = checked(&changed);
                    let is_label = found.label.is_some() && found.label != good.label;
                    assert!(
                        found.report.verdict != Verdict::Verified || is_label,
                        "byte {at}"
                    );
                }
            }
            for end in 0..text.len() {
                assert_ne!(
                    checked(&text.as_bytes()[..end]).report.verdict,
                    Verdict::Verified
                );
            }
        }
    }

    // T-OBS-42
    #[test]
    fn a_proof_of_salted_lines_lets_no_other_line_be_guessed() {
        let root = FORMATS[1];
        let file = observed::parse(&seals(11, root)).unwrap();
        for first in 1..=11 {
            let made = proof(11, &[first], root);
            assert_eq!(made.alone(), [0_u64; 0]);
            let text = made.to_string();
            for number in (1..=11).filter(|number| *number != first) {
                // A reader who guesses the whole line cannot compute its hash: the salt is not there.
                let plain = encoding::base64(leaf_hash(&line(number)).as_bytes());
                let salt = file.salts().unwrap().salt(number - 1).unwrap().to_hex();
                assert!(!text.contains(&plain) && !text.contains(&salt));
            }
        }
        let other = Some(Secret::from_bytes([5; 16]));
        let (own, foreign) = (proof(11, &[3], root), proof(11, &[3], other));
        let swapped = ObservedProof {
            runs: foreign.runs,
            ..own
        };
        let found = checked(swapped.to_string().as_bytes());
        assert_eq!(found.report.verdict, Verdict::Tampered);
    }

    // T-ARC-21
    #[test]
    fn a_proof_shows_no_other_line_and_names_each_that_could_be_guessed() {
        for size in 1..=20_u64 {
            for first in 1..=size {
                let made = proof(size, &[first], None);
                let text = made.to_string();
                let hashes: Vec<&str> = text
                    .lines()
                    .filter_map(|line| line.strip_prefix("hash "))
                    .collect();
                for number in (1..=size).filter(|number| *number != first) {
                    let leaf = encoding::base64(leaf_hash(&line(number)).as_bytes());
                    assert_eq!(
                        made.alone.contains(&number),
                        hashes.contains(&leaf.as_str()),
                        "{number} of {size}"
                    );
                    assert!(!text.contains(&encoding::base64(&line(number))));
                }
            }
        }
        let mut hiding = proof(11, &[3], None);
        assert_eq!(hiding.alone, [4]);
        hiding.alone.clear();
        assert_eq!(
            checked(hiding.to_string().as_bytes()).report.verdict,
            Verdict::Malformed
        );
    }

    #[test]
    fn a_line_that_is_not_the_sealed_one_is_not_proved() {
        let numbers = BTreeSet::from([2]);
        let refused =
            ObservedProof::make("l", &seals(5, FORMATS[1]), &numbers, |_| Ok(line(3))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        let beyond = BTreeSet::from([9]);
        assert!(
            ObservedProof::make("l", &seals(5, FORMATS[1]), &beyond, |number| Ok(line(
                number
            )))
            .is_err()
        );
        assert!(
            ObservedProof::make("l\nx", &seals(5, FORMATS[1]), &numbers, |number| Ok(line(
                number
            )))
            .is_err()
        );
        assert!(
            ObservedProof::make("l", &seals(5, FORMATS[1]), &BTreeSet::new(), |number| Ok(
                line(number)
            ))
            .is_err()
        );
    }
}
