// The hook as pre-commit itself runs it, in repositories of its own.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const { THREADSEAL: command, PRE_COMMIT: precommit } = process.env;

/** A repository with the hook of this one, a sealed record and a sealed log in its first commit. */
function repository(t, args = []) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "threadseal-hook-"));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const env = {
    ...process.env, HOME: folder, THREADSEAL_HOME: path.join(folder, "home"), PRE_COMMIT_HOME: path.join(folder, "cache"),
    GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a@localhost", GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a@localhost",
  };
  const at = (cwd) => (program, ...words) => execFileSync(program, words, { cwd, env, encoding: "utf8" });
  const hooks = path.join(folder, "hooks");
  const repo = path.join(folder, "repo");
  fs.mkdirSync(path.join(hooks, "integrations/pre-commit"), { recursive: true });
  fs.mkdirSync(repo);
  for (const name of [".pre-commit-hooks.yaml", "integrations/pre-commit/verify.sh"]) fs.copyFileSync(path.join(root, name), path.join(hooks, name));
  const [inHooks, run] = [at(hooks), at(repo)];
  inHooks("git", "init", "-q");
  inHooks("git", "add", "-A");
  inHooks("git", "commit", "-q", "-m", "hooks");
  const rev = inHooks("git", "rev-parse", "HEAD").trim();
  const file = (name) => path.join(repo, name);
  fs.writeFileSync(file(".pre-commit-config.yaml"), JSON.stringify({ repos: [{ repo: hooks, rev, hooks: [{ id: "threadseal-verify", args }] }] }));
  run("git", "init", "-q", "-b", "main");
  run(command, "init", "-q");
  const record = (input, ...words) => execFileSync(command, ["record", "-q", ...words], { cwd: repo, env, input });
  record('{"type":"note","payload":{"text":"pay 10"}}\n', "--thread", "shop/1", "--on-eof", "suspend");
  fs.writeFileSync(file("agent.jsonl"), '{"n":1}\n{"n":2}\n');
  run(command, "seal", "-q", "agent.jsonl");
  fs.writeFileSync(file("data.jsonl"), '{"a":1}\n');
  run(precommit, "install");
  const commit = () => {
    run("git", "add", "-A");
    return spawnSync("git", ["commit", "-m", "next"], { cwd: repo, env, encoding: "utf8" });
  };
  return { repo, env, run, record, file, commit };
}

const swap = (file, from, to) => fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(from, to));

test("sealed records and logs are committed, and logs that nothing seals", (t) => {
  const made = repository(t, ["--accept", "open"]);
  const first = made.commit();
  assert.equal(first.status, 0, first.stderr);
  assert.match(first.stderr + first.stdout, /verify sealed records\.+Passed/);
  made.record('{"type":"note","payload":{}}\n', "--thread", "shop/2", "--resume", "shop-1.jsonl", "--on-eof", "complete");
  fs.appendFileSync(made.file("agent.jsonl"), '{"n":3}\n');
  made.run(command, "seal", "-q", "agent.jsonl");
  swap(made.file("data.jsonl"), "1", "2");
  const second = made.commit();
  assert.equal(second.status, 0, second.stderr);
});

const ATTACKS = {
  "a change": [(made) => swap(made.file("shop-1.jsonl"), "pay 10", "pay 90"), /tampered {2}shop-1\.jsonl/],
  "a log that was cut": [(made) => swap(made.file("agent.jsonl"), '{"n":2}\n', ""), /(tampered|truncated|rolled_back) {2}agent\.jsonl/],
  "a seal that was changed": [(made) => swap(made.file("agent.jsonl.seal"), '"lines":2', '"lines":1'), /agent\.jsonl/],
  "a tail without a seal": [(made) => fs.appendFileSync(made.file("agent.jsonl"), '{"n":9}\n'), /unsigned_tail {2}agent\.jsonl/],
};
for (const [name, [attack, expected]] of Object.entries(ATTACKS)) {
  test(`a commit is refused for ${name}`, (t) => {
    const made = repository(t, ["--accept", "open"]);
    assert.equal(made.commit().status, 0);
    attack(made);
    const { status, stderr, stdout } = made.commit();
    assert.equal(status, 1);
    assert.match(stderr + stdout, expected);
    assert.equal(made.run("git", "log", "--oneline").trim().split("\n").length, 1);
  });
}

test("a commit is refused for seals that are gone, in a home that never had them", (t) => {
  const made = repository(t, ["--accept", "open"]);
  assert.equal(made.commit().status, 0);
  made.env.THREADSEAL_HOME = path.join(made.repo, "../another-home");
  made.run(command, "init", "-q");
  fs.rmSync(made.file("agent.jsonl.seal"));
  swap(made.file("agent.jsonl"), '"n":2', '"n":3');
  const { status, stderr, stdout } = made.commit();
  assert.equal(status, 1);
  assert.match(stderr + stdout, /the last commit has its seals/);
});

const REPLACED = {
  "a plain log": '{"role":"user","text":"pay 99"}\n',
  "nothing": "",
  "a text": "hello\n",
};
for (const [name, content] of Object.entries(REPLACED)) {
  for (const home of ["its own", "another"]) {
    test(`a commit is refused for ${name} in the place of a sealed record, in ${home} home`, (t) => {
      const made = repository(t, ["--accept", "open"]);
      assert.equal(made.commit().status, 0);
      if (home === "another") {
        made.env.THREADSEAL_HOME = path.join(made.repo, "../another-home");
        made.run(command, "init", "-q");
      }
      fs.writeFileSync(made.file("shop-1.jsonl"), content);
      const { status, stderr, stdout } = made.commit();
      assert.equal(status, 1);
      assert.match(stderr + stdout, /shop-1\.jsonl/);
      assert.equal(made.run("git", "log", "--oneline").trim().split("\n").length, 1);
      // The way out.
      made.run("git", "checkout", "HEAD", "--", "shop-1.jsonl");
      fs.writeFileSync(made.file("another.jsonl"), '{"a":1}\n');
      made.env.THREADSEAL_HOME = path.join(made.repo, "../home");
      const next = made.commit();
      assert.equal(next.status, 0, next.stderr);
    });
  }
}

test("an option without its verdict is named", (t) => {
  const made = repository(t);
  for (const words of [["--accept"], ["--accept", "shop-1.jsonl"]]) {
    const result = spawnSync("bash", [path.join(root, "integrations/pre-commit/verify.sh"), ...words], { cwd: made.repo, env: made.env, encoding: "utf8" });
    assert.equal(result.status, 2);
    assert.equal(result.stderr, "cannot verify: --accept needs a verdict; hint: --accept open\n");
  }
});

test("a commit is refused for seals that were not added to it", (t) => {
  const made = repository(t, ["--accept", "open"]);
  made.run("git", "add", "agent.jsonl", ".pre-commit-config.yaml");
  const result = spawnSync("git", ["commit", "-m", "log alone"], { cwd: made.repo, env: made.env, encoding: "utf8" });
  assert.equal(result.status, 1);
  assert.match(result.stderr + result.stdout, /agent\.jsonl\.seal is not in the commit; hint: git add/);
});
