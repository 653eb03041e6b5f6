//! `archive …`: the sealed sessions that this home keeps.

mod add;
mod check;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::session_seal::{excess, quota_notes};
use crate::sessions::{self, Sessions, Unlock};
use clap::{Args, Subcommand};
use serde::Serialize;
use threadseal_capture::archive::{Archive, ArchivedLog, Secrets, Settings};
use threadseal_capture::index::Index;

/// The commands of the archive.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Show what is archived, its size, and its settings
    Status(StatusArgs),
    /// Find sessions of agents in files and folders, seal them if they are not, and archive them
    Add(add::AddArgs),
    /// Verify archived sessions from the archive alone
    Verify(check::VerifyArgs),
    /// Read all of the archive, and name damage
    Fsck(check::FsckArgs),
    /// Remove files that no archived session needs
    Prune(PruneArgs),
    /// Set or show the largest size; sessions whose source is gone leave first
    Quota(QuotaArgs),
    /// Set or show what is done with secrets in new lines: mark, omit or keep
    Secrets(SecretsArgs),
    /// Archive sessions when they are sealed
    On(OnArgs),
    /// Archive nothing more; what is archived stays
    Off(OffArgs),
    /// Make the index of list and search anew from the archive
    RebuildIndex(RebuildArgs),
}

/// What `archive status` takes.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}

/// What `archive prune` takes.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {}

/// What `archive quota` takes.
#[derive(Debug, Args)]
pub(crate) struct QuotaArgs {
    /// Largest size: 500M, 20G, bytes, or none [default: show it]
    #[arg(value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
}

/// What `archive secrets` takes.
#[derive(Debug, Args)]
pub(crate) struct SecretsArgs {
    /// mark: note their lines; omit: leave their lines out of the archive; keep: search nothing
    /// [default: show it]
    #[arg(value_name = "WHAT", value_parser = parse_secrets)]
    what: Option<Secrets>,
}

/// What `archive on` takes.
#[derive(Debug, Args)]
pub(crate) struct OnArgs {
    /// Encrypt content, with a key in the home; only before anything is archived
    #[arg(long)]
    encrypt: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// What `archive off` takes.
#[derive(Debug, Args)]
pub(crate) struct OffArgs {}

/// What `archive rebuild-index` takes.
#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct MarkedOutput {
    log: String,
    lines: usize,
}

#[derive(Serialize)]
struct StatusOutput {
    schema: &'static str,
    on: bool,
    encrypted: bool,
    sessions: usize,
    logs: usize,
    /// Bytes of the newest state of all logs.
    source_bytes: u64,
    /// Bytes of the archive's files.
    bytes: u64,
    quota: u64,
    forgotten: usize,
    /// `mark`, `omit` or `keep`.
    secrets: &'static str,
    /// Logs with lines that hold what looks like a secret.
    marked: Vec<MarkedOutput>,
    damaged: Vec<String>,
}

pub(crate) fn run(command: &ArchiveCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        ArchiveCommand::Status(_) => status(context, out),
        ArchiveCommand::Add(args) => add::run(args, context, out),
        ArchiveCommand::Verify(args) => check::verify(args, context, out),
        ArchiveCommand::Fsck(args) => check::fsck(args, context, out),
        ArchiveCommand::Prune(_) => prune(context, out),
        ArchiveCommand::Quota(args) => quota(args, context, out),
        ArchiveCommand::Secrets(args) => secrets(args, context, out),
        ArchiveCommand::On(args) => on(args, context, out),
        ArchiveCommand::Off(_) => off(context, out),
        ArchiveCommand::RebuildIndex(args) => rebuild(args, context, out),
    }
}

fn opened(context: &Context) -> Result<Archive, Failure> {
    sessions::archive(&context.existing_home()?, Unlock::Never, context)
}

