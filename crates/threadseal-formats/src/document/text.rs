//! Reading a text document: its signatures, and the evidence from each.

use super::Options;
use super::kind::{DocumentKind, ItemType};
use super::native;
use super::part::Part;
use super::reading::{Reading, RyeReading};
use super::rye::{self, Answer, text as layout};
use super::seal;
use super::signer::Judge;
use super::trusted_key;
use layout::Header;
use serde_json::json;
use std::ops::Range;
use threadseal_core::digest::Digest;
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_core::trust::ScopeFormat;

pub(super) fn read(bytes: &[u8], options: &Options<'_>) -> Reading {
    let mut reading = Reading::default();
    let raw = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to() as u64;
            let finding =
                Finding::error(FindingCode::NotUtf8, "the text is not UTF-8").at_bytes(at, at + 1);
            reading.file.fault(Verdict::Malformed, finding);
            reading.compat = Some(json!({"crash": "UnicodeDecodeError"}));
            return reading;
        }
    };
    let judge = Judge {
        trust: options.trust,
        now: options.now,
        held_since: options.held_since,
        format: ScopeFormat::Text,
        thread: None,
    };
    let found = seal::find_in_text(raw, options.kind);
    reading.native = native::check(found, bytes, options.kind, &judge);
    read_rye(raw, options, &judge, &mut reading);
    if reading.native.is_none() && reading.rye.is_none() {
        unsigned(raw, &mut reading.file);
    }
    trusted_key::check(raw, options, &judge, &mut reading);
    reading
}

fn read_rye(raw: &str, options: &Options<'_>, judge: &Judge<'_>, reading: &mut Reading) {
    let text = layout::universal_newlines(raw);
    let item = options
        .item_type
        .unwrap_or_else(|| guess_item(&text, options.kind));
    let Some(header) = layout::find_header(&text, options.kind, item) else {
        reading.compat = Some(json!({
            "valid": false, "error": format!("Unsigned item: {}", options.path)
        }));
        return;
    };
    let hashed_part = layout::extract(&text, options.kind, item);
    let hashed = hashed_part
        .as_ref()
        .map(|part| Digest::of(text[part.clone()].as_bytes()));
    let (mut part, answer) = rye::check(&header.fields, hashed, judge);
    junk(&header, &mut part);
    let mut covered = Vec::new();
    if let Some(hashed_part) = hashed_part {
        let raw_range = |range: Range<usize>| raw_range(raw, range);
        covered.push(raw_range(hashed_part.clone()));
        name_gaps(
            &text,
            options.kind,
            &header,
            &hashed_part,
            &mut part,
            raw_range,
        );
        if layout::has_second_header(&text, options.kind, &header, &hashed_part) {
            let message = "another line is a Rye signature, and Rye's hash does not cover it";
            part.fault(
                Verdict::Tampered,
                Finding::error(FindingCode::SecondHeader, message),
            );
        }
        if hashed == header.fields.digest() {
            newlines(raw, options.kind, item, &header, &mut part);
        }
    }
    reading.compat = Some(compat(&text, options, item, &header, hashed, answer));
    hidden_seal(&header, reading.native.is_some(), &mut part);
    reading.rye = Some(RyeReading {
        part,
        item: Some(item),
        covered,
    });
}

/// Rye gets the item type as an argument; a file alone does not show it. Of the two rules for
/// Markdown, the one whose hash matches applies. A knowledge entry is covered more widely, so it
/// comes first.
fn guess_item(text: &str, kind: DocumentKind) -> ItemType {
    if kind != DocumentKind::Markdown {
        return ItemType::Tool;
    }
    let matches = |item| {
        let header = layout::find_header(text, kind, item);
        let hashed_part = layout::extract(text, kind, item);
        header
            .zip(hashed_part)
            .is_some_and(|(header, hashed_part)| {
                header.fields.digest() == Some(Digest::of(text[hashed_part].as_bytes()))
            })
    };
    let is_directive = layout::extract(text, kind, ItemType::Directive).is_some();
    if !matches(ItemType::Knowledge) && is_directive {
        ItemType::Directive
    } else {
        ItemType::Knowledge
    }
}

fn junk(header: &Header<'_>, part: &mut Part) {
    if !header.well_ended {
        let from = header.fields_start + header.fields.len;
        let finding = Finding::error(
            FindingCode::HeaderJunk,
            "text follows the Rye signature on its line",
        );
        part.fault(
            Verdict::Tampered,
            finding.at_bytes(from as u64, header.line_end as u64),
        );
    }
}

