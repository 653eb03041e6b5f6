//! `knowledge search`: entries below `.ai/knowledge` that contain every word, each with its
//! verdict.

use crate::context::Context;
use crate::exit::{Exit, Outcome, complain};
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use threadseal_core::report::{Verdict, combined_exit_code};
use threadseal_runtime::knowledge;
use threadseal_verify::trust_locality::Locality;

/// What `knowledge search` takes.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that an entry must contain, all of them
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct SearchOutput<'a> {
    schema: &'static str,
    hits: Vec<HitOutput<'a>>,
    too_large: Vec<String>,
}

#[derive(Serialize)]
struct HitOutput<'a> {
    id: &'a str,
    verdict: Verdict,
    count: usize,
    line: usize,
    snippet: &'a str,
}

/// Exits with the worst verdict among the hits; 2 if there is none.
pub(super) fn run(args: &SearchArgs, context: &Context, out: &mut Out) -> Outcome {
    let project = args.project.open(context)?;
    let root = project.root().to_owned();
    let local = Locality::to(std::slice::from_ref(&root), false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let found = knowledge::search(&context.host()?, &project, &trust, &args.words.join(" "))?;
    let too_large = found
        .too_large
        .iter()
        .map(|path| path.display().to_string());
    let too_large: Vec<String> = too_large.collect();
    let verdicts: Vec<Verdict> = found.hits.iter().map(|hit| hit.verdict).collect();
    let exit = combined_exit_code(&verdicts, 0);
    if context.json {
        let hits = found.hits.iter().map(|hit| HitOutput {
            id: &hit.id,
            verdict: hit.verdict,
            count: hit.count,
            line: hit.line,
            snippet: &hit.snippet,
        });
        out.json(&SearchOutput {
            schema: "threadseal.knowledge.search/1",
            hits: hits.collect(),
            too_large,
        });
        return Ok(Exit::from_code(exit));
    }
    for hit in &found.hits {
        let (id, snippet) = (Clean(&hit.id), Clean(&hit.snippet));
        out.line(format_args!(
            "{:<14}{id}:{}  {snippet}",
            hit.verdict.to_string(),
            hit.line
        ));
    }
    for path in &too_large {
        complain(&format!("{} is too large to be searched", Clean(path)));
    }
    Ok(Exit::from_code(exit))
}
