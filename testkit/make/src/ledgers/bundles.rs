//! History bundles: `spec/ledger.md` §8.

use super::forge::{Ledger, RUN, declaration, genesis, record};
use crate::forge::{authority, hex, key};
use crate::list::{Expected, Folder, OfRun, Options, Trusted};
use crate::values::{Value, map};

/// All of them.
pub(super) fn vectors() -> Folder {
    let mut add = Adder(Folder::new("bundle", "native", vec![hex(&authority())]));
    ledgers(&mut add);
    windows(&mut add);
    replays(&mut add);
    records(&mut add);
    names(&mut add);
    malformed(&mut add);
    add.0
}

/// Adds vectors.
struct Adder(Folder);

impl Adder {
    fn add(&mut self, name: &str, rule: &str, text: &str, options: Options, reports: Vec<OfRun>) {
        let rule = format!("ledger.md §8: {rule}");
        let expected = Expected::Bundle { reports };
        let files: [(&'static str, &str, &[u8]); 1] = [("bundle", ".json", text.as_bytes())];
        self.0
            .add_expected("bundle", (name, &rule), options, expected, &files);
    }

    fn one(&mut self, name: &str, rule: &str, bundle: &Bundle, report: OfRun) {
        self.add(name, rule, &bundle.text(), Options::default(), vec![report]);
    }
}

/// The ledger of one run in a bundle, each member as JSON text.
#[derive(Clone)]
struct Part {
    name: String,
    run_id: String,
    total: String,
    start: String,
    /// Cursor and record.
    items: Vec<(String, String)>,
}

impl Part {
    /// Records `from` to `to` of a ledger, from 0.
    fn of(ledger: &Ledger, from: usize, to: usize) -> Self {
        let items = (from..to).map(|number| {
            let cursor = (number + 1).to_string();
            (cursor, ledger.lines[number].clone())
        });
        Self {
            name: format!("\"{RUN}\""),
            run_id: format!("\"{RUN}\""),
            total: ledger.lines.len().to_string(),
            start: (from + 1).to_string(),
            items: items.collect(),
        }
    }

    fn whole(ledger: &Ledger) -> Self {
        Self::of(ledger, 0, ledger.lines.len())
    }

    fn text(&self) -> String {
        let items: Vec<String> = self.items.iter().map(item).collect();
        let Self {
            name,
            run_id,
            total,
            start,
            ..
        } = self;
        let items = items.join(",");
        format!(
            "{name}:{{\"run_id\":{run_id},\"items\":[{items}],\"total\":{total},\"cursor_start\":{start},\"artifacts\":[]}}"
        )
    }
}

fn item((cursor, record): &(String, String)) -> String {
    format!("{{\"cursor\":{cursor},\"record\":{record}}}")
}

/// A bundle, each member as JSON text.
#[derive(Clone)]
struct Bundle {
    version: String,
    root: String,
    detail: String,
    parts: Vec<Part>,
}

impl Bundle {
    fn of(part: Part) -> Self {
        Self {
            version: "1".to_owned(),
            root: format!("\"{RUN}\""),
            detail: "\"full\"".to_owned(),
            parts: vec![part],
        }
    }

    fn text(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::text).collect();
        let Self {
            version,
            root,
            detail,
            ..
        } = self;
        let parts = parts.join(",");
        format!(
            "{{\"version\":{version},\"generated_at\":\"2026-11-22T20:40:00+00:00\",\"detail\":{detail},\"root_run_id\":{root},\"run\":{{}},\"ledgers\":{{{parts}}},\"warnings\":[]}}\n"
        )
    }
}

fn unsigned() -> Ledger {
    Ledger::of_steps(2, None)
}

fn signed() -> Ledger {
    Ledger::of_steps(2, Some(1))
}

/// The answer about the run of `RUN`.
fn report(verdict: &'static str, codes: &[&'static str], until: Option<(u64, u64)>) -> OfRun {
    OfRun {
        run: Some(RUN),
        verdict,
        codes: codes.to_vec(),
        trusted_until: until.map(|(line, turn)| Trusted {
            line,
            byte: 0,
            turn: Some(turn),
        }),
    }
}