/// Names the text that a person would read and Rye does not hash. Blanks are not read.
fn name_gaps(
    text: &str,
    kind: DocumentKind,
    header: &Header<'_>,
    hashed: &Range<usize>,
    part: &mut Part,
    raw_range: impl Fn(Range<usize>) -> Range<u64>,
) {
    let gaps = [
        0..header.line_start,
        header.line_end.min(hashed.start)..hashed.start,
        hashed.end..text.len(),
    ];
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let read = |gap: &Range<usize>| !text[gap.clone()].bytes().all(is_blank);
    for gap in gaps.into_iter().filter(read) {
        let at = raw_range(gap);
        let finding = Finding::warning(
            FindingCode::Uncovered,
            "Rye's signature does not cover these bytes of the file",
        );
        part.gap(Verdict::Partial, finding.at_bytes(at.start, at.end));
    }
    if kind.is_script() && layout::shebang_len(text) == 0 {
        let finding = Finding::warning(
            FindingCode::ShebangUncovered,
            "Rye's signature does not cover whether a shebang line was at the top of this script",
        );
        part.gap(Verdict::Partial, finding.at_bytes(0, 0));
    }
}

/// The hash, which holds after Rye changed the line ends, must hold on the bytes as stored, too.
fn newlines(raw: &str, kind: DocumentKind, item: ItemType, header: &Header<'_>, part: &mut Part) {
    if !raw.contains('\r') {
        return;
    }
    let as_it_lies =
        layout::extract(raw, kind, item).map(|hashed_part| Digest::of(raw[hashed_part].as_bytes()));
    if as_it_lies != header.fields.digest() {
        let finding = Finding::error(
            FindingCode::NewlinesChanged,
            "the hash matches only when every CR LF and CR is read as LF",
        );
        part.gap(Verdict::Tampered, finding);
    }
}

/// A native seal that only Rye's line ends make visible is none.
fn hidden_seal(header: &Header<'_>, seen: bool, part: &mut Part) {
    let claims = header
        .fields
        .provenance
        .is_some_and(|provenance| seal::is_seal(&provenance));
    if claims && !seen {
        let finding = Finding::error(
            FindingCode::NewlinesChanged,
            "line ends were changed before the native seal",
        );
        part.fault(Verdict::Tampered, finding);
    }
}

/// The answer of Rye's `verify_item`: the first line of its error.
fn compat(
    text: &str,
    options: &Options<'_>,
    item: ItemType,
    header: &Header<'_>,
    hashed: Option<Digest>,
    answer: Answer,
) -> serde_json::Value {
    let path = options.path;
    let error = |error: String| json!({"valid": false, "error": error});
    if !layout::rye_sees(text, options.kind, header) {
        return error(format!("Unsigned item: {path}"));
    }
    if item == ItemType::Directive && hashed.is_none() {
        return json!({"crash": "ValueError: No XML directive found in content"});
    }
    match answer {
        Answer::Valid => json!({"valid": true, "hash": header.fields.hash}),
        Answer::Modified => error(format!("Content modified since signing: {path}")),
        Answer::Untrusted => error(format!(
            "Untrusted key {} for {path}",
            header.fields.fingerprint
        )),
        Answer::BadSignature => error(format!("Ed25519 signature verification failed: {path}")),
    }
}

/// For a text without a signature: names a line that looks like one.
fn unsigned(raw: &str, file: &mut Part) {
    if let Some((at, why)) = layout::near_miss(raw) {
        let message = format!("a line looks like a Rye signature, but {why}");
        let finding = Finding::warning(FindingCode::HeaderNotRead, message);
        file.remark(finding.at_bytes(at.start as u64, at.end as u64));
    }
}

/// The bytes of the file for a range of the text with LF line ends.
fn raw_range(raw: &str, range: Range<usize>) -> Range<u64> {
    raw_offset(raw, range.start)..raw_offset(raw, range.end)
}

fn raw_offset(raw: &str, offset: usize) -> u64 {
    let bytes = raw.as_bytes();
    let (mut at, mut seen) = (0, 0);
    while seen < offset && at < bytes.len() {
        at += if bytes[at..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
        seen += 1;
    }
    at as u64
}
