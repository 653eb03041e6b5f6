// The script of the action on repositories of its own, with a made event and a server on loopback for the comment.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const command = process.env.THREADSEAL;

/** A repository with a sealed record, a sealed log and a source file at its base. */
function repository(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "threadseal-action-"));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const repo = path.join(folder, "repo");
  fs.mkdirSync(repo);
  const env = {
    ...process.env, HOME: folder, THREADSEAL_HOME: path.join(folder, "home"), GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a@localhost", GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a@localhost",
  };
  const run = (program, ...args) => execFileSync(program, args, { cwd: repo, env, encoding: "utf8" });
  const record = (input, ...args) => execFileSync(command, ["record", "-q", ...args], { cwd: repo, env, input });
  const file = (name) => path.join(repo, name);
  const commit = (words) => {
    run("git", "add", "-A");
    run("git", "commit", "-q", "-m", words);
    return run("git", "rev-parse", "HEAD").trim();
  };
  run("git", "init", "-q", "-b", "main");
  run(command, "init", "-q");
  run(command, "id", "export", "--name", "me", "-o", "me.id");
  record('{"type":"note","payload":{"text":"pay 10"}}\n', "--thread", "shop/1", "--on-eof", "suspend");
  fs.writeFileSync(file("agent.jsonl"), '{"n":1}\n{"n":2}\n');
  run(command, "seal", "-q", "agent.jsonl");
  fs.writeFileSync(file("main.py"), "print(1)\n");
  fs.writeFileSync(file("data.jsonl"), '{"a":1}\n');
  return { folder, repo, env, run, record, file, commit, base: commit("base") };
}

/** GitHub's comments on loopback. */
async function github(t, { status = 200, comments = [] } = {}) {
  const asked = [];
  const server = http.createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    asked.push({ method: request.method, url: request.url, token: request.headers.authorization, body: text === "" ? null : JSON.parse(text).body });
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(request.method === "GET" ? comments : {}));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { asked, url: `http://127.0.0.1:${server.address().port}` };
}

/** Runs the script for a request of `head` to `base`. */
async function act({ repo, env, folder, base }, head, url, more = {}) {
  const event = path.join(folder, "event.json");
  const summary = path.join(folder, "summary.md");
  fs.writeFileSync(event, JSON.stringify({ pull_request: { number: 7, base: { sha: base }, head: { sha: head } } }));
  fs.writeFileSync(summary, "");
  const child = spawn(process.execPath, [path.join(here, "verify.mjs")], {
    cwd: repo, stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...env, GITHUB_EVENT_PATH: event, GITHUB_STEP_SUMMARY: summary, GITHUB_API_URL: url, GITHUB_REPOSITORY: "o/r",
      THREADSEAL_TRUST: "me.id", THREADSEAL_COMMENT: "true", THREADSEAL_TOKEN: "t", ...more,
    },
  });
  let printed = "";
  child.stdout.on("data", (part) => { printed += part; });
  const [exit] = await once(child, "close");
  return { exit, printed, summary: fs.readFileSync(summary, "utf8") };
}

const swap = (file, from, to) => fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(from, to));

