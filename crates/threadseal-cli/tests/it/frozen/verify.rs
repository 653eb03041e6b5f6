//! The answer of `verify --json` to each file of the testkit and of the shared vectors: alone, with
//! other options, and in its folder.

use super::json::lay_out;
use crate::prelude::*;
use crate::vectors::Vectors;
use serde_json::value::RawValue;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Trusts the raw public key of the testkit's seed `01` × 32.
const TRUST: &str = "\
version = 1

[[key]]
name = \"testkit\"
key = \"8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c\"
usage = [\"native\", \"scroll\"]
";

/// The agent of most lineages in the testkit.
const AGENT: &str = "f9fe7fa92c6463a488285dc38d65c062c7155a6fbe689b883f550304daabc0ae";

/// In arguments: a folder outside of everything verified. It holds [`TRUST`] and copies of the
/// trusted keys.
const TRUST_FOLDER: &str = "<trust>/";
/// The name of the file with [`TRUST`] in that folder.
const TRUST_FILE: &str = "trust.toml";

/// A folder of the testkit, its trusted keys, and further options for a run over all its files at
/// once.
struct Kit {
    folder: &'static str,
    trust: &'static [&'static str],
    variants: &'static [&'static [&'static str]],
}

const KITS: [Kit; 11] = [
    Kit {
        folder: "agmi",
        trust: &[],
        variants: &[],
    },
    Kit {
        folder: "canon",
        trust: &[],
        variants: &[],
    },
    Kit {
        folder: "documents/native",
        trust: &[
            "documents/native/keys/native.pem",
            "documents/native/keys/rye.pem",
        ],
        variants: &[
            &["--profile", "native"],
            &["--profile", "rye"],
            &["--key", "documents/native/keys/native.pem"],
        ],
    },
    Kit {
        folder: "documents/rye",
        trust: &[
            "documents/rye/keys/user.pem",
            "documents/rye/keys/colleague.pem",
        ],
        variants: &[
            &["--profile", "rye"],
            &["--key", "documents/rye/keys/user.pem"],
            &["--trust", "documents/rye/keys/rust.pem"],
        ],
    },
    Kit {
        folder: "keys",
        trust: &[],
        variants: &[],
    },
    Kit {
        folder: "ledger",
        trust: &[],
        variants: &[&["--policy", "lenient"]],
    },
    Kit {
        folder: "lineage",
        trust: &[],
        variants: &[&["--key", AGENT]],
    },
    Kit {
        folder: "scroll",
        trust: &[TRUST_FILE],
        variants: &[&["--profile", "scroll-v0.1"]],
    },
    Kit {
        folder: "tlog",
        trust: &[],
        variants: &[],
    },
    Kit {
        folder: "transcripts/native",
        trust: &[TRUST_FILE],
        variants: &[
            &["--policy", "lenient"],
            &["--every-signature"],
            &["--profile", "observed"],
        ],
    },
    Kit {
        folder: "transcripts/rye",
        trust: &[
            "transcripts/rye/keys/self_public.pem",
            "transcripts/rye/keys/colleague_public.pem",
        ],
        variants: &[
            &["--profile", "rye"],
            &["--key", "transcripts/rye/keys/self_public.pem"],
            &["--trust", "transcripts/rye/keys/rust_public.pem"],
        ],
    },
];

/// One run of the command: its arguments, and how the snapshot shows them.
struct Run {
    arguments: Vec<String>,
    shown: String,
}

impl Run {
    fn new(arguments: &[&[String]]) -> Self {
        let arguments = arguments.concat();
        let shown = arguments.join(" ");
        Self { arguments, shown }
    }

    /// Replaces the last argument, which is only a placeholder, by all these files.
    fn over(mut self, files: &[String]) -> Self {
        self.arguments.pop();
        self.arguments.extend_from_slice(files);
        self
    }
}

/// The folder where commands run, a home that does not exist, and the known reports. A known report
/// is on a file alone, without and with its trust, and has its place in the snapshot.
struct Bench {
    root: PathBuf,
    sandbox: Sandbox,
    known: BTreeMap<(String, String), String>,
}

impl Bench {
    fn in_folder(root: PathBuf) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write(TRUST_FILE, TRUST);
        Self {
            root,
            sandbox,
            known: BTreeMap::new(),
        }
    }

    fn run(&self, run: &Run) -> Ran {
        let fill = |argument: &String| match argument.strip_prefix(TRUST_FOLDER) {
            Some(path) => self.sandbox.path(path).to_str().unwrap().to_owned(),
            None => argument.clone(),
        };
        let mut command = self.sandbox.command();
        let command = command
            .current_dir(&self.root)
            .args(run.arguments.iter().map(fill));
        Ran::of(command.output().unwrap())
    }

    /// Runs each command in a process of its own, on all cores; the answers are in order.
    fn run_all(&self, runs: &[Run]) -> Vec<Ran> {
        let (next, answers) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(2, |cores| cores.get() + 1) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::SeqCst);
                        let Some(run) = runs.get(at) else { return };
                        let answer = self.run(run);
                        answers.lock().unwrap().insert(at, answer);
                    }
                });
            }
        });
        answers.into_inner().unwrap().into_values().collect()
    }

    /// Freezes the answers to `alone`, one file each, and then those to `together`. There, a report
    /// that equals the one on the file alone is only named.
    fn freeze(&mut self, name: &str, alone: &[Run], together: &[Run]) {
        let mut text = String::new();
        for (run, answer) in alone.iter().zip(self.run_all(alone)) {
            text += &self.shown(run, &answer, &answer.stdout);
            if let Some(report) = reports_of(&answer.stdout).filter(|reports| reports.len() == 1) {
                let place = format!("as alone: {}", run.arguments.last().unwrap());
                self.known.entry(split_trust(report[0])).or_insert(place);
            }
        }
        for (run, answer) in together.iter().zip(self.run_all(together)) {
            let mut json = answer.stdout.clone();
            for report in reports_of(&answer.stdout).unwrap_or_default() {
                let (rest, trust) = split_trust(report);
                // A report under other trust can be the same except for the digest of that trust.
                let begin = (rest.clone(), String::new());
                let mut alike = self
                    .known
                    .range(begin..)
                    .take_while(|((found, _), _)| *found == rest);
                let place = match self.known.get(&(rest.clone(), trust.clone())) {
                    Some(place) => place.clone(),
                    None => match alike.next() {
                        Some((_, place)) => format!("{place}, but trust {trust}"),
                        None => continue,
                    },
                };
                json = json.replace(report, &format!("\"{place}\""));
            }
            text += &self.shown(run, &answer, &json);
        }
        snapshot(&format!("verify/{name}"), &text);
    }

    fn shown(&self, run: &Run, answer: &Ran, json: &str) -> String {
        for place in [&self.root, &self.sandbox.work()] {
            let place = place.to_str().unwrap();
            assert!(!json.contains(place), "{}: {place} is in {json}", run.shown);
        }
        let json = match json.strip_suffix('\n') {
            Some(json) => lay_out(json),
            None => format!("no JSON: {json:?}\n"),
        };
        let bytes = answer.stdout.len();
        format!(
            "== {}\nexit {}, {bytes} bytes\n{json}\n",
            run.shown, answer.code
        )
    }
}