fn status(context: &Context, out: &mut Out) -> Outcome {
    let archive = opened(context)?;
    let logs = archive.logs()?;
    let damaged = logs.iter().filter(|log| log.damage.is_some());
    let newest = logs.iter().filter_map(|log| log.newest());
    let settings = archive.settings();
    let status = StatusOutput {
        schema: "threadseal.archive.status/1",
        on: settings.on,
        encrypted: settings.encrypted,
        sessions: archive.sessions()?.len(),
        logs: logs.len(),
        source_bytes: newest.map(|newest| newest.last().head.size).sum(),
        bytes: archive.size()?,
        quota: settings.quota,
        forgotten: archive.forgotten()?.len(),
        secrets: settings.secrets.name(),
        marked: logs.iter().filter_map(marked).collect(),
        damaged: damaged.map(|log| log.name.to_string()).collect(),
    };
    let exit = match status.damaged.is_empty() {
        true => Exit::Done,
        false => Exit::Unconfirmed,
    };
    if context.json {
        out.json(&status);
        return Ok(exit);
    }
    let place = archive.root().display().to_string();
    out.line(format_args!("archive    {}", Clean(&place)));
    let (on, encrypted) = (status.on, status.encrypted);
    let on = if on { "on" } else { "off: nothing is added" };
    let encrypted = if encrypted {
        "encrypted"
    } else {
        "not encrypted"
    };
    out.line(format_args!(
        "settings   {on}, {encrypted}, quota {}",
        quota_words(status.quota)
    ));
    let (sessions, logs, gone) = (status.sessions, status.logs, status.forgotten);
    out.line(format_args!(
        "sessions   {sessions}, {}; {gone} forgotten",
        counted(logs as u64, "log", "logs")
    ));
    let (bytes, source) = (size_words(status.bytes), size_words(status.source_bytes));
    out.line(format_args!("size       {bytes} for {source}"));
    let lines: usize = status.marked.iter().map(|log| log.lines).sum();
    let found = match (lines, settings.secrets) {
        (0, Secrets::Mark) => "marked; none found".to_owned(),
        (0, Secrets::Omit) => "left out".to_owned(),
        (0, Secrets::Keep) => "not searched".to_owned(),
        (lines, _) => format!(
            "{} in {}; hint: threadseal redact SESSION --secrets --why TEXT",
            counted(lines as u64, "line", "lines"),
            counted(status.marked.len() as u64, "log", "logs")
        ),
    };
    out.line(format_args!("secrets    {found}"));
    for name in &status.damaged {
        out.line(format_args!(
            "damaged    {}; hint: threadseal archive fsck",
            Clean(name)
        ));
    }
    Ok(exit)
}

/// The number of marked lines of a log that has any.
fn marked(log: &ArchivedLog) -> Option<MarkedOutput> {
    let lines = log.versions.iter().map(|version| version.secrets.len());
    let lines = lines.sum();
    (lines > 0).then(|| MarkedOutput {
        log: log.name.to_string(),
        lines,
    })
}

fn prune(context: &Context, out: &mut Out) -> Outcome {
    #[derive(Serialize)]
    struct PruneOutput {
        schema: &'static str,
        files: u64,
        bytes: u64,
    }
    let (files, bytes) = opened(context)?.prune()?;
    if context.json {
        out.json(&PruneOutput {
            schema: "threadseal.archive.prune/1",
            files,
            bytes,
        });
    } else {
        let files = counted(files, "file", "files");
        out.line(format_args!("removed {files}, {}", size_words(bytes)));
    }
    Ok(Exit::Done)
}

fn quota(args: &QuotaArgs, context: &Context, out: &mut Out) -> Outcome {
    #[derive(Serialize)]
    struct QuotaOutput {
        schema: &'static str,
        quota: u64,
        size: u64,
        over: u64,
        removed: Vec<String>,
    }
    let mut archive = opened(context)?;
    if let Some(quota) = args.size {
        let settings = Settings {
            quota,
            ..archive.settings()
        };
        archive.set(settings, None)?;
    }
    let met = archive.meet_quota()?;
    let removed: Vec<String> = met
        .removed
        .iter()
        .map(|gone| gone.session.to_string())
        .collect();
    if !removed.is_empty() {
        Sessions::open(Unlock::Never, context)?;
    }
    quota_notes(&met);
    if met.over > 0 {
        complain(&format!("note: {}", excess(met.over)));
    }
    let quota = archive.settings().quota;
    if context.json {
        out.json(&QuotaOutput {
            schema: "threadseal.archive.quota/1",
            quota,
            size: met.size,
            over: met.over,
            removed,
        });
    } else {
        out.line(format_args!(
            "quota {}, size {}",
            quota_words(quota),
            size_words(met.size)
        ));
    }
    Ok(Exit::Done)
}

fn secrets(args: &SecretsArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut archive = opened(context)?;
    if let Some(secrets) = args.what {
        let settings = Settings {
            secrets,
            ..archive.settings()
        };
        archive.set(settings, None)?;
        if secrets == Secrets::Omit && !archive.sessions()?.is_empty() && !context.quiet {
            complain(
                "note: lines that are archived already stay; hint: threadseal redact SESSION --secrets --why TEXT",
            );
        }
    }
    report(&archive, context, out)
}

