//! `anchor check`: asks witnesses and time-stamping authorities, keeps their answers, and judges
//! them.

use super::repeat;
use super::stamp::{self, AuthorityOutput};
use super::{Kept, authorities};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::policies::{names, policies};
use crate::render::clean::Clean;
use crate::render::text::{date, entries};
use crate::seal_log;
use clap::Args;
use serde::Serialize;
use std::fmt;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::policy::{Judgement, NotAccepted, Policy, PolicyWitness};
use threadseal_log::timestamps::Authority;
use threadseal_log::witness::{Asked, Asking};
use threadseal_log::{LogView, SealLog};
use threadseal_store::home::Home;

/// What `anchor check` takes.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Names of policies and authorities [default: all of this home]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Send no requests; judge only stored answers
    #[arg(long)]
    offline: bool,
    /// Repeat until a signal: look at the log at this interval, and ask when it has grown. After a
    /// failure the wait doubles
    #[arg(long, value_name = "SECONDS", conflicts_with = "offline")]
    every: Option<f64>,
}

#[derive(Serialize)]
struct WitnessOutput {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize)]
struct PolicyOutput {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    witnesses: Vec<WitnessOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The result of one round, on one state of the log.
#[derive(Serialize)]
pub(super) struct CheckOutput {
    schema: &'static str,
    origin: String,
    size: u64,
    policies: Vec<PolicyOutput>,
    authorities: Vec<AuthorityOutput>,
}

/// Exits 0 if every quorum is met and every authority has stamped, else 3. Exits 1 if an answer
/// shows that the log was rolled back or forked.
pub(super) fn run(args: &CheckArgs, context: &Context, out: &mut Out) -> Outcome {
    if let Some(seconds) = args.every {
        return repeat::run(seconds, args, context, out);
    }
    let (output, exit) = once(args, context)?;
    if context.json {
        out.json(&output);
    } else {
        show(&output, out);
    }
    Ok(exit)
}

/// Runs one round.
pub(super) fn once(args: &CheckArgs, context: &Context) -> Result<(CheckOutput, Exit), Failure> {
    let home = context.existing_home()?;
    let log = log_of(&home, context)?;
    let (all, stamping) = (policies(&home, context)?, authorities(&home, context)?);
    let (chosen, stamping) = chosen(args, all.clone(), stamping)?;
    let view = log.view()?;
    let key = log.verifier()?;
    let mut policies = cosigned(args, &log, &view, &all, &chosen.good, context)?;
    let mut authorities = Vec::new();
    for (name, authority) in &stamping.good {
        let told = stamp::check(&log, &view, name, authority, args.offline, context)?;
        authorities.push(told);
    }
    let bad = chosen.bad.into_iter();
    policies.extend(bad.map(|(name, why)| PolicyOutput::unreadable(name, why)));
    let bad = stamping.bad.into_iter();
    authorities.extend(bad.map(|(name, why)| AuthorityOutput::unreadable(name, why)));
    let exits = policies.iter().map(PolicyOutput::exit);
    let exits = exits.chain(authorities.iter().map(AuthorityOutput::exit));
    let exit = exits.fold(Exit::Done, worse);
    let output = CheckOutput {
        schema: "threadseal.anchor.check/1",
        origin: key.name().as_str().to_owned(),
        size: view.tree().size,
        policies,
        authorities,
    };
    Ok((output, exit))
}

/// The policies and authorities that the arguments select; all without a selection.
fn chosen(
    args: &CheckArgs,
    mut policies: Kept<Policy>,
    mut authorities: Kept<Authority>,
) -> Result<(Kept<Policy>, Kept<Authority>), Failure> {
    let is_known = |name: &String| {
        let mut known = policies.names().chain(authorities.names());
        known.any(|known| known == name)
    };
    if let Some(unknown) = args.names.iter().find(|name| !is_known(name)) {
        return Err(Failure::new(format!(
            "there is no policy or authority {unknown:?}; hint: threadseal anchor list"
        )));
    }
    let is_meant = |name: &String| args.names.is_empty() || args.names.contains(name);
    policies.retain(is_meant);
    authorities.retain(is_meant);
    if policies.names().chain(authorities.names()).next().is_none() {
        return Err(Failure::new(
            "this home has no policy and no authority; hint: threadseal anchor add",
        ));
    }
    Ok((policies, authorities))
}

/// Asks the witnesses of the chosen policies, and keeps their cosignatures.
fn cosigned(
    args: &CheckArgs,
    log: &SealLog,
    view: &LogView,
    all: &Kept<Policy>,
    chosen: &[(String, Policy)],
    context: &Context,
) -> Result<Vec<PolicyOutput>, Failure> {
    // The stored cosignatures are those of all policies: with one policy unreadable, those of its
    // witnesses would be dropped.
    let unasked = match all.bad.is_empty() {
        true => None,
        false => Some("a policy of this home cannot be read; hint: threadseal anchor list"),
    };
    let is_asked = !args.offline && unasked.is_none();
    let key = log.verifier()?;
    let asking = Asking::new(view, &key)?;
    let mut note = collected(log, view.checkpoint(), &all.good, context)?;
    let mut policies = Vec::new();
    for (name, policy) in chosen {
        let witnesses: Vec<&PolicyWitness> = policy.witnesses().iter().collect();
        let asked = if is_asked && names(policy, &key) {
            asking.all(&witnesses)
        } else {
            Vec::new()
        };
        let mut told = Vec::new();
        for (number, witness) in witnesses.iter().enumerate() {
            let asked = asked.get(number).ok_or(unasked);
            told.push(take(log, &mut note, witness, asked)?);
        }
        policies.push(judge(name, policy, &note, told)?);
    }
    if note.signatures().len() > 1 && is_asked {
        log.keep_cosigned(&note, &all.good)?;
    }
    Ok(policies)
}

/// The log of `home`, or an error if there is none.
pub(super) fn log_of(home: &Home, context: &Context) -> Result<SealLog, Failure> {
    seal_log::open(home, context)?
        .ok_or_else(|| Failure::new("this home has no log; hint: threadseal log init"))
}

/// Evidence outranks an unconfirmed result, which outranks every other exit.
fn worse(one: Exit, other: Exit) -> Exit {
    match (one, other) {
        (Exit::Evidence, _) | (_, Exit::Evidence) => Exit::Evidence,
        (Exit::Done, other) => other,
        (one, _) => one,
    }
}

impl PolicyOutput {
    fn unreadable(name: String, why: String) -> Self {
        Self {
            name,
            state: "unreadable",
            at: None,
            witnesses: Vec::new(),
            why: Some(why),
        }
    }

