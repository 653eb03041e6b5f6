//! Lineages in stores: SQLite, PostgreSQL, S3 and folders of objects.

use crate::fleet::{cluster, database_of};
use crate::prelude::*;
use threadseal_store::objects::moto::Moto;
use threadseal_store::objects::{self, Objects};

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
const STEP: &str = "{\"node\":\"plan\"}\n";

/// A home and a store with the agents `sorter` and `other`, of three links and of one.
struct Filled {
    sandbox: Sandbox,
    store: String,
    settings: Vec<(String, String)>,
}

impl Shell for Filled {
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        let mut command = self.sandbox.command();
        command.envs(self.settings.iter().cloned()).args(arguments);
        Ran::of(command.output().unwrap())
    }
}

impl Filled {
    fn new(store: &str, settings: Vec<(String, String)>) -> Self {
        let filled = Self {
            sandbox: ready(),
            store: store.to_owned(),
            settings,
        };
        for tick in 1..=3 {
            filled.append("sorter", tick);
        }
        filled.append("other", 1);
        filled
    }

    #[track_caller]
    fn append(&self, agent: &str, tick: u64) {
        // One state is longer than an object with a link may be.
        let state = "state ".repeat(if tick == 2 { 20_000 } else { 1 });
        self.sandbox.write("state", format!("{state}{tick}"));
        let store = &self.store;
        self.ok(format!(
            "lineage append {store} --agent {agent} --state state --tick {tick} --budget 9 --price 1 --code {CODE}"
        ));
    }

    /// The reports on lineages by both commands, which agree.
    #[track_caller]
    fn lineages(&self, exit: i32) -> Vec<Value> {
        let both = ["verify", "lineage verify"].map(|command| {
            let output = self.exits(exit, format!("{command} {} --json", self.store));
            let output = output.json();
            let reports = output["results"].list().iter();
            let mut reports: Vec<Value> = reports
                .filter(|report| report["format"] == "lineage")
                .cloned()
                .collect();
            reports.sort_by_key(|report| report["path"].text().to_owned());
            reports
        });
        assert_eq!(both[0], both[1], "{}", self.store);
        both.into_iter().next().unwrap()
    }

    #[track_caller]
    fn verdicts(&self, exit: i32) -> Vec<(String, String)> {
        let verdict = |report: Value| {
            let path = report["path"].text();
            let name = path.split_once('#').map_or("", |(_, name)| name);
            (name.to_owned(), report["verdict"].text().to_owned())
        };
        self.lineages(exit).into_iter().map(verdict).collect()
    }

    /// Verified, inspected and drawn; no command changes the store.
    fn is_read(&self) {
        let verified = |name: &str| (name.to_owned(), "verified".to_owned());
        assert_eq!(self.verdicts(0), [verified("other"), verified("sorter")]);
        let (store, folder) = (&self.store, Self::new("agents", Vec::new()));
        // As in a folder.
        let here = self.lineages(0);
        let there = folder.json("lineage verify agents")["results"].clone();
        for (here, there) in here.iter().rev().zip(there.list()) {
            for member in [
                "format",
                "profile",
                "verdict",
                "completeness",
                "stats",
                "trusted_until",
            ] {
                assert_eq!(here[member], there[member], "{member} in {store}");
            }
        }
        let shown = self.json(format!("lineage inspect {store}#sorter"));
        assert_eq!(shown["checkpoint"]["tick"], 3, "{shown:#}");
        let prev = shown["checkpoint"]["prev"].text();
        // One link does not show that a newer one is here: as of a file.
        let text = self.exits(1, format!("lineage inspect {store}#sorter/{prev}"));
        text.stdout.has("state state");
        text.stdout.has(prev);
        let drawn = self.json(format!("lineage log {store}"));
        let links = drawn["lineages"].list().iter();
        let links: usize = links.map(|one| one["links"].list().len()).sum();
        assert_eq!(links, 4, "{drawn:#}");
        let one = self.json(format!("lineage verify {store}#sorter"));
        assert_eq!(one["results"].list().len(), 1, "{one:#}");
        self.exits(2, format!("lineage inspect {store}"));
        self.exits(2, format!("lineage verify {store}#unknown"));
        self.ok(format!("verify --all {store}"));
        // A home that knows nothing has nothing to miss, and trusts no key of it.
        let other = ready();
        let mut command = other.command();
        command.current_dir(self.sandbox.work());
        command.envs(self.settings.iter().cloned());
        assert_eq!(
            Ran::of(command.args(["verify", store]).output().unwrap()).code,
            3
        );
    }
}

