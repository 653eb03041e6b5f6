// What one line of a log holds, in the terms of people. A mapper of an agent makes parts; nothing here is trusted text.

/** What a part is. A `result` is joined to the `tool` that it answers. */
export type Kind =
  | "user"
  | "assistant"
  | "reasoning"
  | "tool"
  | "result"
  | "system"
  | "compaction"
  | "hook"
  | "event"
  | "seal"
  | "hole"
  | "damaged";

export interface Tokens {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

export interface Image {
  /** Base64 text, as the log has it. */
  readonly data: string;
}

/** A change of a file, as the log has it: old and new text, or a patch. */
export type Change =
  | { readonly path: string; readonly before: string; readonly after: string }
  | { readonly path: string; readonly patch: string };

export interface Part {
  readonly kind: Kind;
  readonly text: string;
  /** What the agent's program put before the words of the user. */
  readonly context?: string;
  /** The tool, the role or the type of the event. */
  readonly name?: string;
  /** Arguments of a call, data of an event: any JSON. */
  readonly data?: unknown;
  /** Joins a call and its result. */
  readonly call?: string;
  readonly ok?: boolean;
  readonly images?: readonly Image[];
  readonly changes?: readonly Change[];
  /** The id of a subagent that this call began. */
  readonly agent?: string;
  /** A later part with the same key replaces this one. */
  readonly key?: string;
  /** Does a person begin a new exchange here? */
  readonly begins?: boolean;
  /** The turn that the record itself names. */
  readonly turn?: number;
}

/** What a line yields. */
export interface Mapped {
  readonly time: number | null;
  readonly parts: readonly Part[];
  readonly model?: string;
  readonly tokens?: Tokens;
  /** Usage with the same key counts once. */
  readonly usageKey?: string;
  readonly cost?: number;
  /** Facts about the session. */
  readonly facts?: Facts;
}

export interface Facts {
  readonly agent?: string;
  readonly version?: string;
  readonly project?: string;
  readonly title?: string;
  readonly thread?: string;
}

/** Reads one value of a log. The same value always gives the same parts. */
export interface Mapper {
  readonly format: string;
  map(value: Json): Mapped;
}

export type Json = { readonly [name: string]: any };

export const NOTHING: Mapped = { time: null, parts: [] };

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function text(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  return JSON.stringify(value, null, 2);
}

export function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

export function moment(value: unknown): number | null {
  if (typeof value === "number" && Number.isFinite(value)) return value > 1e11 ? value : value * 1000;
  if (typeof value !== "string") return null;
  const time = Date.parse(value);
  return Number.isNaN(time) ? null : time;
}

/** The text of a list of blocks, or of a text alone. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return text(content);
  const texts: string[] = [];
  for (const block of content) {
    if (typeof block === "string") texts.push(block);
    else if (isObject(block) && typeof block["text"] === "string") texts.push(block["text"]);
    else if (isObject(block) && isImage(block)) continue;
    else texts.push(text(block));
  }
  return texts.join("\n");
}

function isImage(block: Json): boolean {
  return block["type"] === "image" || block["type"] === "input_image" || block["type"] === "image_url";
}

/** Images in a list of blocks, in the spellings of the agents. */
export function imagesOf(content: unknown): Image[] {
  if (!Array.isArray(content)) return [];
  const images: Image[] = [];
  for (const block of content) {
    if (!isObject(block) || !isImage(block)) continue;
    const source = isObject(block["source"]) ? block["source"] : block;
    const url = typeof block["image_url"] === "string" ? block["image_url"] : block["image_url"]?.url;
    const data = typeof source["data"] === "string" ? source["data"] : typeof url === "string" ? url.split(",")[1] : undefined;
    if (typeof data === "string") images.push({ data });
  }
  return images;
}

/** The change that a call of a well-known tool asks for. */
export function changesOf(name: string, input: unknown): Change[] {
  if (typeof input === "string" && input.includes("*** Begin Patch")) return [{ path: "", patch: input }];
  if (!isObject(input)) return [];
  const path = text(input["file_path"] ?? input["filePath"] ?? input["path"] ?? input["notebook_path"]);
  const edits = Array.isArray(input["edits"]) ? input["edits"] : [input];
  const changes: Change[] = [];
  for (const edit of edits) {
    if (!isObject(edit)) continue;
    const before = edit["old_string"] ?? edit["oldString"];
    const after = edit["new_string"] ?? edit["newString"];
    if (typeof before === "string" && typeof after === "string") changes.push({ path, before, after });
  }
  const content = input["content"] ?? input["file_text"];
  if (changes.length === 0 && typeof content === "string" && /write|create/i.test(name)) {
    changes.push({ path, before: "", after: content });
  }
  const patch = input["patch"] ?? input["input"] ?? input["diff"];
  if (changes.length === 0 && typeof patch === "string" && /^(\*\*\* Begin Patch|---|diff )/m.test(patch)) {
    changes.push({ path, patch });
  }
  return changes;
}
