//! Rules that find secrets: those of the crate `nosecrets-rules` with those of [`shapes`], or a
//! file in the format of Gitleaks.
//!
//! ```text
//! [[rules]]
//! id = "acme-token"
//! regex = '''acme_([a-z0-9]{32})'''
//! secretGroup = 1            # which group is the secret; else the first that matches, else all
//! keywords = ["acme_"]       # the rule applies only to texts with one of them
//! entropy = 3.5              # fewest bits for each character of a secret
//! [[rules.allowlists]]       # or [rules.allowlist]; [[allowlists]] and [allowlist] for all rules
//! regexes = ["example"]      # of values that are no secret; `regexTarget = "match"`: of matches
//! stopwords = ["test"]
//! ```
//!
//! `[extend] useDefault = true` keeps the default rules as well. Gitleaks' rules on files and
//! commits (`path`, `paths`, `commits`) have no meaning here: a rule with only a `path` is skipped.
//! Patterns run in linear time (crate `regex`): no text can make the search hang.

mod shapes;

use crate::escaped_search::unescaped;
use aho_corasick::AhoCorasick;
use regex::{Captures, Regex};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;
use threadseal_convert::{Detector, Secret};

/// Largest file of rules, in bytes.
pub(crate) const MAX_RULES_BYTES: usize = 4 << 20;
/// Most rules.
const MAX_RULES: usize = 10_000;

/// Rules, ready to search.
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// All keywords, without case.
    keywords: AhoCorasick,
    /// The rule of each keyword.
    owners: Vec<usize>,
    /// Rules without keywords, which apply to every text.
    always: Vec<usize>,
    allowed: Vec<Allowed>,
}

