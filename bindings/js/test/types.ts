// The types as a strict program sees them: compiled, not run.
import { verify, verifiedEvents, prove, checkProof, VerdictError, type FileReport, type Report, type Verdict } from "threadseal";
import { Recorder, verifyFile, type Sealed } from "threadseal/node";
import { NativeVerifier } from "threadseal/verifier/native";
import { recordModel } from "threadseal/ai";
import { SealedSaver } from "threadseal/langgraph";
import { ThreadSeal } from "threadseal/opencode";
import type { Plugin } from "@opencode-ai/plugin";
import { MemorySaver, type BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { wrapLanguageModel, type LanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";

export const plugin: Plugin = ThreadSeal;
export const saver: BaseCheckpointSaver = new SealedSaver(new MemorySaver(), { ledgers: "ledgers" });
export const wrapped = (recorder: Recorder): LanguageModel =>
  wrapLanguageModel({ model: new MockLanguageModelV4(), middleware: recordModel(recorder) });

export async function typed(bytes: Uint8Array): Promise<Verdict | null> {
  const report: Report = await verify(bytes, { trust: ["did:key:z", { key: "00", usage: "native" }], now: new Date() });
  const [first]: FileReport[] = report.results;
  const line: number | undefined = first?.findings[0]?.line ?? undefined;
  for await (const { value, text } of verifiedEvents(bytes, { accept: ["open"] })) console.log(value.event_type, text, line);
  // @ts-expect-error A forged record is never good enough for events.
  verifiedEvents(bytes, { accept: ["forged"] });
  const checked = await checkProof(await prove(bytes, 1));
  console.log(checked.anchor?.witnesses.length, NativeVerifier.name);
  const recorder = await Recorder.start("a", { bodies: "detached" });
  const sealed: Sealed = await recorder.seal();
  // @ts-expect-error There is no such ending.
  await recorder.end("done");
  try {
    (await verifyFile("a")).require(["open"]);
  } catch (error) {
    if (error instanceof VerdictError) return error.report.verdict;
  }
  return sealed.cause === "asked" ? report.verdict : null;
}
