// `look` for Deno and Bun; with a third argument also a record through the command.
import { readFile } from "node:fs/promises";
import { Recorder, verifyFile } from "threadseal/node";
import { look } from "./everywhere.mjs";

const [file, edited, key, options] = process.argv.slice(2);
const answer = { look: await look(await readFile(file), await readFile(edited), key) };
const { key: own, ...scene } = JSON.parse(options);
const recorder = await Recorder.start("demo/1", scene);
await recorder.append("note", { text: "Grüße" });
answer.sealed = (await recorder.seal()).cause;
answer.exit = (await recorder.end()).exit;
answer.verdict = (await verifyFile(`${scene.cwd}/demo-1.jsonl`, { trust: own })).verdict;
console.log(JSON.stringify(answer));
