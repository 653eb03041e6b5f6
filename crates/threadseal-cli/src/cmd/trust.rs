//! `trust add|list|remove|revoke|project`: manages the keys whose signatures count, and the projects
//! of other users that may run.

use crate::cmd::id::{IdentityOutput, Imported, Taken, compare_line};
use crate::cmd::key::UsageArg;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_status;
use crate::keyring::Keyring;
use crate::output::Out;
use crate::render::clean::Clean;
use crate::trust_file;
use crate::trusted_projects::{self, TrustedProject};
use crate::verifying;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::identity::{Ended, Identity};
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{
    Revocation, Scope, ScopeFormat, ThreadPattern, TrustName, TrustedKey,
};
use threadseal_store::home::Home;
use threadseal_store::key_ends::EndSection;
use threadseal_verify::identities::Identities;

/// What to do with the trust.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// Trust a key
    Add(AddArgs),
    /// List the trusted keys
    List,
    /// Remove a key from the trust store
    Remove(RemoveArgs),
    /// Revoke a key: it no longer counts
    Revoke(RevokeArgs),
    /// Trust a project that another user owns: its threads may run
    Project(ProjectArgs),
}

/// What `trust add` takes.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The public key: PEM file, Rye trusted-key file, 64 hex digits or did:key; for a key that
    /// this home has or trusts also its id. Or an identity, with all its keys: its file (id export),
    /// or the name of an imported one
    #[arg(value_name = "PATH|KEY")]
    key: String,
    /// Name of the key in reports [default: the name of the identity]
    #[arg(long)]
    name: Option<String>,
    /// Use of the key [default: what its identity states, rye for a Rye trusted-key file, else
    /// native]
    #[arg(long, value_enum, value_delimiter = ',', num_args = 1..)]
    usage: Vec<UsageArg>,
    /// Patterns of the threads that the key may sign; `*` matches any text [default: *]
    #[arg(long, value_name = "GLOB", value_delimiter = ',', num_args = 1..)]
    threads: Vec<String>,
    /// Formats that the key may sign [default: all]
    #[arg(long, value_enum, value_delimiter = ',', num_args = 1..)]
    formats: Vec<FormatArg>,
    /// Start of validity: 2026-01-31 or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = first_moment)]
    not_before: Option<Timestamp>,
    /// End of validity: 2026-01-31 (its last second) or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = last_moment)]
    not_after: Option<Timestamp>,
}

/// What `trust remove` takes.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the key
    name: String,
    /// Remove also a revoked key: its end is then forgotten, and a later trust add takes it back
    #[arg(long)]
    anyway: bool,
}

/// What `trust revoke` takes.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// Name of the key
    name: String,
    /// Reason, in one line
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = "")]
    why: String,
    /// Time from which the key no longer counts: 2026-01-31 or 2026-01-31T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = first_moment)]
    at: Option<Timestamp>,
}

/// What `trust project` takes.
#[derive(Debug, Args)]
pub(crate) struct ProjectArgs {
    /// The project's folder, which contains .ai
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Trust it no longer
    #[arg(long)]
    remove: bool,
}

/// A format of `--formats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Event logs of agent threads
    Transcript,
    /// Other programs' logs with detached seals
    Log,
    /// JSON documents
    Json,
    /// Text documents
    Text,
    /// Scrolls: chains of sealed turns
    Scroll,
    /// Ledgers: the steps of runs
    Ledger,
    /// Lineages: the checkpoints of agents
    Lineage,
}

impl From<FormatArg> for ScopeFormat {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Transcript => Self::Transcript,
            FormatArg::Log => Self::Log,
            FormatArg::Json => Self::Json,
            FormatArg::Text => Self::Text,
            FormatArg::Scroll => Self::Scroll,
            FormatArg::Ledger => Self::Ledger,
            FormatArg::Lineage => Self::Lineage,
        }
    }
}

/// The first second of a date, or a moment.
pub(crate) fn first_moment(text: &str) -> Result<Timestamp, String> {
    moment(text, "T00:00:00Z")
}

fn last_moment(text: &str) -> Result<Timestamp, String> {
    moment(text, "T23:59:59Z")
}

fn moment(text: &str, time_of_day: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso_seconds(text)
        .or_else(|| Timestamp::parse_iso_seconds(&format!("{text}{time_of_day}")))
        .ok_or_else(|| "write a time as 2026-01-31 or 2026-01-31T12:00:00Z (UTC)".to_owned())
}

