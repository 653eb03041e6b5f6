//! Reads policies, line by line.

use super::{Policy, PolicyLog, PolicyText, PolicyWitness, Rule};
use crate::limits::{MAX_POLICY_BYTES, MAX_POLICY_GROUPS, MAX_POLICY_LOGS, MAX_POLICY_WITNESSES};
use crate::tlog::verifier::VerifierKey;
use std::collections::BTreeMap;
use std::fmt;

/// The name that means no witness at all.
const NONE: &[u8] = b"none";

/// Why a file is no policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    line: Option<usize>,
    why: String,
}

impl PolicyError {
    /// The line of the fault, from 1; `None` when the fault concerns the whole file.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} of the policy: {}", self.why),
            None => write!(f, "the policy: {}", self.why),
        }
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// Reads a policy: at most [`MAX_POLICY_BYTES`] bytes, each line ended by LF.
    ///
    /// # Errors
    /// [`PolicyError`], with the line. No unknown line is ever skipped.
    pub fn parse(file: &[u8]) -> Result<Self, PolicyError> {
        let whole = |why: String| PolicyError { line: None, why };
        if file.len() > MAX_POLICY_BYTES {
            return Err(whole(format!("it has more than {MAX_POLICY_BYTES} bytes")));
        }
        // A truncated file could require less than its author wrote.
        let lines = file
            .strip_suffix(b"\n")
            .ok_or_else(|| whole("its last line does not end in a newline".into()))?;
        let mut reading = Reading::default();
        for (number, line) in (1..).zip(lines.split(|byte| *byte == b'\n')) {
            reading.line(line).map_err(|why| PolicyError {
                line: Some(number),
                why,
            })?;
        }
        let quorum = reading
            .quorum
            .ok_or_else(|| whole("it has no line that begins with `quorum`".into()))?;
        Ok(Self {
            logs: reading.logs,
            witnesses: reading.witnesses,
            rules: reading.rules,
            quorum,
        })
    }
}

#[derive(Default)]
struct Reading {
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    rules: Vec<Rule>,
    groups: usize,
    /// The rule of each name, and whether it is a member already.
    names: BTreeMap<Vec<u8>, (usize, bool)>,
    quorum: Option<Option<usize>>,
}

impl Reading {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let is_control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
        if line.iter().any(is_control) {
            return Err("it holds a control character".into());
        }
        let items: Vec<&[u8]> = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|item| !item.is_empty())
            .collect();
        match items.as_slice() {
            [] => Ok(()),
            [first, ..] if first.starts_with(b"#") => Ok(()),
            [b"log", vkey] => self.log(vkey, None),
            [b"log", vkey, url] => self.log(vkey, Some(url)),
            [b"witness", name, vkey] => self.witness(name, vkey, None),
            [b"witness", name, vkey, url] => self.witness(name, vkey, Some(url)),
            [b"group", name, least, members @ ..] if !members.is_empty() => {
                self.group(name, least, members)
            }
            [b"quorum", name] => self.set_quorum(name),
            [word @ (b"log" | b"witness" | b"group" | b"quorum"), ..] => Err(format!(
                "too few or too many words after `{}`",
                String::from_utf8_lossy(word)
            )),
            _ => Err("it does not begin with log, witness, group or quorum".into()),
        }
    }

    fn log(&mut self, vkey: &[u8], url: Option<&[u8]>) -> Result<(), String> {
        if self.logs.len() == MAX_POLICY_LOGS {
            return Err(format!("a policy has at most {MAX_POLICY_LOGS} logs"));
        }
        let key = read_key(vkey)?;
        if !key.is_of_log() {
            return Err("the key is not a log's key".into());
        }
        self.unused(&key)?;
        self.logs.push(PolicyLog {
            key,
            url: url.map(text),
        });
        Ok(())
    }

    fn witness(&mut self, name: &[u8], vkey: &[u8], url: Option<&[u8]>) -> Result<(), String> {
        if self.witnesses.len() == MAX_POLICY_WITNESSES {
            return Err(format!(
                "a policy has at most {MAX_POLICY_WITNESSES} witnesses"
            ));
        }
        let key = read_key(vkey)?;
        if !key.is_of_witness() {
            return Err("the key is not a witness's key".into());
        }
        self.unused(&key)?;
        self.define(name, Rule::Witness(self.witnesses.len()))?;
        self.witnesses.push(PolicyWitness {
            name: text(name),
            key,
            url: url.map(text),
        });
        Ok(())
    }

    fn group(&mut self, name: &[u8], least: &[u8], names: &[&[u8]]) -> Result<(), String> {
        if self.groups == MAX_POLICY_GROUPS {
            return Err(format!("a policy has at most {MAX_POLICY_GROUPS} groups"));
        }
        let mut members = Vec::with_capacity(names.len());
        for member in names {
            let (rule, taken) = self.names.get_mut(*member).ok_or_else(|| unknown(member))?;
            if std::mem::replace(taken, true) {
                return Err(format!("{} is already a member", shown(member)));
            }
            members.push(*rule);
        }
        let least = match least {
            b"all" => members.len(),
            b"any" => 1,
            number => std::str::from_utf8(number)
                .ok()
                .filter(|text| text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0'))
                .and_then(|text| text.parse().ok())
                .filter(|least| *least <= members.len())
                .ok_or_else(|| format!("a group requires all, any, or 1 to {}", members.len()))?,
        };
        self.groups += 1;
        self.define(name, Rule::Group { least, members })
    }

    fn set_quorum(&mut self, name: &[u8]) -> Result<(), String> {
        if self.quorum.is_some() {
            return Err("a policy has one quorum".into());
        }
        self.quorum = Some(if name == NONE {
            None
        } else {
            let (rule, _) = self.names.get(name).ok_or_else(|| unknown(name))?;
            Some(*rule)
        });
        Ok(())
    }

    fn define(&mut self, name: &[u8], rule: Rule) -> Result<(), String> {
        if name == NONE || self.names.contains_key(name) {
            return Err(format!("{} is already defined", shown(name)));
        }
        self.names.insert(name.to_vec(), (self.rules.len(), false));
        self.rules.push(rule);
        Ok(())
    }

    /// Each key occurs once. A key as two witnesses, or as a log's own witness, would count twice.
    fn unused(&self, key: &VerifierKey) -> Result<(), String> {
        let keys = self.logs.iter().map(|log| &log.key);
        let mut keys = keys.chain(self.witnesses.iter().map(|witness| &witness.key));
        match keys.any(|other| other.is_same_key(key)) {
            true => Err("the key is in an earlier line".into()),
            false => Ok(()),
        }
    }
}

fn read_key(vkey: &[u8]) -> Result<VerifierKey, String> {
    let vkey = std::str::from_utf8(vkey).map_err(|_| "the key is not UTF-8")?;
    VerifierKey::parse(vkey).map_err(|error| error.to_string())
}

fn text(bytes: &[u8]) -> PolicyText {
    PolicyText(bytes.to_vec())
}

fn unknown(name: &[u8]) -> String {
    format!("{} is not defined in an earlier line", shown(name))
}

fn shown(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(name))
}