/// A pattern that is compiled when it is first asked: most rules never are.
struct Pattern {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

struct Rule {
    id: String,
    pattern: Pattern,
    /// The group with the secret; 0 is the first that matches, or all.
    group: usize,
    keywords: Vec<String>,
    entropy: f64,
    shape: Shape,
    allowed: Vec<Allowed>,
}

/// Conditions on a secret besides the pattern.
#[derive(Default)]
struct Shape {
    prefixes: Vec<String>,
    characters: Option<Pattern>,
    lengths: Option<(usize, usize)>,
}

/// Values that are no secret.
struct Allowed {
    patterns: Vec<Pattern>,
    words: Vec<String>,
    /// Do the patterns apply to the whole match, instead of the secret?
    whole: bool,
    /// Must a pattern and a word both match?
    both: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct File {
    rules: Vec<FileRule>,
    allowlist: Option<FileAllowed>,
    allowlists: Vec<FileAllowed>,
    extend: Extend,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Extend {
    use_default: bool,
    path: Option<String>,
    url: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FileRule {
    id: String,
    regex: Option<String>,
    secret_group: usize,
    keywords: Vec<String>,
    entropy: f64,
    allowlist: Option<FileAllowed>,
    allowlists: Vec<FileAllowed>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FileAllowed {
    regexes: Vec<String>,
    regex_target: String,
    stopwords: Vec<String>,
    condition: String,
}

impl Rules {
    /// The default rules.
    ///
    /// # Errors
    /// A rule that cannot be compiled.
    pub(crate) fn builtin() -> Result<Self, String> {
        Self::new(builtin()?, Vec::new())
    }

    /// The rules of a file in the format of Gitleaks.
    ///
    /// # Errors
    /// The fault in the file, for people.
    pub(crate) fn gitleaks(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RULES_BYTES {
            return Err(format!(
                "the file of rules is larger than {MAX_RULES_BYTES} bytes"
            ));
        }
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.extend.path.is_some() || file.extend.url.is_some() {
            return Err(
                "[extend] path and url are not followed: put the rules into one file".to_owned(),
            );
        }
        let mut rules = if file.extend.use_default {
            builtin()?
        } else {
            Vec::new()
        };
        for rule in file.rules {
            let Some(pattern) = rule.regex else { continue };
            let allowed = rule.allowlists.into_iter().chain(rule.allowlist);
            rules.push(Rule {
                pattern: Pattern::compiled(&rule.id, pattern)?,
                group: rule.secret_group,
                keywords: rule.keywords,
                entropy: rule.entropy,
                shape: Shape::default(),
                allowed: allowed
                    .map(|list| Allowed::of(&rule.id, &list))
                    .collect::<Result<_, _>>()?,
                id: rule.id,
            });
        }
        let allowed = file.allowlists.into_iter().chain(file.allowlist);
        let allowed = allowed.map(|list| Allowed::of("allowlist", &list));
        Self::new(rules, allowed.collect::<Result<_, _>>()?)
    }

    fn new(rules: Vec<Rule>, allowed: Vec<Allowed>) -> Result<Self, String> {
        if rules.is_empty() || rules.len() > MAX_RULES {
            return Err(format!("there must be between 1 and {MAX_RULES} rules"));
        }
        let mut owners = Vec::new();
        let mut words = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            for word in rule.keywords.iter().filter(|word| !word.is_empty()) {
                words.push(word.as_str());
                owners.push(index);
            }
        }
        let asked: BTreeSet<usize> = owners.iter().copied().collect();
        let always = (0..rules.len())
            .filter(|index| !asked.contains(index))
            .collect();
        let keywords = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(&words);
        Ok(Self {
            keywords: keywords.map_err(|error| error.to_string())?,
            owners,
            always,
            allowed,
            rules,
        })
    }
}

impl Rules {
    /// The rule that finds a secret in a line of a log, as it is or with its escapes undone.
    pub(crate) fn rule_of_line(&self, line: &[u8]) -> Option<String> {
        let find = |text: &[u8]| {
            let found = self.find(&String::from_utf8_lossy(text)).into_iter().next();
            found.map(|secret| secret.rule)
        };
        find(line).or_else(|| find(&unescaped(line)))
    }
}

impl Detector for Rules {
    fn find(&self, text: &str) -> Vec<Secret> {
        let mut asked: BTreeSet<usize> = self.always.iter().copied().collect();
        for word in self.keywords.find_overlapping_iter(text) {
            asked.extend(self.owners.get(word.pattern().as_usize()));
            if asked.len() == self.rules.len() {
                break;
            }
        }
        let mut found: Vec<(Range<usize>, usize)> = Vec::new();
        for index in asked {
            let Some(rule) = self.rules.get(index) else {
                continue;
            };
            let Some(pattern) = rule.pattern.get() else {
                continue;
            };
            for captures in pattern.captures_iter(text) {
                let place = rule.secret(&captures);
                if rule.holds(
                    &captures,
                    text.get(place.clone()).unwrap_or_default(),
                    &self.allowed,
                ) {
                    found.push((place, index));
                }
            }
        }
        found.sort_by_key(|(place, index)| (place.start, std::cmp::Reverse(place.end), *index));
        let mut end = 0;
        found.retain(|(place, _)| {
            let free = place.start >= end && !place.is_empty();
            end = if free { place.end } else { end };
            free
        });
        let secret = |(place, index): (Range<usize>, usize)| {
            let rule = self.rules.get(index).map_or("", |rule| rule.id.as_str());
            Secret {
                place,
                rule: rule.to_owned(),
            }
        };
        found.into_iter().map(secret).collect()
    }
}

impl Pattern {
    /// A pattern that is known to be one: those of the default rules are, which a test shows.
    fn new(text: String) -> Self {
        Self {
            text,
            compiled: OnceLock::new(),
        }
    }

    /// A pattern that a person wrote.
    fn compiled(id: &str, text: String) -> Result<Self, String> {
        let pattern = Regex::new(&text).map_err(|error| format!("rule {id}: {error}"))?;
        Ok(Self {
            text,
            compiled: OnceLock::from(Some(pattern)),
        })
    }

    fn get(&self) -> Option<&Regex> {
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.text).ok());
        compiled.as_ref()
    }

    fn matches(&self, text: &str) -> bool {
        self.get().is_some_and(|pattern| pattern.is_match(text))
    }
}

impl Rule {
    fn secret(&self, captures: &Captures<'_>) -> Range<usize> {
        let chosen = match self.group {
            0 => captures
                .iter()
                .skip(1)
                .flatten()
                .find(|group| !group.is_empty()),
            group => captures.get(group),
        };
        chosen.map_or_else(|| captures.get_match().range(), |group| group.range())
    }