    fn exit(&self) -> Exit {
        let mut states = self.witnesses.iter().map(|witness| witness.state);
        match (states.any(|state| state == "contradicted"), self.state) {
            (true, _) => Exit::Evidence,
            (false, "witnessed") => Exit::Done,
            _ => Exit::Unconfirmed,
        }
    }
}

/// The checkpoint with the cosignatures that were collected for it before.
fn collected(
    log: &SealLog,
    checkpoint: &SignedNote,
    policies: &[(String, Policy)],
    context: &Context,
) -> Result<SignedNote, Failure> {
    let known = log.cosigned(policies, &mut |why| context.warn_unread(why))?;
    let known = known.into_iter().map(|known| known.note);
    let mut of_it = known.filter(|known| known.text() == checkpoint.text());
    Ok(of_it.next().unwrap_or_else(|| checkpoint.clone()))
}

/// Merges the answer of a witness into the note: its new lines replace its earlier ones. A witness
/// that was not asked can have a reason in `asked`.
fn take(
    log: &SealLog,
    note: &mut SignedNote,
    witness: &PolicyWitness,
    asked: Result<&Asked, Option<&str>>,
) -> Result<WitnessOutput, Failure> {
    let name = witness.name.to_string();
    let silent = |state, why| WitnessOutput {
        name: name.clone(),
        state,
        time: None,
        why,
    };
    Ok(match asked {
        Err(why) => silent("not_asked", why.map(str::to_owned)),
        Ok(Asked::Not(why) | Asked::LogUnknown(why)) => silent("not_cosigned", Some(why.clone())),
        Ok(Asked::Contradicted { why, conflict, .. }) => {
            let kept = conflict
                .as_ref()
                .map(|conflict| log.keep_conflict(conflict))
                .transpose()?;
            let kept = kept.map(|path| format!("; kept: {}", path.display()));
            silent(
                "contradicted",
                Some(format!("{why}{}", kept.unwrap_or_default())),
            )
        }
        Ok(Asked::Cosigned(lines)) => {
            let mut renewed = None::<SignedNote>;
            let is_replaced = |line: &&threadseal_core::note::NoteSignature| {
                lines
                    .iter()
                    .any(|new| new.line.name() == line.name() && new.line.id() == line.id())
            };
            let others = note.signatures().iter().filter(|line| !is_replaced(line));
            for line in others.chain(lines.iter().map(|answered| &answered.line)) {
                match &mut renewed {
                    None => renewed = Some(alone(note, line)?),
                    Some(renewed) => renewed.add(line.clone())?,
                }
            }
            if let Some(renewed) = renewed {
                *note = renewed;
            }
            WitnessOutput {
                time: lines.iter().map(|answered| answered.time.seconds()).max(),
                ..silent("cosigned", None)
            }
        }
    })
}

/// The note with only this line.
fn alone(
    note: &SignedNote,
    line: &threadseal_core::note::NoteSignature,
) -> Result<SignedNote, Failure> {
    let text = format!("{}\n{line}", note.text().as_str());
    SignedNote::parse(&text).map_err(|error| Failure::new(error.to_string()))
}

fn judge(
    name: &str,
    policy: &Policy,
    note: &SignedNote,
    witnesses: Vec<WitnessOutput>,
) -> Result<PolicyOutput, Failure> {
    let (state, at, why) = match policy.judge(note) {
        Ok(Judgement::Witnessed(witnessed)) => ("witnessed", Some(witnessed.at().seconds()), None),
        Ok(Judgement::LogOnly(_)) => ("log_only", None, None),
        Err(NotAccepted::NoQuorum(_)) => ("no_quorum", None, None),
        // The policy is for a previous log. It must not keep the other policies from being asked.
        Err(NotAccepted::UnknownLog(_) | NotAccepted::NotSigned(_)) => {
            let why = "the policy does not name the key of this log; hint: threadseal log status";
            ("outdated", None, Some(why.to_owned()))
        }
        Err(error) => return Err(Failure::new(format!("the policy {name:?}: {error}"))),
    };
    Ok(PolicyOutput {
        name: name.to_owned(),
        state,
        at,
        witnesses,
        why,
    })
}

impl fmt::Display for PolicyOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.name, self.state)?;
        match (self.at, &self.why) {
            (Some(at), _) => write!(f, " at {}", date(at)),
            (None, Some(why)) => write!(f, ": {why}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for WitnessOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.name, self.state)?;
        match (self.time, &self.why) {
            (Some(time), _) => write!(f, " at {}", date(time)),
            (None, Some(why)) => write!(f, ": {why}"),
            (None, None) => Ok(()),
        }
    }
}

/// One line: the present value of each policy and authority and, for an unmet policy, why each
/// witness did not cosign.
impl fmt::Display for CheckOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&entries(self.size))?;
        for policy in &self.policies {
            write!(f, "  | {policy}")?;
            for witness in policy.witnesses.iter().filter(|told| told.why.is_some()) {
                write!(f, "; {witness}")?;
            }
        }
        for authority in &self.authorities {
            write!(f, "  | {authority}")?;
        }
        Ok(())
    }
}

fn show(output: &CheckOutput, out: &mut Out) {
    out.line(format_args!(
        "log  {}, {}",
        output.origin,
        entries(output.size)
    ));
    for policy in &output.policies {
        out.line(format_args!("{}", Clean(&policy.to_string())));
        for witness in &policy.witnesses {
            out.line(format_args!("  {}", Clean(&witness.to_string())));
        }
    }
    for authority in &output.authorities {
        out.line(authority.to_string());
    }
}
