//! Every file that the Rye packages made, and every attack on one, through the command.
//!
//! `testkit/expect.toml` has the expected results. The files are beside the project; without them
//! the tests report that they are skipped. One process answers for all files with the same flags.

mod expect;
mod native;
mod scroll;

use crate::prelude::*;
use expect::{Entry, Expectations, Rule};

/// The vectors and their expected results.
pub(crate) struct Vectors {
    pub(crate) root: PathBuf,
    sandbox: Sandbox,
    entries: Vec<(String, Entry)>,
    expectations: Expectations,
}

/// One file under one rule, ready to run.
pub(crate) struct Case<'a> {
    pub(crate) path: &'a str,
    entry: &'a Entry,
    rule: usize,
    pub(crate) flags: Vec<String>,
}

impl Vectors {
    /// Reads the indexes; none if there are no vectors.
    pub(crate) fn find() -> Option<Self> {
        let root = shared("vectors/rye")?;
        shared("corpus/rye-real")?;
        let mut entries = Vec::new();
        for half in ["valid", "tampered"] {
            let index = fs::read(root.join(half).join("index.json")).unwrap();
            let listed: Vec<Entry> = serde_json::from_slice(&index).unwrap();
            // Databases are no records of this version.
            let listed = listed.into_iter().filter(|entry| entry.kind != "sqlite");
            entries.extend(listed.map(|entry| {
                let real = ["pypi_real/", "repo_real/"]
                    .iter()
                    .any(|f| entry.file.starts_with(f));
                let folder = if real { "../../corpus/rye-real" } else { half };
                (format!("{folder}/{}", entry.file), entry)
            }));
        }
        assert!(entries.len() > 800, "{}", entries.len());
        Some(Self {
            root,
            sandbox: Sandbox::new(),
            entries,
            expectations: Expectations::read(),
        })
    }

    /// Runs `verify` in the folder of the vectors, to which the paths in Rye's recorded answers are
    /// relative.
    fn verify(&self, flags: &[String], paths: &[&str]) -> (i32, Value) {
        let mut command = self.sandbox.command();
        command
            .current_dir(&self.root)
            .args(["verify", "--json"])
            .args(flags)
            .args(paths);
        let output = command.output().unwrap();
        let answer = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap(), answer)
    }

    /// The one report on `path`.
    fn report(&self, flags: &[String], path: &str) -> (i32, Value) {
        let (code, mut answer) = self.verify(flags, &[path]);
        (code, answer["results"][0].take())
    }

    /// The options that trust the keys of an entry.
    fn trust(entry: &Entry) -> Vec<String> {
        let flag = |path: String| ["--trust".to_owned(), path];
        if let Some(pem) = &entry.trust_key_pem {
            return flag(format!("../../corpus/rye-real/{pem}")).to_vec();
        }
        let user = entry.trust_user_space.as_deref().unwrap_or("user");
        let keys = format!("valid/{user}/.ai/config/keys");
        [
            flag(format!("{keys}/signing/public_key.pem")),
            flag(format!("{keys}/trusted")),
        ]
        .concat()
    }

    /// The flags of `rule`, its placeholders filled in.
    fn flags(&self, rule: &Rule, entry: &Entry) -> Vec<String> {
        let fill = |flag: &String| match flag.as_str() {
            "{key}" => "valid/user/.ai/config/keys/signing/public_key.pem".to_owned(),
            "{head}" => {
                let (_, report) = self.report(&Self::trust(entry), &source(entry));
                report["head"].text().to_owned()
            }
            "{thread}" => {
                let text = read(self.root.join(source(entry)));
                let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
                line["thread_id"].text().to_owned()
            }
            _ => flag.clone(),
        };
        let own = rule.flags.iter().map(fill);
        Self::trust(entry).into_iter().chain(own).collect()
    }

    /// Every file with every rule that applies to it.
    pub(crate) fn cases(&self) -> Vec<Case<'_>> {
        let mut cases = Vec::new();
        for (path, entry) in &self.entries {
            let rules = self.expectations.rules_for(entry);
            assert!(!rules.is_empty(), "no rule for {path}: {}", entry.expect);
            cases.extend(rules.into_iter().map(|rule| Case {
                path,
                entry,
                rule,
                flags: self.flags(&self.expectations.rule[rule], entry),
            }));
        }
        cases
    }

    fn exit(&self, report: &Value) -> i32 {
        self.expectations.exit[report["verdict"].text()]
    }

    /// The exit code of several reports together.
    fn combined_exit<'a>(&self, reports: impl Iterator<Item = &'a Value>) -> i32 {
        let codes: Vec<i32> = reports.map(|report| self.exit(report)).collect();
        if codes.contains(&1) {
            1
        } else {
            codes.into_iter().max().unwrap()
        }
    }
}

/// The path of the genuine file that was attacked.
fn source(entry: &Entry) -> String {
    format!("valid/{}", entry.source.as_ref().unwrap())
}