#[derive(Serialize)]
struct TrustOutput {
    schema: &'static str,
    path: String,
    digest: String,
    keys: Vec<EntryOutput>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<TrustedProject>,
}

#[derive(Serialize)]
struct EntryOutput {
    name: String,
    key_id: String,
    public: String,
    usage: Vec<&'static str>,
    threads: Vec<String>,
    formats: Vec<&'static str>,
    not_before: Option<String>,
    not_after: Option<String>,
    revoked: Option<RevokedOutput>,
    note: Option<String>,
}

#[derive(Serialize)]
struct RevokedOutput {
    at: String,
    reason: String,
    /// The key that took its place, where its owner rotated it.
    next: Option<String>,
}

impl EntryOutput {
    fn of(entry: &TrustedKey) -> Self {
        let time = |time: Option<Timestamp>| time.map(Timestamp::to_iso_seconds);
        let patterns = entry.scope.threads.iter();
        Self {
            name: entry.name.to_string(),
            key_id: entry.key.key_id().to_hex(),
            public: entry.key.to_hex(),
            usage: entry.usage.iter().map(|usage| usage.as_str()).collect(),
            threads: patterns.map(|p| p.as_str().to_owned()).collect(),
            formats: entry.scope.formats.iter().map(|f| f.as_str()).collect(),
            not_before: time(entry.not_before),
            not_after: time(entry.not_after),
            revoked: entry.revoked.as_ref().map(|revoked| RevokedOutput {
                at: revoked.at.to_iso_seconds(),
                reason: revoked.reason.clone(),
                next: revoked.next.map(|next| next.to_hex()),
            }),
            note: entry.note.clone(),
        }
    }

    /// `ann  native,rye  <key id>  threads agency/*; until …; REVOKED …`
    fn line(&self) -> String {
        let mut remarks = Vec::new();
        if self.threads != ["*"] {
            remarks.push(format!("threads {}", self.threads.join(",")));
        }
        if self.formats.len() < ScopeFormat::ALL.len() {
            remarks.push(format!("formats {}", self.formats.join(",")));
        }
        if let Some(from) = &self.not_before {
            remarks.push(format!("from {from}"));
        }
        if let Some(to) = &self.not_after {
            remarks.push(format!("until {to}"));
        }
        if let Some(revoked) = &self.revoked {
            let word = match revoked.next {
                Some(_) => "ROTATED",
                None => "REVOKED",
            };
            remarks.push(format!("{word} {} {}", revoked.at, revoked.reason));
        }
        let line = format!(
            "{:<16}  {:<8}  {}  {}",
            self.name,
            self.usage.join(","),
            self.key_id,
            remarks.join("; ")
        );
        Clean(line.trim_end()).to_string()
    }
}

pub(crate) fn run(command: &TrustCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        TrustCommand::Add(args) => add(args, context, out),
        TrustCommand::List => list(context, out),
        TrustCommand::Remove(args) => remove(args, context, out),
        TrustCommand::Revoke(args) => revoke(args, context, out),
        TrustCommand::Project(args) => project(args, context, out),
    }
}

fn list(context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let store = trust_file::of_home(&home)?;
    let keys: Vec<EntryOutput> = store.iter().map(EntryOutput::of).collect();
    let projects = trusted_projects::list(&home, &*context.fs)?;
    if context.json {
        out.json(&TrustOutput {
            schema: "threadseal.trust.list/1",
            path: home.trust_path().to_string_lossy().into_owned(),
            digest: store.digest().to_hex(),
            keys,
            projects,
        });
    } else {
        for key in keys {
            out.line(key.line());
        }
        for project in projects {
            out.line(format!("project  {}", project_line(&project)));
        }
    }
    Ok(Exit::Done)
}

fn project(args: &ProjectArgs, context: &Context, out: &mut Out) -> Outcome {
    let changed = match args.remove {
        true => trusted_projects::remove(&args.folder, &context.existing_home()?, context)?,
        false => trusted_projects::add(&args.folder, &context.made_home()?, context)?,
    };
    if context.json {
        out.json(&serde_json::json!({
            "schema": "threadseal.trust.project/1",
            "path": changed.path,
            "owners": changed.owners,
            "trusted": !args.remove,
        }));
    } else if !context.quiet {
        let verb = if args.remove { "removed" } else { "trusted" };
        out.line(format!("{verb}  {}", project_line(&changed)));
    }
    Ok(Exit::Done)
}

/// `/srv/agents  user 1000`
fn project_line(project: &TrustedProject) -> String {
    let owners: Vec<String> = project.owners.iter().map(u32::to_string).collect();
    let line = format!("{}  user {}", project.path, owners.join(", "));
    Clean(&line).to_string()
}

