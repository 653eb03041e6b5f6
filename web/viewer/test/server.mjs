// A server for tests: it speaks the interface of `threadseal view` over logs in a folder, or over sessions made up.

import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createReadStream, existsSync, readFileSync, statSync, watch } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
export const DIST = join(here, "../dist");

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };
/** As the command sends it. */
export const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; worker-src 'self'; font-src 'self'; manifest-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * `sessions`: [{ row, logs: [{ log, path | bytes, seals?, bodies?, head?, parent? }], links?, secrets? }], the newest first;
 * `trust`: the keys; `report(log)`: the command's report. `verify`: serves the verification page instead.
 */
export async function serve({ sessions = [], trust = { keys: [], store: null }, report = () => null, drawings = {}, verify = false, delay = 0 } = {}) {
  const token = randomBytes(12).toString("hex");
  const base = `/${token}/`;
  /** Streams, each with the logs that it follows; null: all. */
  const live = new Map();
  const begun = [];
  const requests = [];
  const logs = new Map(sessions.flatMap((session) => session.logs.map((log) => [log.log, log])));
  const read = (log) => log.bytes ?? readFileSync(log.path);
  const fileOf = (path) => (existsSync(path) ? readFileSync(path) : null);
  const besideOf = { seals: (log) => log.seals ?? (log.path === undefined ? null : fileOf(`${log.path}.seal`)), bodies: (log) => log.bodies ?? (log.path === undefined ? null : fileOf(log.path.replace(/(\.jsonl)?$/, ".bodies"))) };
  const sizes = (log) => ({ bytes: log.bytes?.length ?? statSync(log.path).size, seals: besideOf.seals(log)?.length ?? 0, bodies: besideOf.bodies(log)?.length ?? 0 });
  const change = (session, log) => {
    const { bytes, seals } = sizes(log);
    const stamp = log.bytes === undefined ? tagOfFile(log.path) : tagOfBytes(log.bytes);
    const beside = [besideOf.seals(log), besideOf.bodies(log)].map((one) => (one === null ? "-" : tagOfBytes(one))).join(" ");
    return `event: changed\ndata: ${JSON.stringify({ id: session.row.id, log: log.log, bytes, seals, stamp, beside })}\n\n`;
  };

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://127.0.0.1");
    requests.push(url.pathname);
    const headers = { "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store", "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin" };
    const send = (status, type, body, more = {}) => {
      response.writeHead(status, { ...headers, "content-type": type, "content-length": Buffer.byteLength(body), ...more });
      response.end(body);
    };
    const json = (value) => send(200, TYPES[".json"], JSON.stringify(value));
    if (!url.pathname.startsWith(base)) return send(404, "text/plain", "no such page");
    const path = url.pathname.slice(base.length);
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    if (!path.startsWith("api/")) {
      const name = path === "" ? "index.html" : path;
      const file = join(DIST, verify ? "verify" : "assets", name);
      const isPacked = existsSync(`${file}.gz`);
      if (name.includes("..") || !(isPacked || existsSync(file))) return send(404, "text/plain", "no such page");
      let body = readFileSync(isPacked ? `${file}.gz` : file);
      if (name === "index.html") body = Buffer.from(body.toString().replace("@@BOOT@@", JSON.stringify({ mode: "serve", base })));
      return send(200, TYPES[extname(name)] ?? "application/octet-stream", body, isPacked ? { "content-encoding": "gzip" } : {});
    }
    const parts = path.slice(4).split("/").map(decodeURIComponent);
    switch (parts[0]) {
      case "sessions": {
        if (parts.length === 1) {
          const [skip, limit] = [Number(url.searchParams.get("skip") ?? 0), Number(url.searchParams.get("limit") ?? 5000)];
          return json({ schema: "threadseal.view.sessions/1", total: sessions.length, sessions: sessions.slice(skip, skip + limit).map((one) => one.row) });
        }
        const session = sessions.find((one) => one.row.id === parts.slice(1).join("/"));
        if (session === undefined) return send(404, "text/plain", "no such session");
        return json({
          ...session.row, schema: "threadseal.view.session/1", links: session.links ?? [], secrets: session.secrets ?? 0,
          logs: session.logs.map((log) => ({ log: log.log, parent: log.parent ?? null, path: log.path ?? null, ...sizes(log), head: log.head ?? null, format: null, state: session.row.state, state_text: session.row.state_text, light: session.row.light })),
        });
      }
      case "logs": {
        // A log's name is all between, whether its slashes are spelled as such or not.
        const what = parts.at(-1);
        const log = logs.get(parts.slice(1, -1).join("/"));
        if (log === undefined) return send(404, "text/plain", "no such log");
        if (what === "report") {
          const found = report(log.log);
          return found === null ? send(404, "text/plain", "no report") : json(found);
        }
        if (what === "bytes" && log.path !== undefined) return sendFile(request, response, headers, log.path);
        const body = what === "bytes" ? read(log) : besideOf[what]?.(log) ?? null;
        return body === null ? send(404, "text/plain", `no ${what}`) : sendRange(request, response, headers, body);
      }
      case "trust":
        return json({ schema: "threadseal.view.trust/1", ...trust });
      case "search": {
        const query = (url.searchParams.get("q") ?? "").toLowerCase();
        const hits = [];
        for (const session of sessions.slice(0, 200)) {
          for (const log of session.logs) {
            read(log).toString().split("\n").forEach((line, at) => {
              const found = line.toLowerCase().indexOf(query);
              if (found >= 0 && hits.length < 20) hits.push({ id: session.row.id, log: log.log, turn: at, role: session.hitRole ?? "assistant", time: session.row.updated, snippet: line.slice(Math.max(0, found - 40), found + 60) });
            });
          }
        }
        return json({ schema: "threadseal.view.search/1", hits, more: false });
      }
      case "live": {
        response.writeHead(200, { ...headers, "content-type": "text/event-stream" });
        const followed = url.searchParams.getAll("log");
        response.write(": hello\n\n");
        for (const session of sessions) for (const log of session.logs) if (followed.includes(log.log)) response.write(change(session, log));
        live.set(response, followed.length === 0 ? null : followed);
        begun.push(live.get(response));
        request.on("close", () => live.delete(response));
        return undefined;
      }
      case "graphs":
      case "lineages": {
        const drawing = drawings[parts.slice(1).join("/")];
        return drawing === undefined ? send(404, "text/plain", "no such drawing") : json(drawing);
      }
      default:
        return send(404, "text/plain", "no such page");
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}${base}`;
  return {
    address, requests,
    /** Reports that a log changed, or is gone. */
    changed(name, isGone = false) {
      const session = sessions.find((one) => one.logs.some((log) => log.log === name));
      const log = session.logs.find((one) => one.log === name);
      const event = isGone ? `event: gone\ndata: ${JSON.stringify({ id: session.row.id, log: name })}\n\n` : change(session, log);
      for (const [stream, followed] of live) if (followed === null || followed.includes(name)) stream.write(event);
    },
    /** How often a page began to follow this log; null: all. */
    follows: (name) => begun.filter((logs) => (name === null ? logs === null : logs?.includes(name))).length,
    /** Waits until it was more often than this. */
    async followed(name, before) {
      while (this.follows(name) <= before) await new Promise((resolve) => setTimeout(resolve, 20));
    },
    /** A new session: the newest. */
    add(session) {
      sessions.unshift(session);
      for (const log of session.logs) logs.set(log.log, log);
      this.changed(session.logs[0].log);
    },
    close() {
      for (const stream of live.keys()) stream.end();
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Where a range begins, ends, and whether it can be given. */
function rangeOf(request, size) {
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  if (range === null) return { from: 0, to: size - 1, status: 200 };
  const from = Number(range[1]);
  const to = range[2] === "" ? size - 1 : Math.min(Number(range[2]), size - 1);
  return { from, to, status: from >= size ? 416 : 206 };
}

/** Another text for other bytes. */
function tagOfBytes(bytes) {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 16);
}

function tagOfFile(path) {
  const { size, mtimeMs } = statSync(path);
  return `${size}-${mtimeMs}`;
}

function head(response, headers, size, etag, { from, to, status }) {
  const range = status === 206 ? { "content-range": `bytes ${from}-${to}/${size}` } : status === 416 ? { "content-range": `bytes */${size}` } : {};
  response.writeHead(status, { ...headers, "content-type": "application/octet-stream", "accept-ranges": "bytes", etag, ...range, "content-length": status === 416 ? 0 : to - from + 1 });
}

function sendFile(request, response, headers, path) {
  const { size } = statSync(path);
  const range = rangeOf(request, size);
  head(response, headers, size, `"${tagOfFile(path)}"`, range);
  if (range.status === 416 || size === 0) return response.end();
  return createReadStream(path, { start: range.from, end: range.to, highWaterMark: 1 << 18 }).pipe(response);
}

function sendRange(request, response, headers, body) {
  const range = rangeOf(request, body.length);
  head(response, headers, body.length, `"${tagOfBytes(body)}"`, range);
  return response.end(range.status === 416 ? "" : body.subarray(range.from, range.to + 1));
}

export function watchLog(server, log, path) {
  let tag = tagOfFile(path);
  return watch(path, () => {
    const now = tagOfFile(path);
    if (now === tag) return;
    tag = now;
    server.changed(log);
  });
}
