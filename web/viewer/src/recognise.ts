// What kind of record a file is, for the verifier in TypeScript: the rules of spec/report.md §5 that it needs.

export type RecordKind = "native" | "observed" | "turn_proof" | "observed_proof" | "scroll" | "ledger" | "rye" | "document" | "log";

export const HEAD_BYTES = 65_536;

/** `seals`: the file beside it; seals of a log are lines of JSON, the seal of a document is one text. */
export function recognise(bytes: Uint8Array, name: string, seals: Uint8Array | null): RecordKind {
  const head = new TextDecoder("utf-8").decode(bytes.subarray(0, HEAD_BYTES));
  if (head.startsWith("threadseal/1 proof of observed lines\n")) return "observed_proof";
  if (head.startsWith("threadseal/1 proof of")) return "turn_proof";
  const end = head.indexOf("\n");
  const first = objectOf(end < 0 ? head : head.slice(0, end));
  const start = first?.["payload"]?.format;
  if (first?.["event_type"] === "thread_started" && typeof start === "string" && start.startsWith("threadseal/")) return "native";
  if (head.includes('"note":"threadseal/1/transcript/')) return "native";
  const beside = seals === null ? "" : new TextDecoder("utf-8").decode(seals.subarray(0, 256));
  if (beside.startsWith("{") || (seals !== null && /\.jsonl$/i.test(name))) return "observed";
  if (beside.includes("threadseal:signed:")) return "document";
  if (head.includes('"version":"scroll/0.1"') || head.includes('"version": "scroll/0.1"')) return "scroll";
  if (typeof first?.["event_type"] === "string" && (first["thread_id"] !== undefined || head.includes('"event_type":"checkpoint"'))) return "rye";
  if (/"run_id"/.test(head) && /"step_id"/.test(head) && /"node_id"/.test(head)) return "ledger";
  if (/threadseal:signed:|rye:signed:/.test(head) || /\.(md|ya?ml|toml|py|sh|js)$/i.test(name)) return "document";
  if (seals !== null) return "observed";
  return "log";
}

function objectOf(line: string): { [name: string]: any } | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? value : null;
  } catch {
    return null;
  }
}