/// Runs all cases, those with the same flags in one process; the report of each, in order.
fn run<'a>(vectors: &Vectors, cases: &'a [Case<'a>]) -> Vec<(&'a Case<'a>, Value)> {
    let mut groups: BTreeMap<&[String], Vec<&Case<'_>>> = BTreeMap::new();
    for case in cases {
        groups.entry(&case.flags).or_default().push(case);
    }
    let mut out = Vec::new();
    for (flags, group) in groups {
        // An expected head belongs to one record.
        let alone = flags.iter().any(|flag| flag == "--expect-head");
        for group in group.chunks(if alone { 1 } else { group.len() }) {
            let paths: Vec<&str> = group.iter().map(|case| case.path).collect();
            let (code, answer) = vectors.verify(flags, &paths);
            let results = answer["results"].list();
            assert_eq!(
                results.len(),
                group.len(),
                "{flags:?} {:?}",
                answer["errors"]
            );
            assert_eq!(code, vectors.combined_exit(results.iter()), "{flags:?}");
            for case in group {
                let report = results.iter().find(|report| report["path"] == case.path);
                out.push((*case, report.unwrap().clone()));
            }
        }
    }
    out
}

fn check(rule: &Rule, case: &Case<'_>, report: &Value) {
    let at = || format!("{} ({}): {report:#}", case.path, case.entry.why);
    let verdict = report["verdict"].text();
    assert!(
        rule.verdicts.iter().any(|allowed| allowed == verdict),
        "{}",
        at()
    );
    let findings = report["findings"].list();
    if let Some(code) = &rule.code {
        assert!(
            findings.iter().any(|finding| finding["code"] == **code),
            "{}",
            at()
        );
    }
    if rule.errors {
        assert!(
            findings
                .iter()
                .any(|finding| finding["severity"] == "error"),
            "{}",
            at()
        );
    }
    if let Some(named) = &rule.unauthenticated {
        let listed = report["unauthenticated"].list();
        let begins = |text: &Value| text.text().starts_with(named);
        assert!(listed.iter().any(begins), "{}", at());
    }
}

// T-RYE-03 T-RYE-06
#[test]
fn every_vector_gets_the_verdict_that_its_word_comes_to() {
    let Some(vectors) = Vectors::find() else {
        return;
    };
    let cases = vectors.cases();
    let mut counts = vec![0; vectors.expectations.rule.len()];
    for (case, report) in run(&vectors, &cases) {
        check(&vectors.expectations.rule[case.rule], case, &report);
        counts[case.rule] += 1;
    }
    for (rule, count) in vectors.expectations.rule.iter().zip(counts) {
        assert!(count > 0, "no file falls under {rule:?}");
        assert_eq!(rule.count.unwrap_or(count), count, "{rule:?}");
    }
}

#[test]
fn a_file_alone_exits_as_its_verdict_says() {
    let Some(vectors) = Vectors::find() else {
        return;
    };
    let cases = vectors.cases();
    let mut examples = BTreeMap::new();
    for (case, report) in run(&vectors, &cases) {
        examples
            .entry(report["verdict"].text().to_owned())
            .or_insert(case);
    }
    assert!(examples.len() >= 9, "{:?}", examples.keys());
    for (verdict, case) in examples {
        let (code, report) = vectors.report(&case.flags, case.path);
        assert_eq!(report["verdict"], verdict, "{}", case.path);
        assert_eq!(code, vectors.expectations.exit[&verdict], "{}", case.path);
    }
}

#[test]
fn the_answers_of_the_original_are_given_as_recorded() {
    let Some(vectors) = Vectors::find() else {
        return;
    };
    let mut compared = BTreeMap::new();
    for (path, entry) in &vectors.entries {
        let recorded = match (&entry.rye_strict, &entry.rye_lenient, &entry.rye) {
            (Some(strict), Some(lenient), _) => {
                json!({ "strict": strict, "lenient": lenient })
            }
            (_, _, Some(answer)) => answer.clone(),
            _ => continue,
        };
        compared.insert(path.as_str(), (entry, recorded));
    }
    assert!(compared.len() > 700, "{}", compared.len());
    let cases: Vec<Case<'_>> = compared
        .iter()
        .map(|(path, (entry, _))| Case {
            path,
            entry,
            rule: 0,
            flags: [
                &["--profile".to_owned(), "rye".to_owned()],
                &*Vectors::trust(entry),
            ]
            .concat(),
        })
        .collect();
    for (case, report) in run(&vectors, &cases) {
        let (entry, recorded) = &compared[case.path];
        let ours = &report["compat"]["rye"];
        let bytes = fs::metadata(vectors.root.join(case.path)).unwrap().len();
        let agreed = if bytes == 0 && entry.kind == "transcript" {
            // Nothing in an empty file shows that it is Rye's.
            ours.is_null()
        } else {
            agrees(recorded, ours)
        };
        assert!(agreed, "{} {}: {recorded} {ours}", case.path, entry.why);
    }
}

/// Some recorded answers are only `true`, or `{"valid": true}`, where the command reports more.
fn agrees(recorded: &Value, ours: &Value) -> bool {
    let valid = |answer: &Value| answer.as_bool().or_else(|| answer["valid"].as_bool());
    let brief = recorded.is_boolean() || recorded.as_object().is_some_and(|map| map.len() == 1);
    recorded == ours || (brief && valid(recorded).is_some() && valid(recorded) == valid(ours))
}

/// The folder of the vectors is read-only.
// T-CMD-15
#[test]
fn the_vectors_are_left_as_they_were() {
    let Some(vectors) = Vectors::find() else {
        return;
    };
    let digest = |root: &Path| tree_digest(&root.join("tampered"));
    let before = digest(&vectors.root);
    vectors.verify(&[], &["tampered"]);
    assert_eq!(digest(&vectors.root), before);
}
