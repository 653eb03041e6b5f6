// The order of a native record (transcript.md §4): its three states, and what may stand in each.

import type { EventKind } from "./native-lines.js";

export type State = "open" | "closing" | "ended";

/** The fault of an event that its state does not allow, or null. */
export function faultOfEvent(kind: EventKind, state: State): "event_malformed" | "event_after_end" | null {
  if (state === "open") return kind === "manifest" || kind === "authority" ? "event_malformed" : null;
  if (kind === "tail_adopted" || kind === "tail_dropped") return null;
  const allowed = state === "ended" && (kind === "link" || kind === "authority" || kind === "redacted");
  return allowed ? null : "event_after_end";
}

/** Whether a checkpoint may stand behind a line of this kind; null: behind a line that is not known. */
export function sealMayStand(final: boolean, state: State, before: EventKind | null): boolean {
  if (state === "open") return !final || before === "link";
  if (state === "closing") return final;
  return final && before !== null && BEFORE_A_LATER_SEAL.has(before);
}

const BEFORE_A_LATER_SEAL: ReadonlySet<EventKind> =
  new Set<EventKind>(["link", "authority", "redacted", "tail_adopted", "tail_dropped"]);
