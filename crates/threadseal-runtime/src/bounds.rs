//! Every bound of the runtime, in one place.
//!
//! A bound exists so that hostile input costs bounded memory and time. Each is far above what real
//! projects hold.

use std::time::Duration;

/// How long a provider may take to count a request.
pub(crate) const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer with a count.
pub(crate) const MAX_COUNT_ANSWER_BYTES: usize = 64 << 10;

/// Tokens that may be missing in a provider's count, in hundredths of it and in tokens: Anthropic
/// and Gemini call theirs estimates.
pub(crate) const COUNT_MARGIN: (u64, u64) = (2, 64);

/// Headers of a provider's refusal that a retry policy may name.
pub(crate) const MAX_ERROR_HEADERS: usize = 64;

/// The longest of them.
pub(crate) const MAX_ERROR_HEADER_BYTES: usize = 256;

/// Longest capability in bytes: the longest id of a thread and the parts before it.
pub(crate) const MAX_CAPABILITY_BYTES: usize = 1024;
/// Most capabilities of one thread.
pub(crate) const MAX_CAPABILITIES: usize = 4096;
/// Most classifications of one table of risks.
pub(crate) const MAX_CLASSIFICATIONS: usize = 4096;
/// Largest directive, tool, graph or configuration file in bytes.
pub const MAX_ITEM_BYTES: usize = 4 << 20;
/// Bytes that the signatures of an item add, at most.
pub(crate) const MAX_SIGNATURES_BYTES: usize = 4 << 10;
/// Longest item id in bytes.
pub(crate) const MAX_ITEM_ID_BYTES: usize = 512;
/// Most values of one YAML file, aliases counted at each use.
pub(crate) const MAX_YAML_NODES: usize = 100_000;
/// Deepest nesting of a YAML file, and of the XML of a directive.
pub(crate) const MAX_DECLARED_DEPTH: usize = 64;
/// Most elements of the XML of one directive.
pub(crate) const MAX_XML_ELEMENTS: usize = 10_000;
/// Longest path into a value in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 1024;
/// Deepest nesting of `any`, `all` and `not` in one condition.
pub(crate) const MAX_CONDITION_DEPTH: usize = 16;
/// Most parts of one condition.
pub(crate) const MAX_CONDITION_PARTS: usize = 1024;
/// Longest regular expression in bytes.
pub(crate) const MAX_REGEX_BYTES: usize = 4096;
/// Most memory of one compiled regular expression in bytes.
pub(crate) const MAX_REGEX_COMPILED_BYTES: usize = 1 << 20;
/// Longest text that is compared as a number in bytes.
pub(crate) const MAX_NUMERIC_TEXT_BYTES: usize = 64;
/// Most expressions of one template.
pub(crate) const MAX_TEMPLATE_PARTS: usize = 10_000;
/// Largest rendering of one template, or of one tree of templates, in bytes.
pub(crate) const MAX_RENDERED_BYTES: usize = 16 << 20;
/// Longest that a tool may run, in seconds.
pub(crate) const MAX_TOOL_SECONDS: u64 = 24 * 60 * 60;
/// Most bytes of a tool's output that are kept.
pub(crate) const MAX_TOOL_OUTPUT_BYTES: u64 = 64 << 20;
/// Most arguments of one command, after lists were spread.
pub(crate) const MAX_ARGUMENTS: usize = 4096;
/// Most nodes of one graph.
pub(crate) const MAX_GRAPH_NODES: usize = 10_000;
/// Most other projects whose threads one project accepts.
pub(crate) const MAX_ACCEPTED_PROJECTS: usize = 64;
/// Most steps that a graph may allow itself.
pub(crate) const MAX_GRAPH_STEPS: u64 = 100_000;
/// Most iterations of a foreach that a graph may run at once.
pub(crate) const MAX_GRAPH_CONCURRENCY: u64 = 256;
/// Most threads of one chain that are followed.
pub(crate) const MAX_CHAIN_THREADS: usize = 1 << 16;
/// Fewest tokens of an answer that are worth a request; a model's own bound may be lower.
pub(crate) const MIN_USEFUL_OUTPUT_TOKENS: u32 = 256;
/// Most generations of threads through which spending cascades.
pub(crate) const MAX_BUDGET_DEPTH: usize = 1024;
/// Most knowledge entries of one project that are searched.
pub(crate) const MAX_KNOWLEDGE_FILES: usize = 1 << 18;
/// Largest knowledge entry that is searched in bytes.
pub(crate) const MAX_KNOWLEDGE_BYTES: usize = 64 << 20;
/// Most characters that a search shows of a line.
pub(crate) const MAX_SEARCH_SNIPPET_CHARS: usize = 500;
/// Most rows of one registry or ledger of budgets that are inspected.
pub(crate) const MAX_INSPECTED_ROWS: usize = 1 << 20;
/// Most faults of one registry or ledger of budgets that are listed; the rest are counted.
pub(crate) const MAX_LISTED_FAULTS: usize = 1000;
/// Most attributes of one XML element.
pub(crate) const MAX_XML_ATTRIBUTES: usize = 64;
/// Most filters of one expression of a template.
pub(crate) const MAX_FILTERS: usize = 16;
/// Longest time that a setting may name, in seconds.
pub(crate) const MAX_SETTING_SECONDS: f64 = 30.0 * 86_400.0;
/// Longest wait between two tries, in seconds, for every policy and header.
pub(crate) const MAX_RETRY_SECONDS: f64 = 3600.0;
/// Longest text of a model's error that is kept, in bytes.
pub(crate) const MAX_ERROR_TEXT_BYTES: usize = 16 << 10;
/// Largest file that a model reads at once, in bytes.
pub(crate) const MAX_FILE_READ_BYTES: usize = 4 << 20;
/// Largest content that a model writes at once, in bytes.
pub(crate) const MAX_FILE_WRITE_BYTES: usize = 4 << 20;
/// Most calls of one answer that run.
pub(crate) const MAX_CALLS_PER_TURN: usize = 64;
/// Most calls of one answer that run at once.
pub(crate) const MAX_PARALLEL_CALLS: usize = 8;
/// Largest message of an MCP server in bytes.
pub(crate) const MAX_MCP_MESSAGE_BYTES: usize = 16 << 20;
/// Most tools of one MCP server.
pub(crate) const MAX_MCP_TOOLS: usize = 1000;
/// Most pages of a list of tools.
pub(crate) const MAX_MCP_PAGES: usize = 100;
/// Longest description of a tool by its MCP server that a model is shown, in bytes.
pub(crate) const MAX_MCP_DESCRIPTION_BYTES: usize = 4096;
/// Largest schema of a tool by its MCP server that a model is shown, in bytes.
pub(crate) const MAX_MCP_SCHEMA_BYTES: usize = 64 << 10;
/// Longest text of an MCP server that an error repeats, in characters.
pub(crate) const MAX_MCP_TEXT_CHARS: usize = 300;
/// Most bytes of an MCP server's standard error that are kept, for errors.
pub(crate) const MAX_MCP_STDERR_BYTES: usize = 4096;
/// How often an MCP server may fail within [`MCP_FAILURE_WINDOW`] and is started again.
pub(crate) const MAX_MCP_FAILURES: usize = 5;
/// How long a failure of an MCP server counts.
pub(crate) const MCP_FAILURE_WINDOW: Duration = Duration::from_secs(120);
/// How long an MCP server that no thread uses stays open.
pub(crate) const MCP_IDLE_TIME: Duration = Duration::from_secs(60);
/// How long an MCP server over HTTP may take to answer in one revision before the other is tried.
pub(crate) const MCP_PROBE_TIME: Duration = Duration::from_secs(10);
/// Shortest value that is treated as a secret, in bytes: a shorter one occurs in ordinary texts.
pub const MIN_SECRET_BYTES: usize = 8;
/// Longest piece of a secret that is looked for as a whole, in bytes.
pub(crate) const MAX_SECRET_PIECE_BYTES: usize = 512;
/// How long a model may take to be reached.
pub(crate) const MODEL_CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a model may take to answer: long answers with reasoning take minutes.
pub(crate) const MODEL_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the body of a refusal brings something before it is given up, which bounds its size.
pub(crate) const MAX_REFUSAL_POLLS: u32 = 64;
/// How many times [`POLL_INTERVAL`] it may take.
pub(crate) const MAX_REFUSAL_WAITS: u32 = 200;
/// How long a model may be silent in the middle of an answer.
pub(crate) const MODEL_IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// How often a wait looks whether it shall end.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a killed command may take to be gone, and its output to end.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(2);
/// How long the supervisor of a tool may take to begin: a machine may be busy.
pub(crate) const START_PATIENCE: Duration = Duration::from_secs(20);
/// How often a supervisor waits for processes that ended below it.
pub(crate) const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// How often a supervisor kills what is left below it, 2 ms apart.
pub(crate) const MAX_KILL_ROUNDS: usize = 1000;
/// Longest report of a supervisor in bytes.
pub(crate) const MAX_REPORT_BYTES: usize = 64;
/// Most bytes that are read of the list of mounts.
pub(crate) const MAX_MOUNTS_BYTES: u64 = 4 << 20;
/// Most levels of control groups below that of a tool which are removed with it.
pub(crate) const MAX_CGROUP_LEVELS: u32 = 8;
/// Most changes by other programs, of what one thread leaves outside of its record, that are reported.
pub(crate) const MAX_CHANGES_TOLD: usize = 64;
/// How often a running thread checks for a request to end.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(200);
/// How often it does where each request gives notice: a notice may be lost.
pub(crate) const NOTICE_POLL: Duration = Duration::from_secs(5);
/// How long a process that is asked to end may take before it is ended.
pub(crate) const TERMINATE_PATIENCE: Duration = Duration::from_secs(3);
/// How long a process that is ended may take to be gone: it may write to a slow disk.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// How long the hooks of an end may take where less than that is left of `duration_seconds`.
pub(crate) const END_HOOK_TIME: Duration = Duration::from_secs(30);
/// Most bytes that are read of a file of `/proc`.
pub(crate) const MAX_PROC_BYTES: u64 = 4096;
/// How often a wait for threads reads the registry, even where no event reports changes (seed 001).
pub(crate) const REGISTRY_POLL: Duration = Duration::from_millis(500);
/// Most threads that one wait, or one collection of results, takes.
pub(crate) const MAX_WAITED_THREADS: usize = 1000;
/// Most threads that one follower of a thread shows, children and successors included.
pub(crate) const MAX_FOLLOWED_THREADS: usize = 1000;
/// Most threads that a model is shown of those that run.
pub(crate) const MAX_LISTED_THREADS: usize = 1000;
/// Most bytes of a transcript's rendering that are handed out at once.
pub(crate) const MAX_TRANSCRIPT_TEXT_BYTES: usize = 512 << 10;
/// Most hits of one search.
pub(crate) const MAX_CHAIN_SEARCH_HITS: usize = 1000;
/// How long a search may take: patterns are linear, and may be long.
pub(crate) const MAX_SEARCH_TIME: Duration = Duration::from_secs(30);
/// How many ids are tried for a new thread, a millisecond apart.
pub(crate) const MAX_ID_ATTEMPTS: u64 = 1000;
/// Most items of one kind in a project.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// Most events of an unsealed tail that a refusal or an announcement names.
pub(crate) const MAX_TAIL_EVENTS: usize = 20;
/// Most unsealed items that the refusal of one names, and most lost settings that a record names.
pub(crate) const MAX_LISTED_ITEMS: usize = 20;
/// Deepest nesting of folders that hold items.
pub(crate) const MAX_ITEM_LEVELS: usize = 32;
/// Largest transcript whose conversation is continued, in bytes: it is held in memory.
pub const MAX_CONVERSATION_BYTES: usize = 256 << 20;
/// How often an order is taken over before its threads are ended instead.
pub(crate) const MAX_TAKEOVERS: u64 = 64;
/// How often in a row an orphaned thread is resumed unasked: something ends its process each time.
pub(crate) const MAX_ORPHAN_RESUMPTIONS: u64 = 3;
/// Age from which prices are called old: vendors change theirs.
pub(crate) const MAX_PRICE_AGE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Most unresolved calls of one thread that are listed in its record.
pub(crate) const MAX_UNRESOLVED_CALLS: usize = 1024;
/// Longest order of a database, in bytes.
pub const MAX_ORDER_BYTES: usize = 1 << 20;
/// How long an order may wait for a worker by default.
pub const ORDER_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest time that an order may wait for a worker.
pub const MAX_ORDER_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How far the clock of a worker may be behind that of an order's giver.
pub(crate) const MAX_ORDER_LEAD: Duration = Duration::from_secs(5 * 60);
/// How long a waiting command lets the worker write the row of an order whose record has ended.
pub(crate) const RESULT_GRACE: Duration = Duration::from_secs(10);
/// Most characters of a row's unverified claim that are shown.
pub(crate) const MAX_CLAIM_CHARS: usize = 500;
/// How long a worker's lease lasts unless it is renewed.
pub const LEASE_TIME: Duration = Duration::from_secs(30);
/// Shortest time for which an order may be held.
pub(crate) const MIN_LEASE_TIME: Duration = Duration::from_millis(200);
/// Most records of one step ledger that are looked through after a crash.
pub(crate) const MAX_LEDGER_RECORDS: usize = 1 << 20;
/// Most threads of one replay, children and their children included.
pub const MAX_REPLAYED_THREADS: usize = 4096;
/// How many characters of a message the link to a successor contains.
pub(crate) const MAX_PREVIEW_CHARS: usize = 200;
/// Longest text of an answer, a call or a result that is recorded, in bytes. Escaping makes it up
/// to six times as long, which still fits into a line of a transcript.
pub(crate) const MAX_RECORDED_TEXT_BYTES: usize = 1 << 20;
/// Most directives that one extends, one through the other.
pub(crate) const MAX_EXTENDS: usize = 16;
/// Longest knowledge that is put into a conversation, in bytes; longer knowledge is cut.
pub(crate) const MAX_INJECTED_BYTES: usize = 128 << 10;
/// Longest rendering of a transcript that a summarising thread receives, in bytes; of a longer one,
/// its begin and end.
pub(crate) const MAX_SUMMARY_SOURCE_BYTES: usize = 256 << 10;
/// Most characters for each token that a summary may have.
pub(crate) const MAX_SUMMARY_CHARS_PER_TOKEN: u64 = 8;
/// Most items that one search names.
pub(crate) const MAX_SEARCH_HITS: usize = 50;
/// Largest state of a graph run in bytes of JSON: each change of it must fit into one line.
pub(crate) const MAX_STATE_BYTES: usize = 1 << 20;
/// Most items of one foreach.
pub(crate) const MAX_FOREACH_ITEMS: usize = 10_000;
/// Most bytes of the nodes that a continued run of a graph has from the runs before.
pub(crate) const MAX_VISITED_BYTES: usize = 256 << 10;
/// How often a hook may have one node tried again.
pub(crate) const MAX_NODE_RETRIES: u64 = 3;
/// Longest text of an error that stays in the state of a run of a graph, in bytes.
pub(crate) const MAX_STATE_ERROR_BYTES: usize = 4096;
/// Most steps in the history of a graph run's entry: each step rewrites the history.
pub(crate) const MAX_HISTORY_STEPS: usize = 1000;
/// Most characters of a cell or a line of such an entry.
pub(crate) const MAX_DETAIL_CHARS: usize = 200;
/// How much of a text is counted in tokens at once, in bytes.
pub(crate) const MAX_COUNTED_PIECE_BYTES: usize = 8 << 10;
/// How much of a conversation a summary is made of, in bytes: its end.
pub(crate) const MAX_SUMMARISED_BYTES: usize = 256 << 10;
/// Longest summary that a successor is given, in bytes.
pub(crate) const MAX_SUMMARY_BYTES: usize = 64 << 10;
