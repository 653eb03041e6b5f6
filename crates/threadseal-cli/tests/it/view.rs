//! The viewer of this machine, and pages with a session inside.

use crate::archive::turns;
use crate::hook::wait_until;
use crate::prelude::*;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

const SESSION: &str = "3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6";
const LOG: &str = "claude/3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6.jsonl";

fn archived() -> Sandbox {
    let sandbox = ready();
    sandbox.write(
        LOG,
        turns(SESSION, 0, "list the frobnicators") + &turns(SESSION, 1, "and again"),
    );
    sandbox.json("archive add claude");
    sandbox
}

/// A viewer that runs.
struct Viewer {
    child: Child,
    port: u16,
    base: String,
    place: String,
}

impl Viewer {
    fn start(sandbox: &Sandbox, what: &[&str]) -> Self {
        let mut command = sandbox.command();
        command.args(["view", "--no-open", "--json"]).args(what);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        schemas::check(&line);
        let begun: Value = serde_json::from_str(&line).unwrap();
        let url = begun["url"]
            .text()
            .strip_prefix("http://127.0.0.1:")
            .unwrap();
        let (port, rest) = url.split_once('/').unwrap();
        let (token, place) = rest.split_once('/').unwrap();
        Self {
            child,
            port: port.parse().unwrap(),
            base: format!("/{token}/"),
            place: place.to_owned(),
        }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.port
        )
        .unwrap();
        stream
    }

    /// The status and the body.
    fn get(&self, path: &str) -> (u16, Vec<u8>) {
        self.get_whole(&format!("{}{path}", self.base))
    }

    fn get_whole(&self, path: &str) -> (u16, Vec<u8>) {
        let mut answer = Vec::new();
        self.ask(path).read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let status = std::str::from_utf8(&answer[9..12])
            .unwrap()
            .parse()
            .unwrap();
        (status, answer[end + 4..].to_vec())
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        schemas::check(std::str::from_utf8(&body).unwrap());
        serde_json::from_slice(&body).unwrap()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_viewer_has_the_sessions_of_the_home_with_bytes_seals_reports_and_words() {
    let sandbox = archived();
    let viewer = Viewer::start(&sandbox, &["3f9c"]);
    let id = format!("claude-code:{SESSION}");
    assert_eq!(viewer.place, format!("#/s/claude-code%3a{SESSION}"));
    let rows = viewer.json("api/sessions?skip=0&limit=10");
    let row = &rows["sessions"][0];
    assert_eq!(rows["total"], 1);
    row.is(json!({"id": id, "kind": "session", "agent": "claude-code", "project": "/home/ann/src/api",
        "title": "list the frobnicators", "turns": 6, "tools": 2, "tokens": 240, "state": "verified", "light": "green"}));
    assert_eq!(viewer.json("api/sessions?skip=1")["sessions"], json!([]));
    let session = viewer.json(&format!("api/sessions/{id}"));
    let log = &session["logs"][0];
    let bytes = fs::read(sandbox.path(LOG)).unwrap();
    let seals = fs::read(sandbox.path(format!("{LOG}.seal"))).unwrap();
    log.is(json!({"log": id, "bytes": bytes.len(), "seals": seals.len(), "bodies": 0, "format": "claude-code", "light": "green"}));
    assert!(log["head"].text().contains(':'), "{log:#}");
    assert_eq!(
        viewer.get(&format!("api/logs/{id}/bytes")),
        (200, bytes.clone())
    );
    assert_eq!(viewer.get(&format!("api/logs/{id}/seals")), (200, seals));
    let report = viewer.json(&format!("api/logs/{id}/report"));
    assert_eq!(report["results"][0]["verdict"], "verified");
    let keys = viewer.json("api/trust");
    assert!(keys["store"].text().contains("usage"), "{keys:#}");
    assert!(
        keys["keys"]
            .as_array()
            .unwrap()
            .iter()
            .any(|key| key["usage"] == json!(["observed"])),
        "{keys:#}"
    );
    let hits = viewer.json("api/search?q=frobnicators&limit=5");
    hits["hits"][0].is(json!({"id": id, "log": id}));
    // Where the agent deleted its log, the archive has it.
    fs::remove_file(sandbox.path(LOG)).unwrap();
    assert_eq!(viewer.get(&format!("api/logs/{id}/bytes")), (200, bytes));
    assert_eq!(
        viewer.json("api/sessions")["sessions"][0]["state"],
        "archived"
    );
}

// T-VIEW-12
#[test]
fn a_viewer_shows_what_it_lists_and_nothing_else() {
    let sandbox = archived();
    sandbox.write("secret.txt", "not shown");
    let path = sandbox.path("secret.txt").display().to_string();
    for what in [&[][..], &[LOG]] {
        let viewer = Viewer::start(&sandbox, what);
        for name in [
            path.clone(),
            format!("file:{path}"),
            format!("claude-code:{path}"),
            "file:../secret.txt".to_owned(),
            "..%2fsecret.txt".to_owned(),
            "thread:../../secret.txt".to_owned(),
        ] {
            let (status, body) = viewer.get(&format!("api/logs/{name}/bytes"));
            assert_eq!(status, 404, "{name}");
            assert!(!String::from_utf8_lossy(&body).contains("not shown"));
        }
        let mut other = String::new();
        viewer
            .ask("/0123456789abcdef0123456789abcdef/api/sessions")
            .read_to_string(&mut other)
            .unwrap();
        assert!(other.starts_with("HTTP/1.1 404"), "{other}");
    }
}

// T-VIEW-14
#[test]
fn the_arguments_of_the_browser_have_no_token() {
    let sandbox = archived();
    let (opened, folder) = (sandbox.path("opened"), sandbox.path("bin"));
    fs::create_dir(&folder).unwrap();
    let program = sandbox.write(
        "bin/xdg-open",
        format!("#!/bin/sh\necho \"$1\" >{opened:?}\n"),
    );
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = sandbox.command();
    command
        .args(["view", "--json"])
        .env("DISPLAY", ":7")
        .env("PATH", format!("{}:/bin", folder.display()));
    let viewer = Viewer::of(command);
    wait_until("a browser is opened", || {
        fs::read_to_string(&opened).is_ok_and(|text| text.ends_with('\n'))
    });
    let address = read(&opened);
    assert!(
        !address.contains(viewer.base.trim_matches('/')),
        "{address}"
    );
    let prefix = format!("http://127.0.0.1:{}", viewer.port);
    let path = address.trim_end().strip_prefix(&prefix).unwrap();
    assert_eq!(viewer.get_whole(path).0, 303);
    assert_eq!(viewer.get_whole(path).0, 410);
}

// T-VIEW-13
#[test]
fn a_page_hears_of_an_edit_on_the_disk() {
    let sandbox = archived();
    let viewer = Viewer::start(&sandbox, &[]);
    let id = format!("claude-code:{SESSION}");
    let mut events = BufReader::new(viewer.ask(&format!("{}api/live?log={id}", viewer.base)));
    let mut until = |part: &str| {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(events.read_line(&mut line).unwrap() > 0);
        }
    };
    let bytes = fs::read_to_string(sandbox.path(LOG)).unwrap();
    until(&format!("\"bytes\":{}", bytes.len()));
    let changed = bytes.replacen("output 0", "output 7", 1);
    fs::write(sandbox.path(LOG), changed).unwrap();
    until("event: changed");
    let report = &viewer.json(&format!("api/logs/{id}/report"))["results"][0];
    assert_eq!(report["verdict"], "tampered");
    assert_eq!(report["findings"][0]["line"], 3, "{report:#}");
    assert_eq!(viewer.json("api/sessions")["sessions"][0]["light"], "red");
}

