// Hostile content: what a session might hold to run as code, to reach the network, or to deceive about the page.

export const ATTACKS = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror=\"window.hacked = 1\">",
  "<svg onload=\"window.hacked = 1\"><animate onbegin=\"window.hacked = 1\"/></svg>",
  "<iframe srcdoc=\"<script>parent.hacked = 1</script>\"></iframe>",
  "<a href=\"javascript:window.hacked=1\">click</a>",
  "[click](javascript:window.hacked=1) ![x](https://evil.example/x.png)",
  "<style>body{display:none}</style><link rel=stylesheet href=https://evil.example/x.css>",
  "<meta http-equiv=refresh content=\"0;url=https://evil.example/\"><base href=\"https://evil.example/\">",
  "</pre></noscript><script>window.hacked = 1</script>",
  "</script><script>window.hacked = 1</script><!--",
  "<!--</script><script>window.hacked = 1//-->",
  "\u0000</title><script>window.hacked = 1</script>",
  "<form action=https://evil.example/><input autofocus onfocus=\"window.hacked=1\"></form>",
  "<details open ontoggle=\"window.hacked=1\"><math><mtext><table><mglyph><style><img src onerror=window.hacked=1>",
  "<template shadowrootmode=open><script>window.hacked=1</script></template>",
  "<object data=\"data:text/html,<script>parent.hacked=1</script>\"></object><embed src=https://evil.example/>",
  "\u202eevil\u202c \u2066reordered\u2069 \u200bhidden\ufeff",
  "```html\n<script>window.hacked = 1</script>\n```",
  "| <img src=x onerror=window.hacked=1> | **<b onclick=window.hacked=1>x</b>** |",
  "{{constructor.constructor('window.hacked=1')()}} ${window.hacked=1} `<script>`",
  "\u001b]0;title\u0007\u001b[2J\u001b[31mred",
  "data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=",
  "<img srcset=\"https://evil.example/a 1x\"><video poster=https://evil.example/b><svg><use href=https://evil.example/c#d /></svg>",
  "url(https://evil.example/x.css) @import 'https://evil.example/y.css'; expression(window.hacked=1)",
  "<link rel=dns-prefetch href=//evil.example><link rel=preconnect href=//evil.example><a ping=https://evil.example/p href=#>x</a>",
  "//evil.example/x ![](//evil.example/x.png) <https://evil.example/y> [x]: https://evil.example/z",
  "../../../evil.example/%2e%2e/x?y=1#/s/other/turn/1",
  "@@TITLE@@ @@TEXT@@ @@BOOT@@ @@PARTS@@ <!--/parts--> <!--parts-->",
];

/** An SVG that calls itself a PNG. */
export const FALSE_IMAGE = Buffer.from("<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'><script>window.hacked=1</script></svg>").toString("base64");

/** These attacks in each place of a log: words, names, arguments, results, ids, times, models, titles. */
export function hostileLog(Log, attacks = ATTACKS) {
  const log = new Log({ cwd: attacks[0], model: attacks[0] });
  log.push({ type: "summary", summary: attacks[0] });
  for (const attack of attacks) {
    log.user(attack);
    log.assistant([{ type: "thinking", thinking: attack }, { type: "text", text: attack }]);
    log.call(attack, { [attack]: attack, command: attack, file_path: attack, old_string: attack, new_string: `${attack}\nx` }, attack, { outcome: { agentId: attack, filePath: attack, structuredPatch: [{ oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines: [`-${attack}`, `+${attack}`] }] } });
    log.push({ type: "system", subtype: attack, content: attack });
    log.push({ type: attack, anything: { [attack]: [attack] } });
  }
  log.user([{ type: "text", text: "image" }, { type: "image", source: { type: "base64", media_type: "image/png", data: FALSE_IMAGE } }]);
  log.lines.push("{\"__proto__\":{\"polluted\":1},\"type\":\"user\",\"constructor\":1}", "null", "[]", "1e999", "{\"type\":null,\"message\":[]}", "\u0000\u0001 no json <script>window.hacked=1</script>",
    JSON.stringify({ type: "user", message: { role: "user", content: { toString: 1 } } }), JSON.stringify({ type: "assistant", message: { content: [null, 1, "x", { type: "tool_use", id: {}, name: [], input: null }] } }),
    JSON.stringify({ type: "user", timestamp: 1e300, message: { content: [{ type: "tool_result", tool_use_id: "__proto__", content: [{ type: "image", source: null }] }] } }));
  return log.text;
}
