// The types as a page sees them: compiled without those of Node, and not run.
import { init, openSession, verify, type Report } from "threadseal";
import { verifyScroll } from "threadseal/verifier/scroll";

export async function page(file: File): Promise<string> {
  await init(new URL("threadseal.wasm", location.href));
  const report: Report = await verify(file, { trust: "00" });
  const session = await openSession(new Uint8Array(await file.arrayBuffer()));
  return `${report.verdict} ${session.summary.turns} ${verifyScroll.name}`;
}