/// A report without the digest of its trust, and that digest.
fn split_trust(report: &str) -> (String, String) {
    let mark = "\"trust\":\"";
    let (before, after) = report.split_once(mark).unwrap_or((report, ""));
    let (trust, after) = after.split_once('"').unwrap_or(("", after));
    (format!("{before}{mark}{after}"), trust.to_owned())
}

/// The reports of an answer, spelled exactly as in the answer.
fn reports_of(answer: &str) -> Option<Vec<&str>> {
    let object: BTreeMap<&str, &RawValue> = serde_json::from_str(answer).ok()?;
    let results: Vec<&RawValue> = serde_json::from_str(object.get("results")?.get()).ok()?;
    Some(results.into_iter().map(RawValue::get).collect())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn flags(flag: &str, values: &[&str]) -> Vec<String> {
    values
        .iter()
        .flat_map(|value| owned(&[flag, value]))
        .collect()
}

fn trusting(files: &[&str]) -> Vec<String> {
    let paths = files.iter().map(|file| format!("{TRUST_FOLDER}{file}"));
    paths
        .flat_map(|path| ["--trust".to_owned(), path])
        .collect()
}

/// The wanted files or folders in `folder`, relative to `root` and sorted.
fn below(root: &Path, folder: &str, is_wanted: impl Fn(&Path) -> bool) -> Vec<String> {
    let found = walk(&root.join(folder))
        .into_iter()
        .filter(|path| is_wanted(path));
    let relative = |path: PathBuf| {
        path.strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let mut found: Vec<String> = found.map(relative).collect();
    // Python leaves its caches next to the scripts.
    found.retain(|path| !path.contains("__pycache__"));
    found.sort();
    found
}

/// The runs with options that the list of the folder defines.
fn listed(root: &Path, kit: &Kit) -> Vec<Run> {
    let Ok(list) = fs::read_to_string(root.join(kit.folder).join("expect.toml")) else {
        return Vec::new();
    };
    let list: toml::Table = list.parse().unwrap();
    let entries = ["vector", "file"]
        .into_iter()
        .filter_map(|name| list.get(name)?.as_array());
    let run = |entry: &toml::Value| {
        let text = |name: &str| entry.get(name).and_then(toml::Value::as_str);
        let mut own: Vec<String> = match entry.get("flags") {
            Some(flags) => flags.clone().try_into().unwrap(),
            None => Vec::new(),
        };
        own.extend(flags("--expect-head", text("head").as_slice()));
        own.extend(flags("--thread", text("thread").as_slice()));
        let path = owned(&[&format!("{}/{}", kit.folder, text("file").unwrap())]);
        let begin: &[&str] = if own.contains(&"--run".to_owned()) {
            &["ledger"]
        } else {
            &[]
        };
        let verify = owned(&[begin, &["verify", "--json"]].concat());
        (!own.is_empty()).then(|| Run::new(&[&verify, &trusting(kit.trust), &own, &path]))
    };
    entries.flatten().filter_map(run).collect()
}

#[test]
fn every_file_of_the_testkit_is_frozen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit");
    let root = root.canonicalize().unwrap();
    let (mut bench, mut frozen) = (Bench::in_folder(root.clone()), 0);
    let verify = |trust: &[&str], more: &[&str], path: &str| {
        Run::new(&[
            &words("verify --json"),
            &trusting(trust),
            &owned(more),
            &owned(&[path]),
        ])
    };
    for kit in &KITS {
        for file in kit.trust.iter().filter(|file| **file != TRUST_FILE) {
            bench
                .sandbox
                .write(file, fs::read(root.join(file)).unwrap());
        }
        let files = below(&root, kit.folder, Path::is_file);
        let folders = below(&root, kit.folder, Path::is_dir);
        let mut alone: Vec<Run> = files
            .iter()
            .map(|file| verify(kit.trust, &[], file))
            .collect();
        alone.extend(listed(&root, kit));
        let over_all = kit.variants.iter().map(|variant| {
            // Other trusted keys replace those of the folder.
            let trust = if variant[0] == "--trust" {
                &[]
            } else {
                kit.trust
            };
            verify(trust, variant, "FILES").over(&files)
        });
        let whole = [kit.folder.to_owned()].into_iter().chain(folders);
        let whole = whole.map(|folder| verify(kit.trust, &[], &folder));
        let together: Vec<Run> = over_all.chain(whole).collect();
        bench.freeze(&kit.folder.replace('/', "-"), &alone, &together);
        frozen += files.len();
    }
    let trust = KITS.map(|kit| kit.trust).concat();
    let mut tops: Vec<String> = KITS
        .iter()
        .filter_map(|kit| kit.folder.split('/').next().map(str::to_owned))
        .collect();
    tops.dedup();
    let folders = ["documents", "transcripts"].into_iter();
    let mut whole: Vec<Run> = folders.map(|folder| verify(&trust, &[], folder)).collect();
    whole.push(verify(&trust, &[], "FOLDERS").over(&tops));
    bench.freeze("testkit", &[], &whole);
    // Files outside those folders: documentation, lists and scripts.
    let outside = [
        "PROTOCOL.md",
        "README.md",
        "changes.py",
        "differ",
        "documents/README.md",
        "expect.toml",
        "lists.py",
        "run",
    ];
    // Whose lists have the whole answer, and a test of their own.
    let listed = ["make/", "native/", "observed/", "proofs/", "rules/"];
    let mut all = below(&root, "", Path::is_file);
    all.retain(|path| !listed.iter().any(|folder| path.starts_with(folder)));
    assert_eq!(
        frozen + outside.len(),
        all.len(),
        "a file is in no folder of KITS"
    );
}

#[test]
fn every_vector_of_rye_is_frozen() {
    let Some(vectors) = Vectors::find() else {
        return;
    };
    let cases = vectors.cases();
    let begin = words("verify --json");
    let runs = cases
        .iter()
        .map(|case| Run::new(&[&begin, &case.flags, &owned(&[case.path])]));
    let runs: Vec<Run> = runs.collect();
    Bench::in_folder(vectors.root.clone()).freeze("shared-rye", &runs, &[]);
}

/// The array with this name in an index.
fn index(folder: &Path, list: &str) -> Vec<Value> {
    let index = fs::read(folder.join("index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    index[list].list().clone()
}

#[test]
fn every_vector_of_igor_is_frozen() {
    let Some(folder) = shared("vectors/igor") else {
        return;
    };
    let runs = index(&folder, "entries").into_iter().flat_map(|entry| {
        let path = entry["path"].text();
        let told = ["pinned_pubkey", "pinned_head_sha256", "wasm_sha256"]
            .map(|name| entry["trust"][name].as_str());
        let [key, head, code] = told.each_ref().map(Option::as_slice);
        let asked = [
            flags("--key", key),
            flags("--expect-head", head),
            flags("--code", code),
        ]
        .concat();
        let path = owned(&[path]);
        [
            Run::new(&[&words("verify --json"), &path]),
            Run::new(&[&words("verify --json"), &flags("--key", key), &path]),
            Run::new(&[&words("lineage verify --json"), &asked, &path]),
        ]
    });
    let runs: Vec<Run> = runs.collect();
    Bench::in_folder(folder).freeze("shared-igor", &runs, &[]);
}

#[test]
fn every_vector_of_abstractruntime_is_frozen() {
    let Some(folder) = shared("vectors/ledger") else {
        return;
    };
    let cases = index(&folder, "cases");
    let runs = cases
        .iter()
        .filter(|case| folder.join(case["file"].text()).exists())
        .map(|case| {
            let file = owned(&[case["file"].text()]);
            match case["format"].as_str() {
                Some("sqlite") => {
                    let run = flags("--run", &[case["run_id"].text()]);
                    Run::new(&[&words("ledger verify --json"), &run, &file])
                }
                _ => Run::new(&[&words("verify --json"), &file]),
            }
        });
    let runs: Vec<Run> = runs.collect();
    let bundles = Run::new(&[&words("verify --json bundles")]);
    Bench::in_folder(folder).freeze("shared-ledger", &runs, &[bundles]);
}