/// The objects of a store, as an attacker reaches them.
fn object_names(sandbox: &Sandbox, folder: &str) -> Vec<PathBuf> {
    let mut all = walk(&sandbox.path(folder));
    all.retain(|path| path.is_file() && !name_of(path).starts_with('.'));
    all.sort();
    all
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

// T-LIN-37
#[test]
fn a_lineage_in_object_storage_has_the_verdicts_of_a_folder_and_each_attack_is_found() {
    let filled = Filled::new("object+file:objects", Vec::new());
    filled.is_read();
    let sandbox = &filled.sandbox;
    let (objects, kept) = (sandbox.path("objects"), sandbox.path("kept"));
    copy(&objects, &kept);
    let before = tree_digest(&objects);
    filled.lineages(0);
    assert_eq!(tree_digest(&objects), before);
    // Each object with a link, or a piece of a state, is changed and removed.
    let names = object_names(sandbox, "objects");
    let names = names
        .iter()
        .filter(|path| !path.starts_with(objects.join("identities")));
    let mut attacked = 0;
    for path in names {
        let whole = fs::read(path).unwrap();
        let mut flipped = whole.clone();
        let at = flipped.len() - 1;
        flipped[at] ^= 1;
        for bytes in [
            Some(flipped),
            Some(b"junk".to_vec()),
            Some(Vec::new()),
            None,
        ] {
            match &bytes {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            // As in a folder, a first link that is gone is no evidence: it may be elsewhere.
            let exit = filled.sh("lineage verify object+file:objects").code;
            assert!(
                exit == 1 || (exit == 3 && bytes.is_none()),
                "{path:?}, {bytes:?}"
            );
            let verdicts = filled.verdicts(exit);
            let good = |(_, verdict): &(String, String)| verdict == "verified";
            assert!(
                !verdicts.iter().all(good),
                "{path:?}, {bytes:?}: {verdicts:?}"
            );
            put_back(&kept, &objects);
            attacked += 1;
        }
    }
    // Two newest links, two older ones, and a state in one piece.
    assert_eq!(attacked, 4 * 5);
    // An older state of the whole store.
    for tick in 4..=5 {
        filled.append("sorter", tick);
    }
    filled.lineages(0);
    put_back(&kept, &objects);
    let verdicts = filled.verdicts(1);
    assert_eq!(verdicts[1].1, "rolled_back", "{verdicts:?}");
}

// T-LIN-38
#[test]
fn a_lineage_that_was_removed_from_a_store_is_missing() {
    let filled = Filled::new("object+file:objects", Vec::new());
    let objects = filled.sandbox.path("objects");
    for part in ["lineages", "lineage-links", "lineage-states"] {
        let _ = fs::remove_file(objects.join(part).join(hex("sorter")));
        let _ = fs::remove_dir_all(objects.join(part).join(hex("sorter")));
    }
    let reports = filled.lineages(1);
    let missing = |report: &&Value| report["verdict"] == "missing";
    assert_eq!(reports.iter().filter(missing).count(), 1, "{reports:#?}");
    filled.exits(1, "verify --all object+file:objects");

    let filled = Filled::new("sqlite:agents.db", Vec::new());
    let file = rusqlite::Connection::open(filled.sandbox.path("agents.db")).unwrap();
    let delete = format!(
        "DELETE FROM threadseal_objects WHERE name LIKE '%{}%' AND name NOT LIKE 'identities%'",
        hex("sorter")
    );
    file.execute_batch(&delete).unwrap();
    drop(file);
    let reports = filled.lineages(1);
    assert_eq!(reports.iter().filter(missing).count(), 1, "{reports:#?}");
    for command in ["verify agents.db", "verify .", "verify --all agents.db"] {
        let output = filled.exits(1, format!("{command} --json")).json();
        output["results"].item("verdict", "missing");
    }
    // Nothing is left.
    let file = rusqlite::Connection::open(filled.sandbox.path("agents.db")).unwrap();
    file.execute_batch("DROP TABLE threadseal_objects").unwrap();
    drop(file);
    filled.exits(1, "verify .");
}

/// (no attack) An agent that was pruned, or that continues in another store.
// T-LIN-39
#[test]
fn an_agent_that_was_pruned_or_moved_is_not_missing() {
    let filled = Filled::new("sqlite:agents.db", Vec::new());
    filled.ok("prune --yes --older-than 0h sqlite:agents.db --agent sorter");
    filled.ok("verify sqlite:agents.db");
    filled.ok("lineage verify sqlite:agents.db");
    filled.ok("verify agents.db");
}

// T-LIN-37
#[test]
fn a_lineage_in_sqlite_is_read_beside_a_ledger_and_nothing_is_made() {
    let filled = Filled::new("sqlite:agents.db", Vec::new());
    filled.is_read();
    let sandbox = &filled.sandbox;
    for command in ["verify agents.db", "verify ."] {
        let output = filled.json(command);
        let lineage = |report: &&Value| report["format"] == "lineage";
        let reports = output["results"].list().iter().filter(lineage).count();
        assert_eq!(reports, 2, "{output:#}");
    }
    // A ledger in another file, and no table of lineages is made there.
    piped(
        sandbox,
        "ledger append sqlite:runs.db --run r1 --sign",
        STEP,
    )
    .exits(0);
    let path = sandbox.path("runs.db");
    let before = fs::read(&path).unwrap();
    filled.ok("verify sqlite:runs.db");
    filled.exits(2, "lineage verify sqlite:runs.db");
    assert_eq!(fs::read(&path).unwrap(), before);
    filled.exits(2, "lineage verify sqlite:none.db");
    filled.exits(2, "verify sqlite:none.db");
    assert!(!sandbox.path("none.db").exists());
    // A changed link.
    let file = rusqlite::Connection::open(sandbox.path("agents.db")).unwrap();
    file.execute_batch(
        "UPDATE threadseal_objects SET bytes = CAST(replace(bytes, 'state', 'stale') AS BLOB)
         WHERE name LIKE 'lineage-states%'",
    )
    .unwrap();
    drop(file);
    filled.lineages(1);
    filled.exits(1, "verify agents.db");
}

// T-LIN-37
#[test]
fn a_lineage_in_postgresql_is_read_and_nothing_is_made() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.fresh();
    let filled = Filled::new(&url, Vec::new());
    filled.is_read();
    // A database that has no table yet gets none.
    let empty = cluster.fresh();
    for command in ["verify", "lineage verify", "ledger verify"] {
        filled.exits(2, format!("{command} {empty}"));
    }
    let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'threadseal%'";
    assert_eq!(cluster.sql(database_of(&empty), tables).trim(), "0");
    // A ledger beside the lineages.
    let append = format!("ledger append {url} --run r1 --sign");
    piped(&filled.sandbox, &append, STEP).exits(0);
    let output = filled.json(format!("verify {url}"));
    assert_eq!(output["results"].list().len(), 3, "{output:#}");
    let name = hex("sorter");
    cluster.sql(
        database_of(&url),
        &format!("DELETE FROM threadseal_objects WHERE name LIKE 'lineage%/{name}%'"),
    );
    let reports = filled.lineages(1);
    let missing = |report: &&Value| report["verdict"] == "missing";
    assert_eq!(reports.iter().filter(missing).count(), 1, "{reports:#?}");
    filled.exits(1, format!("verify --all {url}"));
}

// T-LIN-37
#[test]
fn a_lineage_in_s3_is_read_and_its_removal_is_missed() {
    let Some(moto) = Moto::shared() else { return };
    let url = moto.fresh();
    let filled = Filled::new(&url, moto.settings());
    filled.is_read();
    let storage: Arc<dyn Objects> = objects::open(&url, &moto.settings()).unwrap();
    storage
        .remove(&format!("lineages/{}", hex("other")))
        .unwrap();
    let reports = filled.lineages(1);
    let missing = |report: &&Value| report["verdict"] == "missing";
    assert_eq!(reports.iter().filter(missing).count(), 1, "{reports:#?}");
}
