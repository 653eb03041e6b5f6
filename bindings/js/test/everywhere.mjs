// What each runtime does: the whole answer must be the same everywhere.
import { VerdictError, checkProof, openSession, prove, verifiedEvents, verify } from "threadseal";

const NOW = 1_800_000_000_000;

/** Verifies, proves and reads a record, and one that was changed. */
export async function look(bytes, edited, key) {
  const options = { trust: key, now: NOW, name: "record.jsonl" };
  const [report, blob, bad] = [
    await verify(bytes, options), await verify(new Blob([bytes]), options), await verify(edited, options),
  ];
  const events = [];
  for await (const event of verifiedEvents(bytes, options)) events.push(event.text);
  const session = await openSession(bytes, options);
  const rows = session.rows();
  session.close();
  const { turn } = rows.find((row) => row.turn > 0);
  const proof = await checkProof(await prove(bytes, turn, options), options);
  let refused;
  try {
    for await (const event of verifiedEvents(edited, options)) refused = `gave ${event.line}`;
  } catch (error) {
    refused = [error instanceof VerdictError, error.message, error.report.verdict];
  }
  return JSON.stringify({ report, blob, bad, events, rows, proof, refused });
}
