// Where sessions come from: a server on this machine, or files that are in the page.

import { type Trusted, NO_TRUST } from "./core.js";
import type { Source } from "./worker.js";

/** What is null is not known: shown as a dash, never as 0. */
export interface SessionRow {
  readonly id: string;
  readonly agent: string;
  readonly project: string | null;
  readonly title: string | null;
  readonly begun: string | null;
  readonly updated: string | null;
  readonly turns: number | null;
  readonly tools: number | null;
  readonly tokens: number | null;
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
  /** Bytes of the seals, and of the detached bodies; 0: there are none. */
  readonly seals: number;
  readonly bodies: number;
  /** The newest head of the record that is known where it comes from: whole, its digest, or `SEQ:DIGEST`. */
  readonly head: string | null;
  readonly format: string | null;
  readonly state: string;
  readonly state_text: string;
  readonly light: string;
}

/** A session: its row, and its logs. */
export interface SessionInfo extends SessionRow {
  readonly logs: readonly LogRow[];
  readonly links: readonly { readonly kind: string; readonly id: string }[];
  /** Places where the command found what looks like a secret. */
  readonly secrets: number;
}

export interface LogFiles {
  readonly source: Source;
  readonly seals: Promise<Uint8Array | null>;
  readonly bodies: Promise<Uint8Array | null>;
  readonly bodiesUnread: boolean;
  readonly head: string | null;
}

export interface ServerHit {
  readonly id: string;
  readonly log: string;
  readonly turn: number;
  readonly role: string | null;
  readonly time: string | null;
  readonly snippet: string;
}

export interface Drawing {
  readonly nodes: readonly { readonly id: string; readonly label?: string; readonly state?: string; readonly at?: number; readonly session?: string }[];
  readonly edges: readonly { readonly from: string; readonly to: string; readonly kind?: string }[];
}

/** What is on the disk now. */
export interface Change {
  readonly id: string;
  readonly log: string;
  readonly bytes: number;
  readonly seals: number;
  /** Another text for other bytes, also for as many; the log's bytes come with it as their ETag. */
  readonly stamp: string;
  /** The same for seals and bodies. */
  readonly beside: string;
}

export interface Follower {
  changed(change: Change): void;
  gone(log: string | null): void;
  /** The stream broke, and is there again: what changed meanwhile is not known. */
  again(): void;
}

export interface Home {
  readonly isServed: boolean;
  sessions(onPage: (rows: readonly SessionRow[], total: number) => void): Promise<void>;
  session(id: string): Promise<SessionInfo>;
  files(row: LogRow): LogFiles;
  trust(): Promise<Trusted>;
  /** The command's own report, as the server gives it. */
  report(log: string): Promise<unknown>;
  search(query: string): Promise<{ readonly hits: readonly ServerHit[]; readonly more: boolean }>;
  drawing(kind: "graphs" | "lineages", id: string): Promise<Drawing>;
  /** Follows these logs, or the newest sessions where none is named; gives what ends it. */
  follow(logs: readonly string[], follower: Follower): () => void;
}

/** Rows that are asked for first, and at once after these. */
const FIRST_ROWS = 200;
const MORE_ROWS = 5000;
/** Detached bodies beyond this size are not read into the page. */
const MAX_BODIES_BYTES = 512 * 2 ** 20;
const MAX_HITS = 200;

export class ServedHome implements Home {
  readonly isServed = true;

  constructor(private readonly base: string) {}

  async sessions(onPage: (rows: readonly SessionRow[], total: number) => void): Promise<void> {
    for (let seen = 0; ;) {
      const page = await this.json<{ total: number; sessions: SessionRow[] }>(`sessions?skip=${seen}&limit=${seen === 0 ? FIRST_ROWS : MORE_ROWS}`);
      onPage(page.sessions, page.total);
      // The first rows are drawn before the rest is asked for.
      if (seen === 0) await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      seen += page.sessions.length;
      if (page.sessions.length === 0 || seen >= page.total) return;
    }
  }