fn consistent() -> OfRun {
    report("consistent", &["unsigned"], None)
}

fn window() -> OfRun {
    report("partial", &["ledger_window", "unsigned"], None)
}

/// The same records as those of another run.
fn of_another_run() -> Part {
    let mut ledger = Ledger::new();
    for status in ["started", "completed"] {
        let mut record = record(0, status);
        record.set("run_id", "run-2");
        ledger.record(record, None);
    }
    let mut part = Part::whole(&ledger);
    part.name = "\"run-2\"".to_owned();
    part.run_id = part.name.clone();
    part
}

fn asking(run: &str) -> Options {
    Options {
        thread: Some(run.to_owned()),
        ..Options::default()
    }
}

fn ledgers(add: &mut Adder) {
    let rule = "each ledger is judged alone";
    let (ledger, bundle) = (unsigned(), Bundle::of(Part::whole(&unsigned())));
    add.one("whole", rule, &bundle, consistent());
    let whole = report("open", &["head_unknown"], Some((4, 3)));
    let of_signed = Bundle::of(Part::whole(&signed()));
    add.one("signed", rule, &of_signed, whole.clone());
    let mut two = of_signed.clone();
    two.parts.push(of_another_run());
    let second = OfRun {
        run: Some("run-2"),
        ..consistent()
    };
    let both = vec![whole, second.clone()];
    add.add("two-runs", rule, &two.text(), Options::default(), both);
    let asked = "a run is asked for";
    let text = two.text();
    add.add("run-asked-for", asked, &text, asking("run-2"), vec![second]);
    let gone = OfRun {
        run: Some("run-3"),
        ..report("missing", &["ledger_missing"], None)
    };
    add.add("run-not-there", asked, &text, asking("run-3"), vec![gone]);
    let head = Options {
        head: Some(ledger.head(3)),
        exact: true,
        ..Options::default()
    };
    let held = vec![report("verified", &[], Some((4, 3)))];
    add.add("head-met", rule, &bundle.text(), head, held);
    let other = Options {
        head: Some(signed().head(0).replacen(":0:1:", ":1:2:", 1)),
        ..Options::default()
    };
    let forked = vec![report("forked", &["head_differs", "unsigned"], None)];
    add.add("head-of-another", rule, &bundle.text(), other, forked);
    let length = |length| Options {
        length: Some(length),
        ..Options::default()
    };
    add.add(
        "length",
        rule,
        &bundle.text(),
        length(4),
        vec![consistent()],
    );
    let shorter = vec![report("truncated", &["length_differs", "unsigned"], None)];
    add.add("length-differs", rule, &bundle.text(), length(5), shorter);
    let pinned = Options {
        pins: vec![hex(&key(1))],
        ..Options::default()
    };
    let missing = vec![report("tampered", &["signature_missing", "unsigned"], None)];
    add.add(
        "pinned-and-not-signed",
        rule,
        &bundle.text(),
        pinned,
        missing,
    );
    let mut foreign = bundle.clone();
    foreign.parts[0].name = "\"run-9\"".to_owned();
    foreign.parts[0].run_id = "\"run-9\"".to_owned();
    let foreign_report = OfRun {
        run: Some("run-9"),
        ..report("foreign", &["record_foreign", "unsigned"], None)
    };
    let rule = "as the ledger of the run that its member names";
    add.one("of-another-run", rule, &foreign, foreign_report);
    let nothing = Bundle::of(Part::whole(&Ledger::new()));
    let empty = report("unsigned", &["ledger_empty"], None);
    add.one("without-records", "no record", &nothing, empty);
}