test("records that were added or grew verify, and the comment lists them", async (t) => {
  const made = repository(t);
  made.record('{"type":"note","payload":{"text":"more"}}\n', "--thread", "shop/2", "--resume", "shop-1.jsonl", "--on-eof", "complete");
  fs.appendFileSync(made.file("agent.jsonl"), '{"n":3}\n');
  made.run(command, "seal", "-q", "agent.jsonl");
  swap(made.file("main.py"), "1", "2");
  const { asked, url } = await github(t);
  const { exit, printed, summary } = await act(made, made.commit("grow"), url, { THREADSEAL_ACCEPT: "open" });
  assert.equal(exit, 0, printed);
  assert.deepEqual(printed.trim().split("\n").map((line) => line.split("  ")[2]), ['"agent.jsonl"', '"shop-1.jsonl"', '"shop-2.jsonl"']);
  assert.deepEqual(asked.map(({ method, url: place }) => `${method} ${place}`), ["GET /repos/o/r/issues/7/comments?per_page=100&page=1", "POST /repos/o/r/issues/7/comments"]);
  assert.match(asked[1].body, /3 records verified/);
  assert.equal(asked[1].token, "Bearer t");
  assert.match(summary, /shop&#45;2&#46;jsonl/);
});

const ATTACKS = {
  "a change": [(made) => swap(made.file("shop-1.jsonl"), "pay 10", "pay 90"), /NOT OK {2}tampered {2}"shop-1.jsonl"/],
  "a log that was cut": [(made) => swap(made.file("agent.jsonl"), '{"n":2}\n', ""), /NOT OK {2}\w+ {2}"agent.jsonl"/],
  "a record that was removed": [(made) => fs.rmSync(made.file("shop-1.jsonl")), /NOT OK {2}missing {2}"shop-1.jsonl"/],
  "seals that were removed": [(made) => fs.rmSync(made.file("agent.jsonl.seal")), /NOT OK {2}tampered {2}"agent.jsonl" {2}"its seals are gone"/],
  "a record in the place of another": [(made) => {
    made.record('{"type":"note","payload":{}}\n', "--thread", "shop/9", "--on-eof", "complete");
    fs.renameSync(made.file("shop-9.jsonl"), made.file("shop-1.jsonl"));
  }, /NOT OK {2}\w+ {2}"shop-1.jsonl".*\[record_differs\]/],
  "a record of a stranger, whose key the request brings": [(made) => {
    const home = path.join(made.folder, "stranger");
    made.run(command, "--home", home, "init", "-q");
    fs.rmSync(made.file("me.id"));
    made.run(command, "--home", home, "id", "export", "--name", "me", "-o", "me.id");
    made.record('{"type":"note","payload":{}}\n', "--home", home, "--thread", "forged/1", "--on-eof", "complete");
  }, /NOT OK {2}unknown_signer {2}"forged-1.jsonl"/],
};
for (const [name, [attack, expected]] of Object.entries(ATTACKS)) {
  test(`the request fails for ${name}`, async (t) => {
    const made = repository(t);
    attack(made);
    const { asked, url } = await github(t);
    const { exit, printed } = await act(made, made.commit("attack"), url);
    assert.equal(exit, 1, printed);
    assert.match(printed, expected);
    assert.match(asked.at(-1).body, /did not verify/);
  });
}

test("names of files are no commands of the runner, no links, and no long report", async (t) => {
  const made = repository(t);
  const odd = ["##[stop-commands]x.jsonl", "n\n::set-output name=a::b.jsonl", "::add-mask::x.jsonl", "www.evil.example.jsonl", "a\u202eb.jsonl"];
  for (const name of odd) fs.copyFileSync(made.file("shop-1.jsonl"), made.file(name));
  for (let number = 0; number < 120; number += 1) fs.copyFileSync(made.file("shop-1.jsonl"), made.file(`${"(".repeat(200)}${number}.jsonl`));
  const { asked, url } = await github(t);
  const { exit, printed, summary } = await act(made, made.commit("names"), url, { THREADSEAL_ACCEPT: "open" });
  assert.equal(exit, 0, printed);
  const lines = printed.trim().split("\n");
  assert.equal(lines.length, 125);
  for (const line of lines) {
    assert.match(line, /^ok {2}(verified|open) {2}"/);
    assert.doesNotMatch(line, /##\[|::|\u202e/);
    assert.ok(fs.existsSync(made.file(JSON.parse(line.slice(line.indexOf('"')).trim()))), line);
  }
  for (const text of [summary, asked.at(-1).body]) {
    assert.ok(text.length < 60_000, String(text.length));
    assert.match(text, /\d+ more are in the log of the job\./);
    assert.doesNotMatch(text, /www\.|##\[|\u202e/);
  }
});

test("a branch of an earlier time does not bring trust that was withdrawn since", async (t) => {
  const made = repository(t);
  made.run("git", "checkout", "-q", "-b", "branch");
  fs.copyFileSync(made.file("shop-1.jsonl"), made.file("copy.jsonl"));
  const head = made.commit("copy");
  made.run("git", "checkout", "-q", "main");
  made.run(command, "--home", path.join(made.folder, "next"), "init", "-q");
  fs.rmSync(made.file("me.id"));
  made.run(command, "--home", path.join(made.folder, "next"), "id", "export", "--name", "me", "-o", "me.id");
  const tip = made.commit("another key");
  const { url } = await github(t);
  assert.equal((await act(made, head, url)).exit, 0);
  const { exit, printed } = await act({ ...made, base: tip }, head, url);
  assert.deepEqual([exit, printed.trim().split("  ")[1]], [1, "unknown_signer"]);
});

test("a name in a report is text, and never markup", async (t) => {
  const made = repository(t);
  const name = "x | @team <img src=x> [a](http:b) `c`\n.jsonl";
  fs.copyFileSync(made.file("shop-1.jsonl"), made.file(name));
  const { asked, url } = await github(t);
  const { exit } = await act(made, made.commit("name"), url);
  assert.equal(exit, 0);
  const row = asked.at(-1).body.split("\n").find((line) => line.includes("jsonl"));
  assert.equal(row.split("|").length, 6);
  assert.doesNotMatch(row, /[@<>[\]`]/);
});

test("an earlier comment is written anew, and a comment that is refused changes no verdict", async (t) => {
  const made = repository(t);
  fs.copyFileSync(made.file("shop-1.jsonl"), made.file("copy.jsonl"));
  const head = made.commit("copy");
  const mine = { id: 5, body: "<!-- threadseal-report -->", user: { type: "Bot" } };
  const first = await github(t, { comments: [{ id: 4, body: mine.body, user: { type: "User" } }, mine] });
  assert.equal((await act(made, head, first.url)).exit, 0);
  assert.deepEqual(first.asked.map(({ method, url }) => [method, url.split("?")[0]]), [["GET", "/repos/o/r/issues/7/comments"], ["PATCH", "/repos/o/r/issues/comments/5"]]);
  const refused = await github(t, { status: 403 });
  const { exit, printed } = await act(made, head, refused.url);
  assert.equal(exit, 0);
  assert.match(printed, /::warning::the comment was not written/);
});

test("a request without records is quiet, and what is missing is an error with the next step", async (t) => {
  const made = repository(t);
  swap(made.file("main.py"), "1", "2");
  swap(made.file("data.jsonl"), "1", "2");
  const head = made.commit("source");
  const { asked, url } = await github(t);
  assert.equal((await act(made, head, url)).exit, 0);
  assert.deepEqual(asked.map(({ method }) => method), ["GET"]);
  for (const [more, text] of [
    [{ THREADSEAL_TRUST: "gone.id" }, /::error::the base has no file gone.id with trust; hint: /],
    [{ GITHUB_EVENT_PATH: path.join(made.repo, "data.jsonl") }, /::error::the event is no pull request; hint: /],
  ]) {
    const { exit, printed } = await act(made, head, url, more);
    assert.equal(exit, 2);
    assert.match(printed, text);
  }
  const { exit, printed } = await act({ ...made, base: "0".repeat(40) }, head, url);
  assert.equal(exit, 2);
  assert.match(printed, /fetch-depth: 0/);
});

test("the action installs the package without scripts, and gives inputs as variables alone", () => {
  const text = fs.readFileSync(path.join(here, "action.yml"), "utf8");
  const runs = text.split("\n").filter((line) => line.trim().startsWith("run:"));
  assert.equal(runs.length, 2);
  assert.ok(runs.every((line) => !line.includes("${{")));
  assert.match(runs[0], /--ignore-scripts/);
  const given = [...text.matchAll(/^ +(THREADSEAL_\w+):/gm)].map(([, name]) => name);
  const read = [...fs.readFileSync(path.join(here, "verify.mjs"), "utf8").matchAll(/settings\.(THREADSEAL_\w+)/g)].map(([, name]) => name);
  assert.deepEqual(new Set([...given, "THREADSEAL_PACKAGE"]), new Set(read));
});
