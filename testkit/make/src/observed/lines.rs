//! The log beside a good seal file: `spec/transcript.md` §9, "Lines" and "Verifying: the log".

use super::{Adder, Verdict, split};
use crate::observed_forge::Log;

pub(super) fn add(add: &mut Adder, format: u8) {
    whole(add, format);
    edited(add, format);
    ends(add, format);
    unended(add, format);
    sizes(add, format);
    contents(add, format);
}

fn whole(add: &mut Adder, format: u8) {
    let mut log = Log::begun(format);
    add.log(
        "not-ended",
        &log,
        Verdict::open(&log),
        "the last seal is not final, and no head is held",
    );
    log.some(2).seal();
    add.log(
        "two-seals",
        &log,
        Verdict::open(&log),
        "a second seal covers more lines",
    );
    log.end();
    let rule = "a final seal may cover no more lines than the one before";
    add.log("ended", &log, Verdict::whole(&log), rule);
    let mut log = Log::new(format);
    log.end();
    add.log(
        "no-lines",
        &log,
        Verdict::whole(&log),
        "a seal over no line: the root of the empty tree",
    );
}

fn edited(add: &mut Adder, format: u8) {
    let mut log = Log::new(format);
    log.some(5).seal();
    let out = log.out.clone();
    let [a, b, c, d, e] = split(&out)[..] else {
        unreachable!("the log has five lines")
    };
    let x: &[u8] = b"{\"type\":\"user\",\"text\":\"another\"}\n";
    let spaced = [&b[..b.len() - 1], b" \n"].concat();
    let returned = [&b[..b.len() - 1], b"\r\n"].concat();
    let zero = [&b[..b.len() - 1], b"\0\n"].concat();
    let cases: [(&str, &[&[u8]], &'static str, usize, &str); 12] = [
        (
            "line-changed",
            &[a, x, c, d, e],
            "line_changed",
            1,
            "step 4, line 2 has other bytes",
        ),
        (
            "line-changed-first",
            &[x, b, c, d, e],
            "line_changed",
            0,
            "step 4, trusted is the place before line 1",
        ),
        (
            "line-changed-last",
            &[a, b, c, d, x],
            "line_changed",
            4,
            "step 4, the last line has other bytes",
        ),
        (
            "line-with-blank",
            &[a, &spaced, c, d, e],
            "line_changed",
            1,
            "step 4, a blank before LF is a change",
        ),
        (
            "line-with-cr",
            &[a, &returned, c, d, e],
            "line_changed",
            1,
            "step 4, CR is part of the line",
        ),
        (
            "line-with-zero",
            &[a, &zero, c, d, e],
            "line_changed",
            1,
            "step 4, a zero byte is a change",
        ),
        (
            "line-emptied",
            &[a, b"\n", c, d, e],
            "line_changed",
            1,
            "step 4, an empty line is a line",
        ),
        (
            "line-inserted",
            &[a, x, b, c, d, e],
            "line_inserted",
            1,
            "step 4, all lines follow after one more",
        ),
        (
            "line-doubled",
            &[a, b, b, c, d, e],
            "line_inserted",
            2,
            "step 4, a sealed line stands there twice",
        ),
        (
            "line-deleted",
            &[a, c, d, e],
            "line_deleted",
            1,
            "step 4, all lines but one follow",
        ),
        (
            "line-moved",
            &[a, c, d, e, b],
            "line_moved",
            1,
            "step 4, the line that is gone stands further on",
        ),
        (
            "lines-joined",
            &[&a[..a.len() - 1], b, c, d, e],
            "line_changed",
            0,
            "step 4, an LF is gone",
        ),
    ];
    for (name, lines, code, before, rule) in cases {
        let verdict = Verdict::differs(code, &split(&out)[..before]);
        add.edited(name, &lines.concat(), &log, verdict, rule);
    }
    log.end();
    let verdict = Verdict::differs("line_changed", &[a]);
    let rule = "step 4 before step 6: bytes behind are not reported where a line differs";
    add.edited(
        "line-changed-and-more",
        &[a, x, c, d, e, x].concat(),
        &log,
        verdict,
        rule,
    );
}

fn ends(add: &mut Adder, format: u8) {
    let mut log = Log::begun(format);
    let out = log.out.clone();
    let lines = split(&out);
    let missing = || Verdict::bad("truncated", &["lines_missing"]);
    add.edited(
        "lines-missing",
        &lines[..2].concat(),
        &log,
        missing(),
        "step 5, fewer lines than sealed",
    );
    add.edited("log-empty", b"", &log, missing(), "step 5, no line is left");
    let cut = out.len() - 7;
    let rule = "a last line without LF counts where the seals cover its number: it differs";
    let verdict = Verdict::differs("line_changed", &lines[..2]);
    add.edited("last-line-cut", &out[..cut], &log, verdict, rule);
    let tails: [(&str, &[u8], &str); 4] = [
        (
            "tail-line",
            b"{\"type\":\"user\"}\n",
            "step 6, a line behind the sealed ones",
        ),
        (
            "tail-unended",
            b"{\"type\":\"user\"}",
            "step 6, a whole object without LF behind them",
        ),
        (
            "tail-torn",
            b"{\"type\":",
            "step 6, a torn line behind them",
        ),
        ("tail-empty-line", b"\n", "step 6, one LF behind them"),
    ];
    for (name, tail, rule) in tails {
        let more = [&out, tail].concat();
        add.edited(name, &more, &log, Verdict::tail(&log), rule);
    }
    log.end();
    for (name, tail, rule) in tails {
        let verdict = Verdict::new("unsigned_tail", &["lines_after_final"], log.last());
        let more = [&out, tail].concat();
        add.edited(&format!("{name}-after-final"), &more, &log, verdict, rule);
    }
}

/// Last lines without LF.
fn unended(add: &mut Adder, format: u8) {
    let mut whole = Log::new(format);
    whole.some(2).unended(b"{\"type\":\"last\"}");
    let mut ended = whole.clone();
    ended.end();
    whole.seal();
    let with = |tail: &[u8]| [&whole.out, tail].concat();
    let rule = "a last line without LF is sealed";
    add.log("unended", &whole, Verdict::open(&whole), rule);
    add.log("unended-final", &ended, Verdict::whole(&ended), rule);
    let rule = "step 6, the last sealed line may have got its LF";
    add.edited(
        "unended-got-lf",
        &with(b"\n"),
        &whole,
        Verdict::open(&whole),
        rule,
    );
    let rule = "step 6, and lines behind it";
    add.edited(
        "unended-continued",
        &with(b"\n{}\n"),
        &whole,
        Verdict::tail(&whole),
        rule,
    );
    let rule = "step 6, and a torn line behind it";
    add.edited(
        "unended-continued-torn",
        &with(b"\n{\"ty"),
        &whole,
        Verdict::tail(&whole),
        rule,
    );
    let rule = "step 6, also where the seal is final";
    let verdict = || Verdict::bad("tampered", &["size_differs"]);
    add.edited(
        "unended-final-got-lf",
        &with(b"\n"),
        &ended,
        Verdict::whole(&ended),
        rule,
    );
    let rule = "step 6, and a line behind it, after a final seal";
    let behind = Verdict::new("unsigned_tail", &["lines_after_final"], ended.last());
    add.edited(
        "unended-final-continued",
        &with(b"\n{}\n"),
        &ended,
        behind,
        rule,
    );
    let rule = "step 4, bytes in the line that had no LF";
    let verdict_changed = Verdict::differs("line_changed", &split(&whole.out)[..2]);
    add.edited(
        "unended-grown",
        &with(b" \n"),
        &whole,
        verdict_changed,
        rule,
    );
    let mut text = Log::new(format);
    text.some(1).unended(b"no object").seal();
    let rule = "a last line that is no object counts where the seals cover it";
    add.log("unended-text", &text, Verdict::open(&text), rule);
    text.end();
    let rule = "a last line that is no object counts where the last seal is final";
    add.log("unended-text-final", &text, Verdict::whole(&text), rule);
    let log = Log::begun(format);
    let rule = "step 6, the last sealed line lost its LF";
    add.edited(
        "last-lf-lost",
        &log.out[..log.out.len() - 1],
        &log,
        verdict(),
        rule,
    );
}

/// Seals over the lines that are there, of another number of bytes.
fn sizes(add: &mut Adder, format: u8) {
    let sealed = |change: i64, is_final: bool| {
        let mut log = Log::new(format);
        log.some(3).seal_with(|seal| {
            seal.size = seal.size.saturating_add_signed(change);
            seal.is_final = is_final;
        });
        log
    };
    let bad = |codes: &[&'static str]| Verdict::bad("tampered", codes);
    let log = sealed(1, false);
    add.log(
        "size-one-more",
        &log,
        bad(&["size_differs"]),
        "step 6, one byte fewer than sealed",
    );
    let log = sealed(-1, false);
    let rule = "step 6, as if the last line had got its LF since";
    add.log("size-one-less", &log, Verdict::open(&log), rule);
    let log = sealed(-1, true);
    add.log(
        "size-one-less-final",
        &log,
        Verdict::whole(&log),
        "step 6, as if the last line had got its LF after a final seal",
    );
    let log = sealed(1, true);
    let rule = "step 6, one byte fewer than sealed, after a final seal";
    add.log("size-one-more-final", &log, bad(&["size_differs"]), rule);
    let log = sealed(-2, false);
    add.log(
        "size-two-less",
        &log,
        bad(&["size_differs"]),
        "step 6, one byte is the most",
    );
    let log = sealed(5, false);
    let more = [&log.out, b"{\"ty".as_slice()].concat();
    let rule = "step 6, both: another length, and bytes behind the sealed lines";
    add.edited(
        "size-differs-torn",
        &more,
        &log,
        bad(&["size_differs", "unsigned_tail"]),
        rule,
    );
}

/// Any bytes are lines.
fn contents(add: &mut Adder, format: u8) {
    let mut log = Log::new(format);
    log.line(b"").line(b"text\r").line(&[0, 0xff, 0xfe, 0x80]);
    log.line("\u{2028}\u{85}".as_bytes())
        .line(b"{\"a\":1,\"a\":2}")
        .end();
    add.log(
        "any-bytes",
        &log,
        Verdict::whole(&log),
        "lines are cut at LF, whatever bytes they hold",
    );
    let mut log = Log::new(format);
    log.line(b"{\"type\":\"same\"}")
        .line(b"{\"type\":\"same\"}")
        .end();
    add.log(
        "equal-lines",
        &log,
        Verdict::whole(&log),
        "two lines may be equal",
    );
}