fn windows(add: &mut Adder) {
    let rule = "it does not hold records 1 to `total`";
    let (plain, by_key) = (unsigned(), signed());
    add.one(
        "window-at-the-end",
        rule,
        &Bundle::of(Part::of(&plain, 2, 4)),
        window(),
    );
    add.one(
        "window-at-the-start",
        rule,
        &Bundle::of(Part::of(&plain, 0, 2)),
        window(),
    );
    let codes = [
        "ledger_window",
        "step_unended",
        "step_unstarted",
        "unsigned",
    ];
    let inside = report("partial", &codes, None);
    add.one(
        "window-inside",
        rule,
        &Bundle::of(Part::of(&plain, 1, 3)),
        inside,
    );
    let until = report("partial", &["head_unknown", "ledger_window"], Some((2, 3)));
    let of_signed = Bundle::of(Part::of(&by_key, 2, 4));
    add.one(
        "window-signed",
        "the first record has its number",
        &of_signed,
        until,
    );
    let none = report("unsigned", &["ledger_empty", "ledger_window"], None);
    let mut empty = Part::of(&plain, 0, 0);
    add.one(
        "window-of-nothing",
        rule,
        &Bundle::of(empty.clone()),
        none.clone(),
    );
    (empty.total, empty.start) = ("0".to_owned(), "2".to_owned());
    add.one(
        "window-of-nothing-behind-the-end",
        rule,
        &Bundle::of(empty),
        none,
    );
    let compared = "no head and no length is compared with a window";
    let at_end = Bundle::of(Part::of(&plain, 2, 4)).text();
    for (name, head) in [
        ("before", plain.head(0)),
        ("inside", plain.head(3)),
        ("of-another", plain.head(0).replacen(":0:1:", ":3:4:", 1)),
    ] {
        let options = Options {
            head: Some(head),
            ..Options::default()
        };
        let name = format!("window-and-a-head-{name}");
        add.add(&name, compared, &at_end, options, vec![window()]);
    }
    let length = Options {
        length: Some(9),
        ..Options::default()
    };
    add.add(
        "window-and-a-length",
        compared,
        &at_end,
        length,
        vec![window()],
    );
    let mut edited = Bundle::of(Part::of(&plain, 2, 4));
    edited.parts[0].items[0].1 = edited.parts[0].items[0].1.replacen("\"n\"", "\"m\"", 1);
    let changed = report(
        "tampered",
        &["hash_wrong", "ledger_window", "unsigned"],
        None,
    );
    add.one("window-edited", "a record of a window", &edited, changed);
    let mut from_zero = Bundle::of(Part::whole(&plain));
    from_zero.parts[0].start = "0".to_owned();
    add.one(
        "start-of-0",
        "a `cursor_start` of 0 counts as 1",
        &from_zero,
        consistent(),
    );
    from_zero.parts[0].start = "-0".to_owned();
    add.one(
        "start-of-minus-0",
        "a `cursor_start` of 0 counts as 1",
        &from_zero,
        consistent(),
    );
    beginnings(add);
}

/// A genesis is the first record of a ledger, not of a window; admissions name records by their numbers.
fn beginnings(add: &mut Adder) {
    let mut ledger = Ledger::of_steps(1, None);
    let mut later = genesis(Value::Null);
    later.set("step_id", "step-3");
    later.set("started_at", "2026-11-22T20:30:03+00:00");
    later.set("ended_at", "2026-11-22T20:30:03+00:00");
    ledger.record(later, None);
    let rule = "the number of the first record";
    let misplaced = Bundle::of(Part::of(&ledger, 2, 3));
    let codes = ["genesis_misplaced", "ledger_window", "unsigned"];
    let tampered = report("tampered", &codes, None);
    add.one("window-from-a-genesis", rule, &misplaced, tampered);
    let admission = map([
        (
            "beginnings",
            Value::List(vec![map([
                ("record", 2.into()),
                ("hash", ledger.records[2].0.to_string().into()),
            ])]),
        ),
        ("why", "two hosts began it".into()),
    ]);
    ledger.record(declaration(4, "threadseal.beginnings", admission), None);
    let admitted = Bundle::of(Part::of(&ledger, 1, 4));
    let codes = [
        "genesis_repeated",
        "ledger_window",
        "step_unstarted",
        "unsigned",
    ];
    add.one(
        "window-with-an-admission",
        rule,
        &admitted,
        report("partial", &codes, None),
    );
}