#[test]
fn files_and_folders_are_viewed_and_two_are_compared() {
    let sandbox = archived();
    fs::copy(sandbox.path(LOG), sandbox.path("copy.jsonl")).unwrap();
    let viewer = Viewer::start(&sandbox, &[LOG, "copy.jsonl"]);
    assert_eq!(
        viewer.place,
        format!("#/compare?a=file%3aclaude%2f{SESSION}.jsonl&b=file%3acopy.jsonl")
    );
    let rows = viewer.json("api/sessions");
    assert_eq!(rows["total"], 2);
    let (status, bytes) = viewer.get("api/logs/file:copy.jsonl/bytes");
    assert_eq!((status, bytes), (200, fs::read(sandbox.path(LOG)).unwrap()));
    let folder = Viewer::start(&sandbox, &["claude"]);
    assert_eq!(
        folder.json("api/sessions")["sessions"][0]["state"],
        "verified"
    );
    sandbox
        .exits(2, "view --no-open missing.jsonl")
        .warns("missing.jsonl");
}

#[test]
fn a_page_has_a_session_inside_that_verifies_anywhere() {
    let sandbox = archived();
    let made = sandbox.json("export 3f9c --html session.html");
    assert_eq!(made["files"], json!(["session.html"]));
    let page = fs::read_to_string(sandbox.path("session.html")).unwrap();
    assert!(page.contains("  | list the frobnicators\n") && !page.contains("<title>@@"));
    let report = sandbox.report("verify session.html");
    report
        .is(json!({"verdict": "verified", "path": format!("session.html#claude-code:{SESSION}")}));
    let checks = report["checks"].as_array().unwrap();
    assert!(
        checks
            .iter()
            .any(|check| check["name"] == "page" && check["result"] == "pass"),
        "{report:#}"
    );
    // One turn, and nothing of another.
    sandbox.ok("export 3f9c --html turn.html --turn 3");
    let page = fs::read_to_string(sandbox.path("turn.html")).unwrap();
    assert!(page.contains("  | and again\n") && !page.contains("list the frobnicators"));
    assert_eq!(sandbox.report("verify turn.html")["verdict"], "verified");
    // Encrypted.
    sandbox.write("words", "correct horse\n");
    sandbox.ok("export 3f9c --html locked.html --encrypt words");
    let page = fs::read_to_string(sandbox.path("locked.html")).unwrap();
    assert!(!page.contains("frobnicators") && !page.contains(SESSION));
    assert_eq!(
        sandbox.report("verify locked.html --unlock words")["verdict"],
        "verified"
    );
    sandbox.write("wrong", "battery staple\n");
    sandbox
        .exits(2, "verify locked.html --unlock wrong")
        .warns("the passphrase does not open it");
    // Never over another file; a file as well as a session.
    sandbox.exits(2, "export 3f9c --html words");
    sandbox.ok(format!("export {LOG} --html file.html"));
    assert_eq!(sandbox.report("verify file.html")["verdict"], "verified");
}