fn on(args: &OnArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let mut archive = opened(context)?;
    let encrypted = archive.settings().encrypted;
    let settings = Settings {
        on: true,
        encrypted: encrypted || args.encrypt,
        ..archive.settings()
    };
    let secret = match args.encrypt && !encrypted {
        true => {
            if !archive.sessions()?.is_empty() {
                let text = "the archive has content already: it cannot become encrypted; hint: threadseal forget all sessions first";
                return Err(Failure::new(text));
            }
            Some(sessions::new_secret(&home, &args.passphrase, context)?)
        }
        false => None,
    };
    archive.set(settings, secret)?;
    if args.encrypt && !encrypted {
        Index::remove(&*context.fs, home.path())?;
    }
    report(&archive, context, out)
}

fn off(context: &Context, out: &mut Out) -> Outcome {
    let mut archive = opened(context)?;
    let settings = Settings {
        on: false,
        ..archive.settings()
    };
    archive.set(settings, None)?;
    report(&archive, context, out)
}

fn report(archive: &Archive, context: &Context, out: &mut Out) -> Outcome {
    #[derive(Serialize)]
    struct SettingsOutput {
        schema: &'static str,
        on: bool,
        encrypted: bool,
        quota: u64,
        secrets: &'static str,
    }
    let settings = archive.settings();
    if context.json {
        out.json(&SettingsOutput {
            schema: "threadseal.archive.settings/1",
            on: settings.on,
            encrypted: settings.encrypted,
            quota: settings.quota,
            secrets: settings.secrets.name(),
        });
    } else {
        let on = if settings.on { "on" } else { "off" };
        let encrypted = if settings.encrypted {
            ", encrypted"
        } else {
            ""
        };
        let secrets = match settings.secrets {
            Secrets::Mark => "secrets are marked",
            Secrets::Omit => "lines with secrets are left out",
            Secrets::Keep => "secrets are not searched",
        };
        out.line(format_args!("the archive is {on}{encrypted}; {secrets}"));
    }
    Ok(Exit::Done)
}

fn rebuild(args: &RebuildArgs, context: &Context, out: &mut Out) -> Outcome {
    #[derive(Serialize)]
    struct RebuildOutput {
        schema: &'static str,
        logs: u64,
        turns: u64,
    }
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Ask(&args.passphrase), context)?;
    Index::remove(&*context.fs, home.path())?;
    let mut index = Index::open(&*context.fs, home.path())?;
    let done = index.refresh(&archive)?;
    let (logs, turns) = (done.logs, done.turns);
    if context.json {
        out.json(&RebuildOutput {
            schema: "threadseal.archive.index/1",
            logs,
            turns,
        });
    } else {
        let (logs, turns) = (
            counted(logs, "log", "logs"),
            counted(turns, "turn", "turns"),
        );
        out.line(format_args!("indexed {logs}, {turns}"));
    }
    Ok(Exit::Done)
}

fn quota_words(quota: u64) -> String {
    match quota {
        0 => "none".to_owned(),
        quota => size_words(quota),
    }
}

/// A size for people: `1.2 MB`.
pub(crate) fn size_words(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = bytes.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}

/// A size that a person wrote.
fn parse_size(text: &str) -> Result<u64, String> {
    if text == "none" {
        return Ok(0);
    }
    let units = [("G", 1_000_000_000), ("M", 1_000_000), ("K", 1000), ("", 1)];
    let unit = units.into_iter().find_map(|(name, unit)| {
        let number = text.strip_suffix(name)?;
        number.parse::<u64>().ok()?.checked_mul(unit)
    });
    unit.ok_or_else(|| "write a size as 500M, 20G, bytes, or none".to_owned())
}

/// What a person wants done with secrets.
fn parse_secrets(text: &str) -> Result<Secrets, String> {
    Secrets::parse(text).ok_or_else(|| "write mark, omit or keep".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_size("20G"), Ok(20_000_000_000));
        assert_eq!(parse_size("12"), Ok(12));
        assert_eq!(parse_size("none"), Ok(0));
        assert!(parse_size("-1").is_err() && parse_size("G").is_err());
        assert_eq!(size_words(1_250_000), "1.2 MB");
        assert_eq!(size_words(999), "999 bytes");
    }
}