fn replays(add: &mut Adder) {
    let rule = "a record with an `$omitted` marker has no `hash_wrong`";
    let with = |payload: &str, detail: &str| {
        let mut bundle = Bundle::of(Part::whole(&unsigned()));
        let record = &mut bundle.parts[0].items[0].1;
        let before = "\"payload\":{\"prompt\":\"O\u{f9} ?\"}";
        assert!(record.contains(before));
        *record = record.replacen(before, payload, 1);
        bundle.detail = detail.to_owned();
        bundle
    };
    let (replay, full) = ("\"replay\"", "\"full\"");
    let omitted = "\"payload\":{\"prompt\":{\"$omitted\":{\"bytes\":7}}}";
    let partial = report("partial", &["ledger_replay", "unsigned"], None);
    let tampered = |codes: &[&'static str]| report("tampered", codes, None);
    let wrong = tampered(&["hash_wrong", "ledger_replay", "unsigned"]);
    add.one("replay", rule, &with(omitted, replay), partial.clone());
    let null = "\"payload\":{\"prompt\":{\"$omitted\":null}}";
    add.one(
        "replay-omitted-null",
        rule,
        &with(null, replay),
        partial.clone(),
    );
    let edited = "\"payload\":{\"prompt\":\"other\"}";
    add.one("replay-edited", rule, &with(edited, replay), wrong.clone());
    let deeper = "\"payload\":{\"prompt\":{\"a\":{\"$omitted\":{}}}}";
    add.one(
        "replay-omitted-deeper",
        rule,
        &with(deeper, replay),
        wrong.clone(),
    );
    let direct = "\"payload\":{\"$omitted\":{}}";
    add.one(
        "replay-omitted-as-a-name",
        rule,
        &with(direct, replay),
        wrong,
    );
    let both = "\"payload\":{\"prompt\":{\"$omitted\":{},\"$slim\":{}}}";
    let codes = ["hash_wrong", "ledger_replay", "slim_unresolved", "unsigned"];
    add.one(
        "replay-slim-and-omitted",
        rule,
        &with(both, replay),
        tampered(&codes),
    );
    let as_full = tampered(&["hash_wrong", "unsigned"]);
    add.one(
        "full-and-omitted",
        rule,
        &with(omitted, full),
        as_full.clone(),
    );
    add.one(
        "of-another-detail",
        "any other `detail`",
        &with(omitted, "\"Replay\""),
        as_full.clone(),
    );
    add.one(
        "of-a-detail-that-is-none",
        "any other `detail`",
        &with(omitted, "[\"replay\"]"),
        as_full,
    );
    let mut part = Part::of(&unsigned(), 2, 4);
    part.total = "9".to_owned();
    let mut bundle = Bundle::of(part);
    bundle.detail = replay.to_owned();
    add.one(
        "replay-of-a-window",
        "`ledger_replay`, else `ledger_window`",
        &bundle,
        partial,
    );
}

/// The text of a record.
fn records(add: &mut Adder) {
    let numbers = "a number is spelled as in the bundle";
    let with = |name: &str, value: Value, spelled: &str, shown: &str| {
        let mut ledger = Ledger::new();
        let mut first = record(0, "completed");
        first.set("idempotency_key", "system:1");
        first.set(name, value);
        ledger.record(first, None);
        let mut bundle = Bundle::of(Part::whole(&ledger));
        let text = &mut bundle.parts[0].items[0].1;
        assert!(text.contains(spelled), "{text}");
        *text = text.replacen(spelled, shown, 1);
        bundle
    };
    let hundred = |shown: &str| with("result", "\u{1}".into(), "\"\\u0001\"", shown);
    let wrong = |codes: &[&'static str]| report("tampered", codes, None);
    // The hash is that of another value, so that the other codes show.
    let inexact = wrong(&["hash_wrong", "number_inexact", "unsigned"]);
    let other = wrong(&["hash_wrong", "unsigned"]);
    let not_finite = wrong(&["hash_wrong", "number_not_finite", "unsigned"]);
    let beyond = wrong(&[
        "hash_wrong",
        "number_inexact",
        "number_not_finite",
        "unsigned",
    ]);
    for (name, shown, report) in [
        (
            "with-more-digits",
            "0.1000000000000000055511151231257827",
            inexact.clone(),
        ),
        ("with-the-digits-of-its-double", "0.1", other.clone()),
        (
            "of-a-large-integer",
            "123456789012345678901234567890",
            other.clone(),
        ),
        ("with-an-exponent", "1E2", other.clone()),
        ("with-zeros", "1.500", other.clone()),
        ("minus-0", "-0", other.clone()),
        ("not-a-number", "NaN", not_finite.clone()),
        ("infinity", "-Infinity", not_finite),
        ("beyond-doubles", "1e400", beyond),
        ("near-zero", "1e-400", inexact),
    ] {
        let name = format!("number-{name}");
        add.one(&name, numbers, &hundred(shown), report);
    }
    let half = |shown: &str| with("result", Value::Half, "0.5", shown);
    for (name, shown, report) in [
        ("with-zeros-behind", "0.5000", consistent()),
        ("with-an-exponent-that-fits", "5E-1", consistent()),
        (
            "with-digits-that-no-hash-covers",
            "0.50000000000000000001",
            report("partial", &["number_inexact", "unsigned"], None),
        ),
    ] {
        add.one(&format!("number-{name}"), numbers, &half(shown), report);
    }
    let lone = wrong(&["hash_wrong", "lone_surrogate", "unsigned"]);
    let surrogates = "a text with a lone surrogate is written as an escape";
    add.one(
        "surrogate",
        surrogates,
        &hundred("\"\\ud83e\""),
        lone.clone(),
    );
    add.one(
        "surrogate-in-a-name",
        surrogates,
        &hundred("{\"\\udc00\":1}"),
        lone,
    );
    let spelling = "a record is written again";
    let blanks = |text: String| text.replace("\"status\":", "\n\t\"st\\u0061tus\" :  ");
    let mut bundle = Bundle::of(Part::whole(&unsigned()));
    for (_, record) in &mut bundle.parts[0].items {
        *record = blanks(record.clone());
    }
    add.one("spelled-otherwise", spelling, &bundle, consistent());
    let mut ledger = Ledger::of_steps(1, None);
    let mut later = genesis(Value::Null);
    later.set("step_id", "step-3");
    ledger.record(later, None);
    let mut bundle = Bundle::of(Part::whole(&ledger));
    let record = &mut bundle.parts[0].items[2].1;
    *record = record.replacen(
        "\"type\":\"threadseal.genesis\"",
        "\"type\":\"threadseal.\\u0067enesis\"",
        1,
    );
    let codes = ["genesis_misplaced", "unsigned"];
    add.one(
        "genesis-with-escapes",
        "its text has no escapes",
        &bundle,
        wrong(&codes),
    );
    let deep = format!("{}{}", "[".repeat(130), "]".repeat(130));
    add.one(
        "record-of-depth-131",
        "rows are read by Python's rules, too",
        &hundred(&deep),
        other,
    );
    let unchained = {
        let mut bundle = Bundle::of(Part::whole(&Ledger::new()));
        bundle.parts[0].items = vec![("1".to_owned(), "{}".to_owned())];
        bundle.parts[0].total = "1".to_owned();
        bundle
    };
    let odd = report("unsigned", &["record_odd", "record_unchained"], None);
    add.one(
        "record-of-nothing",
        "any object is a record",
        &unchained,
        odd,
    );
}

fn names(add: &mut Adder) {
    let rule = "a name that occurs twice";
    let twice = |codes: &[&'static str]| report("tampered", codes, None);
    let bundle = Bundle::of(Part::whole(&signed()));
    let codes = ["head_unknown", "name_repeated"];
    let again = |from: &str, to: &str| bundle.text().replacen(from, to, 1);
    let cases = [
        (
            "in-the-document",
            again("\"version\":1,", "\"version\":2,\"version\":1,"),
        ),
        (
            "behind-the-ledgers",
            again("\"warnings\":[]", "\"warnings\":[{\"a\":1,\"\\u0061\":2}]"),
        ),
        (
            "in-a-record",
            again(
                "{\"run_id\":\"run-1\",\"step_id\"",
                "{\"run_id\":\"x\",\"run_id\":\"run-1\",\"step_id\"",
            ),
        ),
        (
            "in-a-ledger",
            again("\"total\":4", "\"total\":7,\"total\":4"),
        ),
    ];
    for (name, text) in cases {
        assert_ne!(text, bundle.text());
        let name = format!("name-twice-{name}");
        add.add(&name, rule, &text, Options::default(), vec![twice(&codes)]);
    }
    let mut two = Bundle::of(Part::whole(&unsigned()));
    two.parts.push(Part::whole(&signed()));
    add.one("run-twice", "the last value counts", &two, twice(&codes));
    let other = of_another_run();
    two.parts = vec![Part::whole(&unsigned()), other, Part::whole(&signed())];
    let second = OfRun {
        run: Some("run-2"),
        ..twice(&["name_repeated", "unsigned"])
    };
    let reports = vec![twice(&codes), second];
    let text = two.text();
    add.add(
        "run-twice-and-another",
        "in the place of the first",
        &text,
        Options::default(),
        reports,
    );
}

/// What is no bundle: rule 1.
fn malformed(add: &mut Adder) {
    let good = Bundle::of(Part::of(&unsigned(), 0, 2));
    let text = good.text();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let name_of = "{\"run-1\":";
    let long = format!("{{\"{}\":", "r".repeat(513));
    let deep = format!("\"warnings\":{}{}", "[".repeat(512), "]".repeat(512));
    let (first, second) = ("{\"cursor\":1,", "{\"cursor\":2,");
    let cases = [
        ("nothing", String::new()),
        ("an-array", format!("[{}]", text.trim_end())),
        ("a-number", "1\n".to_owned()),
        ("cut", text[..text.len() - 2].to_owned()),
        ("more-behind", format!("{text}{{}}")),
        ("a-byte-order-mark", format!("\u{feff}{text}")),
        ("depth-513", changed("\"warnings\":[]", &deep)),
        (
            "integer-of-4301-digits",
            changed("\"run\":{}", &format!("\"run\":{}", "9".repeat(4301))),
        ),
        ("version-2", changed("\"version\":1", "\"version\":2")),
        ("version-1.0", changed("\"version\":1", "\"version\":1.0")),
        (
            "version-text",
            changed("\"version\":1", "\"version\":\"1\""),
        ),
        ("version-true", changed("\"version\":1", "\"version\":true")),
        ("version-gone", changed("\"version\":1,", "")),
        ("root-gone", changed("\"root_run_id\":\"run-1\",", "")),
        (
            "root-empty",
            changed("\"root_run_id\":\"run-1\"", "\"root_run_id\":\"\""),
        ),
        (
            "root-with-lf",
            changed("\"root_run_id\":\"run-1\"", "\"root_run_id\":\"a\\n\""),
        ),
        (
            "root-with-a-lone-surrogate",
            changed("\"root_run_id\":\"run-1\"", "\"root_run_id\":\"\\ud800\""),
        ),
        ("ledgers-gone", changed("\"ledgers\"", "\"ledger\"")),
        (
            "ledgers-empty",
            Bundle {
                parts: Vec::new(),
                ..good.clone()
            }
            .text(),
        ),
        (
            "ledgers-an-array",
            changed("\"ledgers\":{", "\"ledgers\":[],\"x\":{"),
        ),
        ("name-empty", changed(name_of, "{\"\":")),
        ("name-with-nul", changed(name_of, "{\"\\u0000\":")),
        ("name-of-513-bytes", changed(name_of, &long)),
        (
            "name-with-a-lone-surrogate",
            changed(name_of, "{\"\\udfff\":"),
        ),
        (
            "ledger-an-array",
            changed(name_of, "{\"run-2\":[],\"run-1\":"),
        ),
        (
            "run-id-of-another",
            changed(
                "\"run_id\":\"run-1\",\"items\"",
                "\"run_id\":\"run-2\",\"items\"",
            ),
        ),
        (
            "run-id-null",
            changed(
                "\"run_id\":\"run-1\",\"items\"",
                "\"run_id\":null,\"items\"",
            ),
        ),
        ("total-gone", changed("\"total\":4,", "")),
        ("total-less", changed("\"total\":4", "\"total\":1")),
        ("total-negative", changed("\"total\":4", "\"total\":-4")),
        ("total-4.0", changed("\"total\":4", "\"total\":4.0")),
        ("total-4e0", changed("\"total\":4", "\"total\":4e0")),
        (
            "total-of-2-to-53",
            changed("\"total\":4", "\"total\":9007199254740992"),
        ),
        ("start-gone", changed("\"cursor_start\":1,", "")),
        (
            "start-true",
            changed("\"cursor_start\":1", "\"cursor_start\":true"),
        ),
        (
            "start-2",
            changed("\"cursor_start\":1", "\"cursor_start\":2"),
        ),
        (
            "start-of-2-to-64",
            changed(
                "\"cursor_start\":1",
                "\"cursor_start\":18446744073709551616",
            ),
        ),
        ("items-gone", changed("\"items\"", "\"item\"")),
        (
            "items-an-object",
            changed("\"items\":[", "\"items\":{},\"x\":["),
        ),
        ("item-a-number", changed("\"items\":[", "\"items\":[1,")),
        ("cursor-gone", changed(first, "{")),
        ("cursor-text", changed(first, "{\"cursor\":\"1\",")),
        ("cursor-1.0", changed(first, "{\"cursor\":1.0,")),
        ("cursor-0", changed(first, "{\"cursor\":0,")),
        ("cursor-skipped", changed(second, "{\"cursor\":3,")),
        ("cursor-repeated", changed(second, "{\"cursor\":1,")),
        ("record-gone", changed("\"record\"", "\"recorded\"")),
        (
            "record-null",
            changed("\"record\":{", "\"record\":null,\"x\":{"),
        ),
        (
            "record-an-array",
            changed("\"record\":{", "\"record\":[],\"x\":{"),
        ),
    ];
    let report = OfRun {
        run: None,
        ..report("malformed", &["bundle_malformed"], None)
    };
    for (name, text) in cases {
        let name = format!("malformed-{name}");
        let reports = vec![report.clone()];
        add.add(&name, "rule 1", &text, Options::default(), reports);
    }
    let last = (1_u64 << 53) - 1;
    let cursors = changed(first, &format!("{{\"cursor\":{},", last - 1));
    let cursors = cursors.replacen(second, &format!("{{\"cursor\":{last},"), 1);
    let cursors = cursors.replacen("\"total\":4", &format!("\"total\":{last}"), 1);
    let start = format!("\"cursor_start\":{}", last - 1);
    let cursors = cursors.replacen("\"cursor_start\":1", &start, 1);
    add.add(
        "cursor-largest",
        "the largest index",
        &cursors,
        Options::default(),
        vec![window()],
    );
    let free = changed("\"run_id\":\"run-1\",\"items\"", "\"items\"");
    add.add(
        "run-id-gone",
        "`run_id` is absent",
        &free,
        Options::default(),
        vec![window()],
    );
    let more = changed("\"artifacts\":[]", "\"artifacts\":7,\"cursor_end\":\"x\"");
    add.add(
        "other-members",
        "nothing else changes a verdict",
        &more,
        Options::default(),
        vec![window()],
    );
}
