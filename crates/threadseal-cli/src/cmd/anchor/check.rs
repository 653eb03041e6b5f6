//! `anchor check`: asks witnesses and time-stamping authorities, keeps what they said, and judges it.

use super::stamp::{self, AuthorityOutput};
use super::{authorities, policies};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::seal_log;
use clap::Args;
use serde::Serialize;
use threadseal::note::SignedNote;
use threadseal::tlog::policy::{Judgement, NotAccepted, Policy, PolicyWitness};
use threadseal_store::asking::{Asked, Asking};
use threadseal_store::seal_log::SealLog;

/// What `anchor check` takes.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Names of policies and authorities [default: all of this home]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Ask nobody; judge what was collected before
    #[arg(long)]
    offline: bool,
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
}

#[derive(Serialize)]
struct CheckOutput {
    schema: &'static str,
    origin: String,
    size: u64,
    policies: Vec<PolicyOutput>,
    authorities: Vec<AuthorityOutput>,
}

/// Exits 0 where every quorum is met and every authority has stamped, 3 where one is not, 1 where one shows that the
/// log went back or forked.
pub(super) fn run(args: &CheckArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let log = seal_log::open(&home, context)?
        .ok_or_else(|| Failure::new("this home has no log; run: threadseal log init"))?;
    let all = policies(&home, context)?;
    let (mut chosen, mut stamping) = (all.clone(), authorities(&home, context)?);
    let known = |name: &String| {
        chosen.iter().any(|(known, _)| known == name)
            || stamping.iter().any(|(known, _)| known == name)
    };
    if let Some(unknown) = args.names.iter().find(|name| !known(name)) {
        return Err(Failure::new(format!(
            "there is no policy or authority {unknown:?}; see: threadseal anchor list"
        )));
    }
    let meant = |name: &String| args.names.is_empty() || args.names.contains(name);
    chosen.retain(|(name, _)| meant(name));
    stamping.retain(|(name, _)| meant(name));
    if chosen.is_empty() && stamping.is_empty() {
        return Err(Failure::new(
            "this home has no policy and no authority; run: threadseal anchor add",
        ));
    }
    let view = log.view()?;
    let key = log.verifier()?;
    let mut note = collected(&log, view.checkpoint(), &all)?;
    let asking = Asking::new(&view, &key)?;
    let (mut exit, mut policies) = (Exit::Done, Vec::new());
    for (name, policy) in &chosen {
        let witnesses: Vec<&PolicyWitness> = policy.witnesses().iter().collect();
        let asked = if args.offline {
            Vec::new()
        } else {
            asking.all(&witnesses)
        };
        let mut told = Vec::new();
        for (number, witness) in witnesses.iter().enumerate() {
            told.push(take(&log, &mut note, witness, asked.get(number))?);
        }
        let judged = judge(name, policy, &note, told)?;
        let contradicted = judged
            .witnesses
            .iter()
            .any(|witness| witness.state == "contradicted");
        exit = match (exit, contradicted, judged.state) {
            (Exit::Evidence, ..) | (_, true, _) => Exit::Evidence,
            (exit, false, "witnessed") => exit,
            _ => Exit::Unconfirmed,
        };
        policies.push(judged);
    }
    if note.signatures().len() > 1 && !args.offline {
        log.keep_cosigned(&note, &all)?;
    }
    let mut authorities = Vec::new();
    for (name, authority) in &stamping {
        let told = stamp::check(&log, &view, name, authority, args.offline, context)?;
        exit = match (exit, told.state) {
            (Exit::Evidence, _) | (_, "contradicted") => Exit::Evidence,
            (exit, "stamped") => exit,
            _ => Exit::Unconfirmed,
        };
        authorities.push(told);
    }
    let schema = "threadseal.anchor.check/1";
    let output = CheckOutput {
        schema,
        origin: key.name().as_str().to_owned(),
        size: view.tree().size,
        policies,
        authorities,
    };
    if context.json {
        out.json(&output);
    } else {
        show(&output, out);
    }
    Ok(exit)
}

/// The checkpoint with what was collected for it before.
fn collected(
    log: &SealLog,
    checkpoint: &SignedNote,
    policies: &[(String, Policy)],
) -> Result<SignedNote, Failure> {
    let known = log.cosigned(policies)?.into_iter().map(|known| known.note);
    let mut of_it = known.filter(|known| known.text() == checkpoint.text());
    Ok(of_it.next().unwrap_or_else(|| checkpoint.clone()))
}

/// Takes what a witness answered into the note: its lines, in the place of those it gave before.
fn take(
    log: &SealLog,
    note: &mut SignedNote,
    witness: &PolicyWitness,
    asked: Option<&Asked>,
) -> Result<WitnessOutput, Failure> {
    let name = witness.name.to_string();
    let silent = |state, why| WitnessOutput {
        name: name.clone(),
        state,
        time: None,
        why,
    };
    Ok(match asked {
        None => silent("not_asked", None),
        Some(Asked::Not(why)) => silent("not_cosigned", Some(why.clone())),
        Some(Asked::Contradicted { why, conflict, .. }) => {
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
        Some(Asked::Cosigned(lines)) => {
            let mut renewed = None::<SignedNote>;
            let is_replaced = |line: &&threadseal::note::NoteSignature| {
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

/// The note with this line alone.
fn alone(note: &SignedNote, line: &threadseal::note::NoteSignature) -> Result<SignedNote, Failure> {
    let text = format!("{}\n{line}", note.text().as_str());
    SignedNote::parse(&text).map_err(|error| Failure::new(error.to_string()))
}

fn judge(
    name: &str,
    policy: &Policy,
    note: &SignedNote,
    witnesses: Vec<WitnessOutput>,
) -> Result<PolicyOutput, Failure> {
    let (state, at) = match policy.judge(note) {
        Ok(Judgement::Witnessed(witnessed)) => ("witnessed", Some(witnessed.at().seconds())),
        Ok(Judgement::LogOnly(_)) => ("log_only", None),
        Err(NotAccepted::NoQuorum(_)) => ("no_quorum", None),
        Err(error) => return Err(Failure::new(format!("the policy {name:?}: {error}"))),
    };
    Ok(PolicyOutput {
        name: name.to_owned(),
        state,
        at,
        witnesses,
    })
}

fn show(output: &CheckOutput, out: &mut Out) {
    out.line(format_args!(
        "log  {}, {} entries",
        output.origin, output.size
    ));
    for policy in &output.policies {
        let at = policy.at.map(|at| format!(" at {at}")).unwrap_or_default();
        out.line(format_args!(
            "{}  {}{at}",
            Clean(&policy.name),
            policy.state
        ));
        for witness in &policy.witnesses {
            let time = witness.time.map(|time| format!(" at {time}"));
            let why = witness.why.as_ref().map(|why| format!(": {why}"));
            let more = time.or(why).unwrap_or_default();
            out.line(format_args!(
                "  {}  {}{}",
                Clean(&witness.name),
                witness.state,
                Clean(&more)
            ));
        }
    }
    for authority in &output.authorities {
        out.line(authority.to_string());
    }
}