fn add(args: &AddArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.made_home()?;
    if let Some(identity) = identity_of(args, &home, context)? {
        return add_identity(args, &identity, &home, context, out);
    }
    let name = args.name.as_deref().ok_or_else(|| {
        Failure::new("a key needs a name, which reports show; hint: add --name NAME")
    })?;
    let (key, from_rye) = key_of(args, &home, context)?;
    let mut entry = TrustedKey::new(TrustName::parse(name)?, key, []);
    entry.usage = args.usage.iter().map(|&u| u.into()).collect();
    if entry.usage.is_empty() && !from_rye {
        state_by_identity(&mut entry, &home, context)?;
    }
    if entry.usage.is_empty() {
        entry.usage.insert(if from_rye {
            KeyUsage::Rye
        } else {
            KeyUsage::Native
        });
    }
    entry.added = Some(context.now()?);
    narrow(&mut entry, args)?;
    trust_file::change(&home, context, |store| {
        store.add(entry.clone())?;
        Ok(true)
    })?;
    say(&entry, context, out);
    Ok(Exit::Done)
}

/// Usage, window and end of a key that an identity of this home's knowledge lists.
fn state_by_identity(
    entry: &mut TrustedKey,
    home: &Home,
    context: &Context,
) -> Result<(), Failure> {
    for identity in Identities::of(home, &context.fs).all_imported()? {
        let Some(listed) = identity.content().key(&entry.key) else {
            continue;
        };
        entry.usage.insert(listed.usage);
        entry.not_before = listed.from;
        entry.not_after = listed.until;
        entry.revoked = listed.ended.as_ref().map(Ended::revocation);
        entry.note = Some(identity.note());
        if !context.quiet {
            complain(&format!(
                "note: trusted for {}, as the identity {} states",
                listed.usage,
                Clean(identity.content().name.as_str())
            ));
        }
        return Ok(());
    }
    Ok(())
}

/// The scope and the window of the options, inside the window that the entry has.
fn narrow(entry: &mut TrustedKey, args: &AddArgs) -> Result<(), Failure> {
    entry.scope = scope(args)?;
    entry.not_before = entry.not_before.max(args.not_before);
    entry.not_after = match (entry.not_after, args.not_after) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Ok(())
}

/// The identity that is named, if it is one; the texts of a key are none.
fn identity_of(
    args: &AddArgs,
    home: &Home,
    context: &Context,
) -> Result<Option<Identity>, Failure> {
    if PublicKey::parse_any(&args.key).is_ok() {
        return Ok(None);
    }
    let path = Path::new(&args.key);
    match path.exists() {
        true => Ok(trust_file::read_identity(path, &*context.fs)?),
        false => Ok(Identities::of(home, &context.fs).named(&args.key)?),
    }
}

/// Trusts the keys of an identity, each for its own usage, and keeps the identity.
fn add_identity(
    args: &AddArgs,
    identity: &Identity,
    home: &Home,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    if let Taken::Refused(conflict) = Imported::take(identity, home, context)? {
        let subject = Clean(&args.key);
        return Err(Failure::new(format!(
            "{subject}: not trusted: {conflict}; hint: ask its owner for the newest file"
        )));
    }
    let name = match &args.name {
        Some(name) => TrustName::parse(name)?,
        None => identity.content().name.clone(),
    };
    let usages: BTreeSet<KeyUsage> = args.usage.iter().map(|&u| u.into()).collect();
    let now = context.now()?;
    let (mut added, mut known) = (Vec::new(), Vec::new());
    trust_file::change(home, context, |store| {
        for mut entry in identity.entries(&name)? {
            if !usages.is_empty() && usages.is_disjoint(&entry.usage) {
                continue;
            }
            let is_like = |there: &&TrustedKey| !there.usage.is_disjoint(&entry.usage);
            let there = store.by_key(&entry.key).find(is_like).cloned();
            if let Some(there) = there {
                known.push(there);
                continue;
            }
            entry.added = Some(now);
            narrow(&mut entry, args)?;
            store.add(entry.clone())?;
            added.push(entry);
        }
        Ok(!added.is_empty())
    })?;
    let rows = |entries: &[TrustedKey]| entries.iter().map(EntryOutput::of).collect::<Vec<_>>();
    if context.json {
        out.json(&serde_json::json!({
            "schema": "threadseal.trust.identity/1",
            "identity": IdentityOutput::of(identity),
            "added": rows(&added),
            "known": rows(&known),
        }));
    } else if !context.quiet {
        for entry in rows(&added) {
            out.line(entry.line());
        }
        if added.is_empty() {
            out.line("nothing new to trust");
        }
        out.line(compare_line(identity));
    }
    Ok(Exit::Done)
}

