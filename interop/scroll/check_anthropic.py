"""Compares mappings of Anthropic messages with the rules of agent-scroll.

    python3 interop/scroll/check_anthropic.py [--threadseal PROGRAM] [--cases N]

agent-scroll's mapping is a TypeScript function that no registry has. Its rules are written again
here, over the package `agent-scroll` of PyPI, which canonicalizes, hashes, seals and verifies.
Random
conversations inside the domain of that mapping (`spec/scroll-mappings.md` W2) pass through both.
The sealed turns must be equal byte for byte, but for the claim of the converter in the first turn. The
package must verify ours.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from agent_scroll import canonical, hash_canonical, seal_chain, verify

WORDS = ["", "run", "\u00e9\U0001f600", 'say "hi"\n', "a b", "\u20ac/\\", "0" * 40]
NUMBERS = [0, -1, 7, 0.5, 1e21, 1e-7, 123456789012, 2**53 - 1, -0.25, 100.0]


def their_turns(source):
    """The turns of agent-scroll's mapping."""
    for index, message in enumerate(source["messages"]):
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        turn = {
            "version": "scroll/0.1",
            "turn": index,
            "role": message["role"],
            "model": source["model"],
            "params": source["params"],
            "messages": [{"role": message["role"], "content": content}],
            # Theirs is the sum of two doubles.
            "timestamp_ns": int(float(source["timestamp_ns_base"]) + float(index)),
        }
        calls = [
            {
                "id": block["id"],
                "name": block["name"],
                "args_hash": hash_canonical(block["input"]),
                "args": block["input"],
            }
            for block in blocks
            if block["type"] == "tool_use"
        ]
        results = [
            {
                "id": block["tool_use_id"],
                "status": "error" if block.get("is_error") else "ok",
                "response_hash": hash_canonical(block["content"]),
                "response": block["content"],
            }
            for block in blocks
            if block["type"] == "tool_result"
        ]
        if calls:
            turn["tool_calls"] = calls
        if results:
            turn["tool_results"] = results
        yield turn


class Maker:
    """Makes conversations."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, depth=0):
        pick = self.random.randrange(7 if depth < 4 else 4)
        if pick < 4:
            scalars = [None, self.random.random() < 0.5, self.number(), self.word()]
            return scalars[pick]
        size = self.random.randrange(4)
        if pick == 4:
            return [self.value(depth + 1) for _ in range(size)]
        return {self.word() + str(i): self.value(depth + 1) for i in range(size)}

    def word(self):
        return self.random.choice(WORDS)

    def number(self):
        return self.random.choice(NUMBERS)

    def text(self):
        return {"type": "text", "text": self.word()}

    def block(self, role):
        pick = self.random.randrange(4)
        if pick == 0:
            return {"type": "tool_use", "id": self.word(), "name": self.word(), "input": self.value()}
        if pick == 1:
            block = {"type": "tool_result", "tool_use_id": self.word()}
            block["content"] = self.random.choice([self.word(), [self.text()], []])
            if self.random.random() < 0.5:
                block["is_error"] = self.random.random() < 0.5
            return block
        if pick == 2 and role == "assistant":
            return {"type": "thinking", "thinking": self.word(), "signature": self.word()}
        return self.text()

    def source(self):
        messages = []
        for _ in range(self.random.randrange(1, 6)):
            role = self.random.choice(["user", "assistant", "tool", "system"])
            content = [self.block(role) for _ in range(self.random.randrange(4))]
            if self.random.random() < 0.3:
                content = self.word()
            messages.append({"role": role, "content": content})
        params = {"temperature": self.number(), "top_p": self.number()}
        if self.random.random() < 0.5:
            params |= {"seed": self.random.choice([0, 7, -3]), "max_tokens": 64}
        model = {"vendor": "anthropic", "id": "claude"}
        if self.random.random() < 0.5:
            model["fingerprint"] = self.word()
        base = self.random.choice([0, 5, 1_700_000_000_000_000_000, 1_700_000_000_000_000_128])
        return {"messages": messages, "model": model, "params": params, "timestamp_ns_base": base}


def our_chain(program, source, folder):
    path = pathlib.Path(folder) / "source.json"
    path.write_text(json.dumps(source), encoding="utf-8")
    make = [program, "scroll", "from", "anthropic", path]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def claim_of(chain):
    """The claim of the converter, the last message of the first turn."""
    claim = chain[0]["messages"][-1]
    if claim["role"] != "conversion" or claim["content"][0]["verdict"] != "unsigned":
        raise RuntimeError(f"no claim: {claim}")
    return claim


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--threadseal", default="target/debug/threadseal")
    options.add_argument("--cases", type=int, default=200)
    options = options.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.cases):
            source = Maker(seed).source()
            ours = our_chain(options.threadseal, source, folder)
            turns = list(their_turns(source))
            # Only the converter can make the claim about the source.
            turns[0]["messages"].append(claim_of(ours))
            theirs = seal_chain(turns)
            same = [canonical(turn) for turn in ours] == [canonical(turn) for turn in theirs]
            if not (same and verify(ours).ok):
                different += 1
                print(f"DIFFERENT case {seed}: {json.dumps(source)}")
    print(f"anthropic: {options.cases} conversations, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
