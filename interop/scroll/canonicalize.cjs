// Canonicalises each line of the standard input with the npm package `canonicalize`.
'use strict';

const canonicalize = require('canonicalize');

async function main() {
  let rest = '';
  process.stdin.setEncoding('utf8');
  for await (const chunk of process.stdin) {
    // Only a line feed ends a line; `readline` would also cut at U+2028.
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    const text = lines.map((line) => `${canonicalize(JSON.parse(line))}\n`).join('');
    if (!process.stdout.write(text)) {
      await new Promise((resolve) => process.stdout.once('drain', resolve));
    }
  }
}

main();
