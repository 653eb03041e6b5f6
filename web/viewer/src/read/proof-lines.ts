// The lines that a proof shows (spec/proofs.md): of a native record as text, of an observed log as base64.

const START = "threadseal/1 proof of ";

export function isProof(bytes: Uint8Array): boolean {
  return new TextDecoder().decode(bytes.subarray(0, START.length)) === START;
}

export function proofLines(bytes: Uint8Array): string[] {
  const lines: string[] = [];
  for (const line of new TextDecoder().decode(bytes).split("\n")) {
    const shown = /^(?:manifest|line) (.*)$/.exec(line)?.[1];
    if (shown === undefined) continue;
    if (shown.startsWith("{")) lines.push(shown);
    else {
      const decoded = decode(shown);
      if (decoded !== null) lines.push(decoded);
    }
  }
  return lines;
}

function decode(words: string): string | null {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(words), (one) => one.charCodeAt(0)));
  } catch {
    return null;
  }
}