    fn holds(&self, captures: &Captures<'_>, secret: &str, allowed: &[Allowed]) -> bool {
        let all = captures.get_match().as_str();
        let entropy = self.entropy <= 0.0 || entropy(secret) >= self.entropy;
        let mut lists = self.allowed.iter().chain(allowed);
        entropy && self.shape.fits(secret) && !lists.any(|list| list.allows(all, secret))
    }
}

impl Shape {
    fn fits(&self, secret: &str) -> bool {
        let prefix = self.prefixes.is_empty()
            || self
                .prefixes
                .iter()
                .any(|prefix| secret.starts_with(prefix));
        let length = self
            .lengths
            .is_none_or(|(least, most)| (least..=most).contains(&secret.len()));
        prefix
            && length
            && self
                .characters
                .as_ref()
                .is_none_or(|all| all.matches(secret))
    }
}

impl Allowed {
    fn of(id: &str, file: &FileAllowed) -> Result<Self, String> {
        let patterns = file.regexes.iter();
        let patterns = patterns.map(|pattern| Pattern::compiled(id, pattern.clone()));
        Ok(Self {
            patterns: patterns.collect::<Result<_, _>>()?,
            words: file
                .stopwords
                .iter()
                .map(|word| word.to_lowercase())
                .collect(),
            whole: matches!(file.regex_target.as_str(), "match" | "line"),
            both: file.condition.eq_ignore_ascii_case("and") || file.condition == "&&",
        })
    }

    fn allows(&self, all: &str, secret: &str) -> bool {
        let text = if self.whole { all } else { secret };
        let pattern = self.patterns.iter().any(|pattern| pattern.matches(text));
        let lower = secret.to_lowercase();
        let word = self.words.iter().any(|word| lower.contains(word));
        if self.both {
            return (pattern || self.patterns.is_empty())
                && (word || self.words.is_empty())
                && (pattern || word);
        }
        pattern || word
    }
}

/// The rules that come with the command.
fn builtin() -> Result<Vec<Rule>, String> {
    let known = nosecrets_rules::load_builtin_rules().map_err(|error| error.to_string())?;
    let known = known.into_iter().map(rule);
    Ok(known.chain(shapes::rules()).collect())
}

fn rule(rule: nosecrets_rules::Rule) -> Rule {
    let validate = rule.validate.unwrap_or_default();
    let characters = validate
        .charset
        .map(|set| Pattern::new(format!("^[{set}]*$")));
    let least = validate.length.or(validate.min_length);
    let most = validate.length.or(validate.max_length);
    let bounded = least.is_some() || most.is_some();
    let allow = rule.allow.unwrap_or_default();
    let values = allow
        .values
        .iter()
        .map(|value| format!("^{}$", regex::escape(value)));
    let patterns = allow.patterns.iter().cloned().chain(values);
    let allowed = Allowed {
        patterns: patterns.map(Pattern::new).collect(),
        words: Vec::new(),
        whole: false,
        both: false,
    };
    Rule {
        pattern: Pattern::new(rule.pattern),
        group: rule.capture,
        keywords: rule.keywords,
        entropy: 0.0,
        shape: Shape {
            prefixes: validate.prefix,
            characters,
            lengths: bounded.then(|| (least.unwrap_or_default(), most.unwrap_or(usize::MAX))),
        },
        allowed: vec![allowed],
        id: rule.id,
    }
}

/// Shannon's entropy of a text, in bits for each character.
fn entropy(text: &str) -> f64 {
    let mut counts = std::collections::BTreeMap::<char, u32>::new();
    let mut total = 0_u32;
    for character in text.chars() {
        *counts.entry(character).or_default() += 1;
        total = total.saturating_add(1);
    }
    let share = |count: u32| f64::from(count) / f64::from(total);
    counts
        .values()
        .map(|count| -share(*count) * share(*count).log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rules: &Rules, text: &str) -> Vec<(String, String)> {
        let secrets = rules.find(text).into_iter();
        secrets
            .map(|secret| (secret.rule, text[secret.place].to_owned()))
            .collect()
    }

    /// Built from parts, so that no scanner of this repository takes it for a secret.
    fn token() -> String {
        format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6")
    }

    #[test]
    fn the_default_rules_compile_and_find_a_token_but_no_prose() {
        let rules = Rules::builtin().unwrap();
        for rule in &rules.rules {
            let lists = rule.allowed.iter().flat_map(|list| &list.patterns);
            let patterns = lists.chain(&rule.shape.characters).chain([&rule.pattern]);
            for pattern in patterns {
                assert!(pattern.get().is_some(), "{}: {}", rule.id, pattern.text);
            }
        }
        let text = format!("export TOKEN={} # done", token());
        let found_here = found(&rules, &text);
        assert_eq!(found_here.len(), 1, "{found_here:?}");
        assert_eq!(found_here[0].1, token());
        assert_eq!(
            found(
                &rules,
                "The quick brown fox jumps over the lazy dog, key by key."
            ),
            []
        );
        assert_eq!(found(&rules, ""), []);
    }

    #[test]
    fn a_secret_that_only_its_name_betrays_is_found_behind_the_name() {
        let rules = Rules::builtin().unwrap();
        let found = found(&rules, "password=\"xK9#mQ2$vL5!\"");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, "xK9#mQ2$vL5!");
    }

