// Where sessions come from: a server on this machine, or files that are in the page.

import { type Trusted, NO_TRUST } from "./core.js";
import type { Source } from "./worker.js";

export interface SessionRow {
  readonly id: string;
  readonly agent: string;
  readonly project: string | null;
  readonly title: string;
  readonly begun: string | number | null;
  readonly updated: string | number | null;
  readonly turns: number;
  readonly tools: number;
  readonly tokens: number;
  readonly cost: number | null;
  readonly model: string | null;
  readonly state: string;
  readonly state_text: string;
  readonly light: "green" | "amber" | "red";
  readonly sub_agents: number;
  readonly kind: string;
}

export interface LogRow {
  readonly log: string;
  readonly parent: string | null;
  readonly path: string | null;
  readonly bytes: number;
  readonly seals: number;
  readonly format: string;
  readonly state: string;
  readonly state_text: string;
  readonly light: string;
}

export interface SessionInfo {
  readonly id: string;
  readonly logs: readonly LogRow[];
  readonly links: readonly { readonly kind: string; readonly id: string }[];
  readonly secrets: number;
  readonly redactions: readonly unknown[];
}

export interface LogFiles {
  readonly source: Source;
  readonly seals: Promise<Uint8Array | null>;
  readonly bodies: Uint8Array | null;
  readonly bodiesUnread: boolean;
}

export interface ServerHit {
  readonly id: string;
  readonly log: string;
  readonly turn: number;
  readonly line: number | null;
  readonly snippet: string;
}

export interface Drawing {
  readonly nodes: readonly { readonly id: string; readonly label?: string; readonly state?: string; readonly at?: number; readonly session?: string }[];
  readonly edges: readonly { readonly from: string; readonly to: string; readonly kind?: string }[];
}

export interface Change {
  readonly id: string;
  readonly log: string;
  readonly bytes: number;
}

export interface Home {
  readonly isServed: boolean;
  sessions(onPage: (rows: readonly SessionRow[], total: number) => void): Promise<void>;
  session(id: string): Promise<SessionInfo>;
  files(log: string): Promise<LogFiles>;
  trust(): Promise<Trusted>;
  /** The command's own report, as the server gives it. */
  report(log: string): Promise<unknown>;
  search(query: string): Promise<{ readonly hits: readonly ServerHit[]; readonly more: boolean }>;
  drawing(kind: "graphs" | "lineages", id: string): Promise<Drawing>;
  compare(a: string, b: string): Promise<readonly [LogFiles, LogFiles]>;
  /** Calls back on each change; gives what ends it. */
  live(onChange: (change: Change) => void): () => void;
}

const PAGE = 5000;

/** A log's id may have `/` and `:`; each part of it is one of the path. */
export function spelled(id: string): string {
  return id.split("/").map(encodeURIComponent).join("/");
}

export class ServedHome implements Home {
  readonly isServed = true;

  constructor(private readonly base: string) {}

  async sessions(onPage: (rows: readonly SessionRow[], total: number) => void): Promise<void> {
    let after = "";
    for (let seen = 0; ;) {
      const page = await this.json<{ total: number; sessions: SessionRow[] }>(`sessions?limit=${seen === 0 ? 200 : PAGE}${after}`);
      onPage(page.sessions, page.total);
      // The first rows are drawn before the rest is asked for.
      if (seen === 0) await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      seen += page.sessions.length;
      const last = page.sessions.at(-1);
      if (last === undefined || seen >= page.total) return;
      after = `&after=${encodeURIComponent(last.id)}`;
    }
  }

  session(id: string): Promise<SessionInfo> {
    return this.json(`sessions/${spelled(id)}`);
  }

  async files(log: string): Promise<LogFiles> {
    return {
      source: { url: this.url(`logs/${spelled(log)}/bytes`) },
      seals: this.get(`logs/${spelled(log)}/seals`).then(async (seals) => (seals.status === 200 ? new Uint8Array(await seals.arrayBuffer()) : null)),
      bodies: null, bodiesUnread: true,
    };
  }

