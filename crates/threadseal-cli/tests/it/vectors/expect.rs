//! `testkit/expect.toml`: the expected result for each word in the indexes of the vectors.

use crate::prelude::*;
use serde::Deserialize;

/// One file of an index.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) kind: String,
    pub(crate) expect: String,
    #[serde(default)]
    pub(crate) why: String,
    pub(crate) source: Option<String>,
    pub(crate) trust_user_space: Option<String>,
    pub(crate) trust_key_pem: Option<String>,
    pub(crate) rye: Option<Value>,
    pub(crate) rye_strict: Option<Value>,
    pub(crate) rye_lenient: Option<Value>,
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectations {
    pub(crate) exit: BTreeMap<String, i32>,
    pub(crate) exemptions: Exemptions,
    pub(crate) rule: Vec<Rule>,
}

/// How many files may get less than their word promises.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exemptions {
    pub(crate) most: usize,
}

/// The expected answer to some files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) expect: String,
    #[serde(default)]
    pub(crate) kinds: Vec<String>,
    #[serde(default)]
    pub(crate) why: Vec<String>,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    pub(crate) verdicts: Vec<String>,
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) errors: bool,
    pub(crate) unauthenticated: Option<String>,
    pub(crate) count: Option<usize>,
    #[serde(default)]
    pub(crate) exempt: bool,
    pub(crate) reason: Option<String>,
}

impl Expectations {
    /// Reads the testkit's file.
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/expect.toml");
        toml::from_str(&read(path)).unwrap()
    }

    /// The rules, by their places, under which `entry` falls: those that name its sentence or its
    /// file, or else those that name neither.
    pub(crate) fn rules_for(&self, entry: &Entry) -> Vec<usize> {
        let of_word = |rule: &Rule| {
            rule.expect == entry.expect
                && (rule.kinds.is_empty() || rule.kinds.contains(&entry.kind))
        };
        let named = |rule: &Rule| {
            rule.why.iter().any(|begin| entry.why.starts_with(begin))
                || rule.files.contains(&entry.file)
        };
        let general = |rule: &Rule| rule.why.is_empty() && rule.files.is_empty();
        let places = |fits: &dyn Fn(&Rule) -> bool| -> Vec<usize> {
            let rules = self.rule.iter().enumerate();
            let fitting = rules.filter(|(_, rule)| of_word(rule) && fits(rule));
            fitting.map(|(place, _)| place).collect()
        };
        let special = places(&named);
        if special.is_empty() {
            places(&general)
        } else {
            special
        }
    }
}

// T-RYE-13
#[test]
fn no_exemption_accepts_anything_and_they_are_few() {
    let expectations = Expectations::read();
    let exempt = || expectations.rule.iter().filter(|rule| rule.exempt);
    let files: usize = exempt().map(|rule| rule.count.unwrap()).sum();
    assert!(files <= expectations.exemptions.most, "{files}");
    assert!(files <= 10, "{files}");
    for rule in exempt() {
        assert!(rule.reason.is_some(), "{rule:?}");
        for verdict in &rule.verdicts {
            assert_ne!(expectations.exit[verdict], 0, "{rule:?}");
        }
    }
}

#[test]
fn an_attack_that_one_run_accepts_is_named_or_refused_in_another_run() {
    let expectations = Expectations::read();
    let verified = |rule: &&Rule| rule.verdicts.iter().any(|verdict| verdict == "verified");
    let attacks = || {
        expectations
            .rule
            .iter()
            .filter(|rule| rule.expect.starts_with("invalid"))
    };
    for accepting in attacks().filter(verified) {
        let told = accepting.unauthenticated.is_some() || accepting.code.is_some();
        let refused = attacks().any(|other| {
            other.expect == accepting.expect
                && (other.kinds.is_empty()
                    || accepting.kinds.iter().all(|k| other.kinds.contains(k)))
                && other.why == accepting.why
                && other
                    .verdicts
                    .iter()
                    .all(|verdict| expectations.exit[verdict] == 1)
        });
        assert!(told || refused, "{accepting:?}");
    }
}