/// The key, and whether it comes from a file of Rye.
fn key_of(args: &AddArgs, home: &Home, context: &Context) -> Result<(PublicKey, bool), Failure> {
    let path = Path::new(&args.key);
    if let Some(key) = verifying::key_of_digits(&args.key, home, context)? {
        return Ok((key, false));
    }
    match PublicKey::parse_any(&args.key) {
        Ok(key) => Ok((key, false)),
        Err(error) if args.key.starts_with("did:") => Err(error.into()),
        Err(_) => {
            let key = trust_file::read_public(path, &*context.fs)?;
            Ok((key, trust_file::is_toml(path)))
        }
    }
}

fn scope(args: &AddArgs) -> Result<Scope, Failure> {
    let mut scope = Scope::default();
    if !args.threads.is_empty() {
        let patterns = args.threads.iter().map(|text| ThreadPattern::parse(text));
        scope.threads = patterns.collect::<Result<_, _>>()?;
    }
    if !args.formats.is_empty() {
        scope.formats = args.formats.iter().map(|&format| format.into()).collect();
    }
    Ok(scope)
}

fn remove(args: &RemoveArgs, context: &Context, out: &mut Out) -> Outcome {
    let name = TrustName::parse(&args.name)?;
    let mut removed = None;
    trust_file::change(&context.existing_home()?, context, |store| {
        let is_over = |entry: &TrustedKey| entry.revoked.is_some();
        if !args.anyway && store.by_name(&name).is_some_and(is_over) {
            return Err(Failure::new(format!(
                "{name} is revoked, and its entry keeps that end: without it, trust add would trust the key again; \
                 hint: leave it, or threadseal trust remove {name} --anyway"
            )));
        }
        removed = store.remove(&name);
        Ok(removed.is_some())
    })?;
    let removed = removed.ok_or_else(|| Failure::new(format!("no key is trusted as {name}")))?;
    say(&removed, context, out);
    Ok(Exit::Done)
}

fn revoke(args: &RevokeArgs, context: &Context, out: &mut Out) -> Outcome {
    let name = TrustName::parse(&args.name)?;
    let home = context.existing_home()?;
    let _alone = end_own(&name, &home, context)?;
    let revocation = Revocation {
        at: match args.at {
            Some(at) => at,
            None => key_status::moment_of_end(context)?,
        },
        reason: args.why.clone(),
        entry: None,
        next: None,
    };
    let mut revoked = None;
    trust_file::change(&home, context, |store| {
        store.revoke(&name, revocation)?;
        revoked = store.by_name(&name).cloned();
        Ok(true)
    })?;
    if let Some(entry) = revoked {
        say(&entry, context, out);
    }
    Ok(Exit::Done)
}

/// Waits for the seals that this home makes, if it can seal with the key of this name.
fn end_own(
    name: &TrustName,
    home: &Home,
    context: &Context,
) -> Result<Option<EndSection>, Failure> {
    let store = trust_file::of_home(home)?;
    let Some(entry) = store.by_name(name) else {
        return Ok(None);
    };
    let own = Keyring::of(home).list()?;
    if !own
        .iter()
        .any(|key| key.has_private && key.public == entry.key)
    {
        return Ok(None);
    }
    Ok(Some(key_status::begin_end(home, context)?))
}

/// Prints the changed entry.
fn say(entry: &TrustedKey, context: &Context, out: &mut Out) {
    let entry = EntryOutput::of(entry);
    if context.json {
        out.json(&serde_json::json!({"schema": "threadseal.trust.entry/1", "key": entry}));
    } else if !context.quiet {
        out.line(entry.line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_first_second_or_its_last() {
        let iso = |t: Timestamp| t.to_iso_seconds();
        assert_eq!(
            first_moment("2026-01-31").map(iso).unwrap(),
            "2026-01-31T00:00:00Z"
        );
        assert_eq!(
            last_moment("2026-01-31").map(iso).unwrap(),
            "2026-01-31T23:59:59Z"
        );
        assert_eq!(
            last_moment("2026-01-31T01:02:03Z").map(iso).unwrap(),
            "2026-01-31T01:02:03Z"
        );
        assert!(first_moment("2026-02-30").is_err());
        assert!(first_moment("tomorrow").is_err());
    }
}
