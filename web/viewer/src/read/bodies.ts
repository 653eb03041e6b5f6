// Texts of a native record that are in a file beside it: each takes the place of its commitment. Whether they fit is the
// verifiers' matter, which get the same bytes.

import { type Json, isObject } from "./part.js";

const MAX_DEPTH = 64;

/** Bodies by their commitments. */
export type Bodies = ReadonlyMap<string, unknown>;

export function readBodies(bytes: Uint8Array): Bodies {
  const found = new Map<string, unknown>();
  for (const line of new TextDecoder().decode(bytes).split("\n")) {
    try {
      const value: unknown = JSON.parse(line);
      if (isObject(value) && typeof value["commitment"] === "string" && "body" in value) found.set(value["commitment"], value["body"]);
    } catch {
      // What is no line of bodies is a finding of the verifiers.
    }
  }
  return found;
}

/** The event with its bodies. */
export function withBodies(event: Json, bodies: Bodies): Json {
  return isObject(event["payload"]) ? { ...event, payload: placed(event["payload"], bodies, 0) } : event;
}

function placed(value: unknown, bodies: Bodies, depth: number): unknown {
  if (depth > MAX_DEPTH || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => placed(one, bodies, depth + 1));
  const body = (value as Json)["$body"];
  if (isObject(body) && typeof body["commitment"] === "string") {
    return bodies.has(body["commitment"]) ? bodies.get(body["commitment"]) : `(${String(body["bytes"])} bytes that are not here: redacted, or left out)`;
  }
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, placed(one, bodies, depth + 1)]));
}
