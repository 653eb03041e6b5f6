// Sessions that are made up, in the shape of Claude Code's logs: what tests show, measure and attack.

import { randomUUID } from "node:crypto";

/** A PNG of two by two points. */
export const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGP8z8DAwMDAxMDAwMDAAAANHQEDasKb6QAAAABJRU5ErkJggg==";

export class Log {
  lines = [];
  id;
  #time;
  #last = null;
  #message = 0;

  constructor({ id = randomUUID(), time = Date.parse("2026-11-20T09:14:02Z"), cwd = "/home/ann/src/shop-api", model = "claude-opus-4-8", sidechain = false } = {}) {
    this.id = id;
    this.#time = time;
    this.cwd = cwd;
    this.model = model;
    this.sidechain = sidechain;
  }

  push(value, seconds = 2) {
    this.#time += seconds * 1000;
    const uuid = randomUUID();
    this.lines.push(JSON.stringify({ parentUuid: this.#last, isSidechain: this.sidechain, userType: "external", cwd: this.cwd, sessionId: this.id, version: "2.1.331", gitBranch: "main", ...value, uuid, timestamp: new Date(this.#time).toISOString() }));
    this.#last = uuid;
    return this;
  }

  user(content, seconds = 40) {
    return this.push({ type: "user", message: { role: "user", content } }, seconds);
  }

  assistant(blocks, usage = {}, seconds = 4) {
    const id = `msg_${String(++this.#message).padStart(8, "0")}`;
    for (const block of blocks) {
      this.push({
        type: "assistant",
        message: { id, type: "message", role: "assistant", model: this.model, content: [block], usage: { input_tokens: 320, cache_creation_input_tokens: 2100, cache_read_input_tokens: 18400 + 900 * this.#message, output_tokens: 240, ...usage } },
      }, seconds / blocks.length);
    }
    return this;
  }

  call(name, input, result, { error = false, outcome = {}, seconds = 3 } = {}) {
    const id = `toolu_${randomUUID().replaceAll("-", "").slice(0, 20)}`;
    this.assistant([{ type: "tool_use", id, name, input }]);
    return this.push({ type: "user", message: { role: "user", content: [{ tool_use_id: id, type: "tool_result", content: result, is_error: error }] }, toolUseResult: outcome }, seconds);
  }

  get text() {
    return `${this.lines.join("\n")}\n`;
  }
}

/** An afternoon's work, with most kinds of content. */
export function workday(options = {}) {
  const log = new Log(options);
  log.user("The checkout test fails since we moved to the new payment client. Find out why, fix it, and show me what you changed.");
  log.assistant([
    { type: "thinking", thinking: "The user wants the failing checkout test fixed. I should run it first, then read the client and the handler.\n\nLikely candidates: the currency moved from a string to an enum, or the amount is in cents now." },
    { type: "text", text: "I will run the failing test first, then look at the client." },
  ]);
  log.call("Bash", { command: "cargo test --package checkout -- --nocapture", description: "Run the checkout tests" },
    "running 44 tests\n.........................................FF.\n\nfailures:\n\n---- total_with_discount stdout ----\nthread 'total_with_discount' panicked at src/checkout.rs:118:\nassertion `left == right` failed\n  left: 1999\n right: 19.99\n\ntest result: FAILED. 42 passed; 2 failed; 0 ignored\nerror: test failed, to rerun pass `-p checkout --lib`", { error: true });
  log.call("Grep", { pattern: "amount", path: "src", output_mode: "content" }, "src/checkout.rs:112:    let amount = order.total();\nsrc/payment/client.rs:31:    pub amount: Cents,\nsrc/payment/client.rs:58:    body.insert(\"amount\", self.amount.0);");
  log.call("Read", { file_path: "/home/ann/src/shop-api/src/checkout.rs", offset: 100, limit: 40 }, Array.from({ length: 40 }, (_, at) => `${String(100 + at).padStart(6)}\tlet line_${at} = order.item(${at})?;`).join("\n"));
  log.assistant([{ type: "text", text: "Found it. The new client takes **cents as an integer**, and `checkout.rs` still passes a decimal:\n\n1. `order.total()` returns a `Decimal` such as `19.99`;\n2. the client's `amount` is a `Cents(u64)`;\n3. the conversion truncates, so a discount disappears.\n\n```rust\nlet amount = Cents::from_decimal(order.total())?;\n```\n\nI will convert in one place, so that no other caller can get it wrong." }]);
  log.call("Edit", { file_path: "/home/ann/src/shop-api/src/checkout.rs", old_string: "    let amount = order.total();\n    client.charge(amount.into(), &order.card)?;\n    Ok(Receipt::new(order, amount))", new_string: "    let amount = Cents::from_decimal(order.total())?;\n    client.charge(amount, &order.card)?;\n    Ok(Receipt::new(order, amount))" },
    "The file /home/ann/src/shop-api/src/checkout.rs has been updated.", { outcome: { filePath: "/home/ann/src/shop-api/src/checkout.rs", structuredPatch: [{ oldStart: 110, oldLines: 6, newStart: 110, newLines: 6, lines: [" /// Charges the card, and makes a receipt.", " pub fn pay(order: &Order, client: &Client) -> Result<Receipt> {", "-    let amount = order.total();", "-    client.charge(amount.into(), &order.card)?;", "+    let amount = Cents::from_decimal(order.total())?;", "+    client.charge(amount, &order.card)?;", "     Ok(Receipt::new(order, amount))", " }"] }] } });
  log.call("Write", { file_path: "/home/ann/src/shop-api/src/payment/cents.rs", content: "//! Money in whole cents.\n\n#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub struct Cents(pub u64);\n\nimpl Cents {\n    /// Refuses what is no whole number of cents.\n    pub fn from_decimal(value: Decimal) -> Result<Self, NotCents> {\n        let cents = value * Decimal::ONE_HUNDRED;\n        cents.is_integer().then(|| Self(cents.to_u64())).ok_or(NotCents)\n    }\n}\n" }, "File created successfully.");
  log.call("Bash", { command: "cargo test --package checkout" }, "running 44 tests\ntest result: ok. 44 passed; 0 failed; 0 ignored; finished in 1.82s");
  log.push({ type: "system", subtype: "stop_hook_summary", content: "threadseal hook claude-code: sealed 24 lines", hookInfos: [{ command: "threadseal hook claude-code", durationMs: 9 }] });
  log.assistant([{ type: "text", text: "All 44 tests pass. The change converts once, at the border, and refuses an amount that is no whole number of cents." }]);
  log.user([{ type: "text", text: "Here is what the receipt looks like now. Is the total right?" }, { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }]);
  log.assistant([{ type: "text", text: "Yes: 19.99 with the discount. The picture shows the same total as `receipt.json`." }]);
  log.user("Check with a second pair of eyes that no other caller passes a decimal.");
  const agent = "a7f3c2e1b09d";
  log.call("Task", { description: "Audit callers of charge", subagent_type: "Explore", prompt: "Find every caller of Client::charge and report which type it passes." }, "Three callers: checkout.rs, refund.rs, invoice.rs. All pass Cents now.", { outcome: { agentId: agent, totalTokens: 18_230, totalToolUseCount: 4 }, seconds: 48 });
  log.push({ type: "system", subtype: "compact_boundary", content: "Conversation compacted", compactMetadata: { trigger: "auto", preTokens: 155_210 } });
  log.push({ type: "user", isCompactSummary: true, message: { role: "user", content: "This session continues an earlier one that ran out of context. The checkout test was fixed by converting to cents at the border; all 44 tests pass." } });
  log.user("شكرًا، هل يمكنك كتابة ملاحظة قصيرة بالعربية للفريق؟");
  log.assistant([{ type: "text", text: "بالتأكيد:\n\nعميل الدفع الجديد يتعامل مع المبالغ **بالسنتات** فقط. التحويل يتم الآن في مكان واحد هو `checkout.rs`." }]);
  const sub = new Log({ id: log.id, time: Date.parse("2026-11-20T09:21:00Z"), sidechain: true, model: "claude-haiku-4-5" });
  sub.user("Find every caller of Client::charge and report which type it passes.");
  sub.call("Grep", { pattern: "\\.charge\\(", path: "src" }, "src/checkout.rs:113\nsrc/refund.rs:40\nsrc/invoice.rs:77");
  sub.call("Read", { file_path: "src/refund.rs" }, "client.charge(Cents(refund.cents), &card)?;");
  sub.assistant([{ type: "text", text: "Three callers: checkout.rs, refund.rs, invoice.rs. All pass Cents now." }]);
  return { log, sub, agent };
}

/** A log of about this size and number of turns. */
export function large(turns, bytes, id = randomUUID()) {
  const log = new Log({ id });
  const room = Math.max(200, Math.floor(bytes / turns) - 700);
  const words = "the quick agent reads a file and compares each line with what was sealed before it answers ".repeat(Math.ceil(room / 90));
  const chunks = [];
  for (let turn = 0; turn < turns; turn++) {
    const step = turn % 5;
    if (step === 0) log.user(`Question ${turn}: what does module ${turn % 97} do? ${words.slice(0, room / 3)}`);
    else if (step === 1) log.assistant([{ type: "text", text: `Answer ${turn}. ${words.slice(0, room)}` }]);
    else if (step === 2) log.call("Bash", { command: `grep -rn symbol_${turn} src` }, `src/file_${turn}.rs:12: ${words.slice(0, room)}`);
    else if (step === 3) log.call("Read", { file_path: `/src/file_${turn}.rs` }, words.slice(0, room), { error: turn % 50 === 3 });
    else log.assistant([{ type: "thinking", thinking: words.slice(0, room / 2) }, { type: "text", text: `Done with ${turn}${turn === turns - 1 - ((turns - 1 - 4) % 5) ? " needle-in-the-hay" : ""}. ${words.slice(0, room / 2)}` }]);
    if (log.lines.length > 2000) chunks.push(`${log.lines.splice(0).join("\n")}\n`);
  }
  chunks.push(log.text);
  return chunks.join("");
}