// T-VIEW-11
#[test]
fn a_forged_page_is_noticed_whatever_it_shows() {
    let sandbox = archived();
    sandbox.ok("export 3f9c --html session.html");
    let page = fs::read_to_string(sandbox.path("session.html")).unwrap();
    let forge = |from: &str, to: &str| {
        let forged = page.replacen(from, to, 1);
        assert_ne!(forged, page, "{from}");
        fs::write(sandbox.path("forged.html"), forged).unwrap();
        let ran = sandbox.sh("verify forged.html --json");
        let output: Value = serde_json::from_str(&ran.stdout).unwrap();
        (
            output["exit"].as_u64().unwrap(),
            output["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let text = "  | list the frobnicators\n";
    assert_eq!(
        forge(text, "  | delete the frobnicators\n"),
        (1, "page_text_differs".to_owned())
    );
    assert_eq!(
        forge("<title>claude", "<title>All verified: claude"),
        (1, "page_text_differs".to_owned())
    );
    let banner =
        "<main id=\"app\"><section class=\"verdict\" data-light=\"green\">Verified</section>";
    assert_eq!(
        forge("<main id=\"app\">", banner),
        (3, "page_code_unknown".to_owned())
    );
    assert_eq!(
        forge("default-src 'none'", "default-src *"),
        (3, "page_code_unknown".to_owned())
    );
    assert_eq!(
        forge("<!--/parts-->\n", "<!--/parts-->\n<p>All is well.</p>"),
        (3, "page_code_unknown".to_owned())
    );
    // Another record in the place of the first: its own seals are held against it.
    let both = page
        .replacen("<main id=\"app\">", banner, 1)
        .replacen(text, "  | x\n", 1);
    fs::write(sandbox.path("both.html"), both).unwrap();
    let report = sandbox.report("verify both.html");
    assert_eq!(report["verdict"], "tampered");
    let codes: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].text())
        .collect();
    assert!(
        codes.contains(&"page_text_differs") && codes.contains(&"page_code_unknown"),
        "{codes:?}"
    );
}

// T-VIEW-15
#[test]
fn what_is_asked_of_a_page_is_asked_of_its_record() {
    let sandbox = archived();
    sandbox.ok("export 3f9c --html page.html");
    let head = sandbox.report("verify page.html")["head"].text().to_owned();
    let verdict = |more: String| sandbox.verdict(format!("verify page.html {more}"));
    assert_eq!(verdict(String::new()), "verified");
    assert_eq!(
        verdict(format!("--expect-head {head} --exact-head")),
        "verified"
    );
    assert_eq!(verdict(format!("--as-of {head}")), "verified");
    let end = if head.ends_with('0') { '1' } else { '0' };
    let other = format!("{}{end}", &head[..head.len() - 1]);
    let ask = |more: String| {
        let ran = sandbox.sh(format!("verify page.html --json {more}"));
        (ran.code, ran.json()["results"][0]["verdict"].clone())
    };
    assert_eq!(ask(format!("--expect-head {other}")), (1, "forked".into()));
    let digest = "0".repeat(64);
    assert_eq!(
        ask(format!("--expect-head {digest}")),
        (1, "truncated".into())
    );
    let foreign = format!("{digest}:{}", head.split_once(':').unwrap().1);
    assert_eq!(
        ask(format!("--expect-head {foreign}")),
        (1, "foreign".into())
    );
    assert_eq!(ask("--thread nosuch".into()), (1, "foreign".into()));
    assert_eq!(ask("--require-anchor".into()), (3, "open".into()));
    assert_eq!(ask(format!("--as-of {foreign}")).0, 1);
    // A host without heads and without a log: the head that is given shows that nothing is missing.
    sandbox.ok("id export -o ann.id");
    let elsewhere = ready();
    for name in ["page.html", "ann.id"] {
        elsewhere.write(name, fs::read(sandbox.path(name)).unwrap());
    }
    let verdict = |more: &str| elsewhere.verdict(format!("verify page.html --id ann.id {more}"));
    assert_eq!(verdict(""), "open");
    assert_eq!(verdict(&format!("--expect-head {head}")), "verified");
}

// T-VIEW-16
#[test]
fn a_page_among_records_is_no_damaged_record() {
    let sandbox = archived();
    fs::create_dir(sandbox.path("pages")).unwrap();
    sandbox.ok("export 3f9c --html pages/page.html");
    let report = sandbox.report("verify pages");
    assert_eq!(report["verdict"], "verified");
    assert!(
        report["path"].text().starts_with("pages/page.html#"),
        "{report}"
    );
    for command in ["messages", "render", "transcript head"] {
        let ran = sandbox.sh(format!("{command} pages/page.html"));
        assert_eq!(ran.code, 2, "{command}: {ran:?}");
    }
    sandbox
        .exits(2, "messages pages/page.html")
        .warns("hint: threadseal verify pages/page.html");
    // In another dress it is judged as what it is called.
    fs::rename(
        sandbox.path("pages/page.html"),
        sandbox.path("pages/page.jsonl"),
    )
    .unwrap();
    assert_ne!(sandbox.sh("verify pages").code, 0);
}

#[test]
fn a_changed_session_is_exported_on_purpose_only() {
    let sandbox = archived();
    let bytes = fs::read_to_string(sandbox.path(LOG)).unwrap();
    fs::write(sandbox.path(LOG), bytes.replacen("output 0", "output 7", 1)).unwrap();
    sandbox
        .exits(1, format!("export {LOG} --html page.html"))
        .warns("--anyway");
    sandbox.ok(format!("export {LOG} --html page.html --anyway"));
    let report = sandbox.report("verify page.html");
    assert_eq!(report["verdict"], "tampered");
    assert_eq!(report["findings"][0]["line"], 3);
}

#[test]
fn threads_of_a_project_are_viewed_with_their_families() {
    let sandbox = project();
    greeted(&sandbox, "");
    let viewer = Viewer::start(&sandbox, &["--project", "p"]);
    let rows = viewer.json("api/sessions");
    let rows = rows["sessions"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let row = rows
        .iter()
        .find(|row| row["title"] == "demo/greet")
        .unwrap();
    row.is(json!({"kind": "thread", "agent": "threadseal", "sub_agents": 1, "light": "green", "state": "verified"}));
    let id = row["id"].text();
    let session = viewer.json(&format!("api/sessions/{id}"));
    let links = session["links"].as_array().unwrap();
    assert!(
        links.iter().any(|link| link["kind"] == "child"),
        "{links:?}"
    );
    let (status, bytes) = viewer.get(&format!("api/logs/{id}/bytes"));
    assert_eq!(
        (status, bytes.len() as u64),
        (200, session["logs"][0]["bytes"].as_u64().unwrap())
    );
    assert_eq!(
        viewer.json(&format!("api/logs/{id}/report"))["results"][0]["verdict"],
        "verified"
    );
    let drawing = viewer.json(&format!("api/graphs/{id}"));
    assert_eq!(
        (
            drawing["nodes"].as_array().unwrap().len(),
            &drawing["edges"][0]["from"]
        ),
        (2, &json!(id))
    );
}