  session(id: string): Promise<SessionInfo> {
    return this.json(`sessions/${encodeURIComponent(id)}`);
  }

  files(row: LogRow): LogFiles {
    const isRead = row.bodies <= MAX_BODIES_BYTES;
    return {
      source: { url: this.url(`logs/${encodeURIComponent(row.log)}/bytes`) },
      seals: row.seals > 0 ? this.bytes(`logs/${encodeURIComponent(row.log)}/seals`) : Promise.resolve(null),
      bodies: row.bodies > 0 && isRead ? this.bytes(`logs/${encodeURIComponent(row.log)}/bodies`) : Promise.resolve(null),
      bodiesUnread: !isRead, head: row.head?.replace(/^\d+:(?=[0-9a-f]{64}$)/, "") ?? null,
    };
  }

  async trust(): Promise<Trusted> {
    const found = await this.json<{ keys: { name: string; usage: string[]; public: string }[]; store: string | null }>("trust");
    return { keys: found.keys.map(({ name, usage, public: key }) => ({ name, usages: usage, public: key })), store: found.store, identities: [] };
  }

  report(log: string): Promise<unknown> {
    return this.json(`logs/${encodeURIComponent(log)}/report`);
  }

  search(query: string): Promise<{ hits: ServerHit[]; more: boolean }> {
    return this.json(`search?q=${encodeURIComponent(query)}&limit=${MAX_HITS}`);
  }

  drawing(kind: "graphs" | "lineages", id: string): Promise<Drawing> {
    return this.json(`${kind}/${encodeURIComponent(id)}`);
  }

  follow(logs: readonly string[], follower: Follower): () => void {
    const asked = logs.map((log) => `log=${encodeURIComponent(log)}`).join("&");
    const events = new EventSource(this.url(asked === "" ? "live" : `live?${asked}`));
    const read = (event: Event): Partial<Change> => {
      try {
        return JSON.parse((event as MessageEvent<string>).data) as Partial<Change>;
      } catch {
        // A line that is none is passed over; the next change is read again.
        return {};
      }
    };
    events.addEventListener("changed", (event) => {
      const { id, log, bytes, seals, stamp, beside } = read(event);
      if (log !== undefined) follower.changed({ id: id ?? log, log, bytes: bytes ?? 0, seals: seals ?? 0, stamp: stamp ?? "", beside: beside ?? "" });
    });
    let isOpen = false;
    events.addEventListener("open", () => {
      if (isOpen) follower.again();
      isOpen = true;
    });
    events.addEventListener("gone", (event) => follower.gone(read(event).log ?? null));
    return () => events.close();
  }

  private url(path: string): string {
    return new URL(`${this.base}api/${path}`, location.href).href;
  }

  private get(path: string): Promise<Response> {
    return fetch(this.url(path), { credentials: "omit", referrerPolicy: "no-referrer" });
  }

  /** Null: there is none. */
  private async bytes(path: string): Promise<Uint8Array | null> {
    const response = await this.get(path);
    if (response.status === 404) return null;
    if (!response.ok) throw new Error(`the server has no answer: ${response.status} ${response.statusText}`);
    return new Uint8Array(await response.arrayBuffer());
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

  constructor(private readonly info: SessionInfo, private readonly logs: readonly HeldLog[]) {}

  async sessions(onPage: (rows: readonly SessionRow[], total: number) => void): Promise<void> {
    onPage([this.info], 1);
  }

  async session(): Promise<SessionInfo> {
    return this.info;
  }

  files(row: LogRow): LogFiles {
    const found = this.logs.find((one) => one.row.log === row.log) ?? this.logs[0];
    if (found === undefined) throw new Error("this log is not in the page");
    return { source: { bytes: found.bytes }, seals: Promise.resolve(found.seals), bodies: Promise.resolve(found.bodies), bodiesUnread: found.bodiesLeftOut, head: null };
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

  follow(): () => void {
    return () => undefined;
  }
}