  async trust(): Promise<Trusted> {
    const found = await this.json<{ keys: { name: string; usage: string | string[]; public: string }[]; store: string | null }>("trust");
    return {
      keys: found.keys.map((one) => ({ ...one, usages: Array.isArray(one.usage) ? one.usage : one.usage.split(/[ ,]+/) })),
      store: found.store, identities: [],
    };
  }

  report(log: string): Promise<unknown> {
    return this.json(`logs/${spelled(log)}/report`);
  }

  search(query: string): Promise<{ hits: ServerHit[]; more: boolean }> {
    return this.json(`search?q=${encodeURIComponent(query)}&limit=200`);
  }

  drawing(kind: "graphs" | "lineages", id: string): Promise<Drawing> {
    return this.json(`${kind}/${spelled(id)}`);
  }

  async compare(a: string, b: string): Promise<readonly [LogFiles, LogFiles]> {
    const found = await this.json<{ a: { bytes: string }; b: { bytes: string } }>(
      `compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`,
    );
    return [this.side(found.a), this.side(found.b)];
  }

  live(onChange: (change: Change) => void): () => void {
    const events = new EventSource(this.url("live"));
    events.addEventListener("changed", (event) => {
      try {
        onChange(JSON.parse((event as MessageEvent<string>).data) as Change);
      } catch {
        // A line that is none is passed over; the next change is read again.
      }
    });
    return () => events.close();
  }

  private side(one: { bytes: string }): LogFiles {
    return { source: { url: new URL(one.bytes, new URL(this.base, location.href)).href }, seals: Promise.resolve(null), bodies: null, bodiesUnread: true };
  }

  private url(path: string): string {
    return new URL(`${this.base}api/${path}`, location.href).href;
  }

  private get(path: string): Promise<Response> {
    return fetch(this.url(path), { credentials: "omit", referrerPolicy: "no-referrer" });
  }

  private async json<T>(path: string): Promise<T> {
    const response = await this.get(path);
    if (!response.ok) throw new Error(`the server has no answer: ${response.status} ${response.statusText}`);
    return response.json() as Promise<T>;
  }
}

/** A log whose files are in the page. */
export interface HeldLog {
  readonly row: LogRow;
  readonly bytes: Uint8Array;
  readonly seals: Uint8Array | null;
  readonly bodies: Uint8Array | null;
  /** Were bodies left out of this file on purpose? */
  readonly bodiesLeftOut: boolean;
}

export class HeldHome implements Home {
  readonly isServed = false;

  constructor(private readonly info: SessionInfo, private readonly row: SessionRow, private readonly logs: readonly HeldLog[]) {}

  async sessions(onPage: (rows: readonly SessionRow[], total: number) => void): Promise<void> {
    onPage([this.row], 1);
  }

  async session(): Promise<SessionInfo> {
    return this.info;
  }

  async files(log: string): Promise<LogFiles> {
    const found = this.logs.find((one) => one.row.log === log) ?? this.logs[0];
    if (found === undefined) throw new Error("this log is not in the page");
    return { source: { bytes: found.bytes }, seals: Promise.resolve(found.seals), bodies: found.bodies, bodiesUnread: found.bodiesLeftOut };
  }

  async trust(): Promise<Trusted> {
    return NO_TRUST;
  }

  async report(): Promise<unknown> {
    return null;
  }

  async search(): Promise<{ hits: ServerHit[]; more: boolean }> {
    return { hits: [], more: false };
  }

  async drawing(): Promise<Drawing> {
    return { nodes: [], edges: [] };
  }

  async compare(): Promise<readonly [LogFiles, LogFiles]> {
    throw new Error("only a server compares two sessions by their ids; hint: drop both files");
  }

  live(): () => void {
    return () => undefined;
  }
}
