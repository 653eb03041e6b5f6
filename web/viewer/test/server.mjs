// A server for tests: it speaks the interface of `threadseal view` over logs in a folder, or over sessions made up.

import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createReadStream, existsSync, readFileSync, statSync, watch } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
export const DIST = join(here, "../dist");

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };
export const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src blob: data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * `sessions`: [{ row, logs: [{ log, path | bytes, seals?, parent? }], links? }]; `trust`: the keys; `report(log)`: the
 * command's report. `verify`: serves the verification page instead.
 */
export async function serve({ sessions = [], trust = { keys: [], store: null }, report = () => null, drawings = {}, verify = false, delay = 0 } = {}) {
  const token = randomBytes(12).toString("hex");
  const base = `/${token}/`;
  const live = new Set();
  const requests = [];
  const logs = new Map(sessions.flatMap((session) => session.logs.map((log) => [log.log, log])));
  const read = (log) => log.bytes ?? readFileSync(log.path);
  const seals = (log) => log.seals ?? (log.path !== undefined && existsSync(`${log.path}.seal`) ? readFileSync(`${log.path}.seal`) : null);

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://127.0.0.1");
    requests.push(url.pathname);
    const headers = { "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store" };
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
      if (name.includes("..") || !existsSync(file)) return send(404, "text/plain", "no such page");
      let body = readFileSync(file);
      if (name === "index.html") body = Buffer.from(body.toString().replace("@@BOOT@@", JSON.stringify({ mode: "serve", base })));
      return send(200, TYPES[extname(name)] ?? "application/octet-stream", body);
    }
    const parts = path.slice(4).split("/").map(decodeURIComponent);
    switch (parts[0]) {
      case "sessions": {
        if (parts.length === 1) {
          const after = url.searchParams.get("after");
          const from = after === null ? 0 : sessions.findIndex((one) => one.row.id === after) + 1;
          const limit = Number(url.searchParams.get("limit") ?? 100);
          return json({ schema: "threadseal.view.sessions/1", total: sessions.length, agents: [], projects: [], sessions: sessions.slice(from, from + limit).map((one) => one.row) });
        }
        const session = sessions.find((one) => one.row.id === parts.slice(1).join("/"));
        if (session === undefined) return send(404, "text/plain", "no such session");
        return json({
          schema: "threadseal.view.session/1", id: session.row.id, links: session.links ?? [], secrets: 0, redactions: [],
          logs: session.logs.map((log) => ({ log: log.log, parent: log.parent ?? null, path: log.path ?? null, bytes: log.bytes?.length ?? statSync(log.path).size, seals: 1, format: "", state: session.row.state, state_text: session.row.state_text, light: session.row.light })),
        });
      }
      case "logs": {
        const what = parts.at(-1);
        const log = logs.get(parts.slice(1, -1).join("/"));
        if (log === undefined) return send(404, "text/plain", "no such log");
        if (what === "report") {
          const found = report(log.log);
          return found === null ? send(404, "text/plain", "no report") : json(found);
        }
        if (what === "bytes" && log.path !== undefined) return sendFile(request, response, headers, log.path);
        const body = what === "seals" ? seals(log) : read(log);
        if (body === null) {
          response.writeHead(204, headers);
          return response.end();
        }
        return sendRange(request, response, headers, body);
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
              if (found >= 0 && hits.length < 20) hits.push({ id: session.row.id, log: log.log, turn: at, line: at + 1, snippet: line.slice(Math.max(0, found - 40), found + 60) });
            });
          }
        }
        return json({ hits, more: false });
      }
      case "live":
        response.writeHead(200, { ...headers, "content-type": "text/event-stream" });
        response.write(": hello\n\n");
        live.add(response);
        request.on("close", () => live.delete(response));
        return undefined;
      case "graphs":
      case "lineages": {
        const drawing = drawings[parts.slice(1).join("/")];
        return drawing === undefined ? send(404, "text/plain", "no such drawing") : json(drawing);
      }
      case "compare": {
        const side = (id) => {
          const log = sessions.find((one) => one.row.id === id)?.logs[0].log;
          return log === undefined ? null : { bytes: `${base}api/logs/${encodeURIComponent(log)}/bytes`, seals: `${base}api/logs/${encodeURIComponent(log)}/seals` };
        };
        const [a, b] = [side(url.searchParams.get("a")), side(url.searchParams.get("b"))];
        return a === null || b === null ? send(404, "text/plain", "no such session") : json({ a, b });
      }
      default:
        return send(404, "text/plain", "no such page");
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}${base}`;
  return {
    address, requests,
    changed(id, log) {
      for (const one of live) one.write(`event: changed\ndata: ${JSON.stringify({ id, log, bytes: 0 })}\n\n`);
    },
    close() {
      for (const one of live) one.end();
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

function head(response, headers, size, etag, { from, to, status }) {
  const range = status === 206 ? { "content-range": `bytes ${from}-${to}/${size}` } : status === 416 ? { "content-range": `bytes */${size}` } : {};
  response.writeHead(status, { ...headers, "content-type": "application/octet-stream", "accept-ranges": "bytes", etag, ...range, "content-length": status === 416 ? 0 : to - from + 1 });
}

function sendFile(request, response, headers, path) {
  const { size, mtimeMs } = statSync(path);
  const range = rangeOf(request, size);
  head(response, headers, size, `"${size}-${Math.round(mtimeMs)}"`, range);
  if (range.status === 416 || size === 0) return response.end();
  return createReadStream(path, { start: range.from, end: range.to, highWaterMark: 1 << 18 }).pipe(response);
}

function sendRange(request, response, headers, body) {
  const range = rangeOf(request, body.length);
  head(response, headers, body.length, `"${createHash("sha256").update(body).digest("hex").slice(0, 16)}"`, range);
  return response.end(range.status === 416 ? "" : body.subarray(range.from, range.to + 1));
}

export function watchLog(server, id, log, path) {
  let size = statSync(path).size;
  return watch(path, () => {
    const now = statSync(path).size;
    if (now === size) return;
    size = now;
    server.changed(id, log);
  });
}