    #[test]
    fn rules_of_gitleaks_have_groups_keywords_entropy_and_allowlists() {
        let rules = Rules::gitleaks(
            r#"
            [[rules]]
            id = "acme"
            regex = '''acme_([a-z0-9]{8})'''
            secretGroup = 1
            keywords = ["ACME_"]
            entropy = 2.0
            [[rules.allowlists]]
            regexes = ["^example"]
            stopwords = ["dummy"]
            [[rules]]
            id = "files only"
            path = "x"
            [[rules]]
            id = "bare"
            regex = "zz[0-9]+"
            [allowlist]
            regexes = ["zz0"]
            "#,
        )
        .unwrap();
        let text = "acme_a1b2c3d4 acme_aaaaaaaa acme_example1 acme_xdummyx1 zz12 zz01";
        assert_eq!(
            found(&rules, text),
            [
                ("acme".into(), "a1b2c3d4".into()),
                ("bare".into(), "zz12".into())
            ]
        );
    }

    #[test]
    fn default_rules_are_kept_where_a_file_extends_them() {
        let text = "[extend]\nuseDefault = true\n[[rules]]\nid = \"x\"\nregex = \"qqq\"\n";
        let rules = Rules::gitleaks(text).unwrap();
        assert_eq!(found(&rules, &format!("qqq {}", token())).len(), 2);
    }

    #[test]
    fn files_that_say_no_rule_or_a_bad_one_are_refused() {
        for bad in [
            "",
            "not toml",
            "[[rules]]\nid = \"x\"\n",
            "[[rules]]\nid = \"x\"\nregex = \"(\"\n",
            "[[rules]]\nid = \"x\"\nregex = \"(?=a)\"\n",
            "[extend]\npath = \"other.toml\"\n",
        ] {
            assert!(Rules::gitleaks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_secrets_that_overlap_the_longest_from_the_left_is_one() {
        let text =
            "[[rules]]\nid = \"a\"\nregex = \"bcd\"\n[[rules]]\nid = \"b\"\nregex = \"abcdef\"\n";
        let rules = Rules::gitleaks(text).unwrap();
        assert_eq!(found(&rules, "xabcdefbcd").len(), 2);
    }
}
