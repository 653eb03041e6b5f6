"""Fails unless every cell of these answers of `agmi-check --json` is VERDICT, one for each edit.

    check_cells.py VERDICT FILE…
"""

import json
import pathlib
import sys

EDITS = [f"T{number}" for number in range(1, 10)]


def main(verdict, paths):
    wrong = 0
    for path in paths:
        answer = json.loads(pathlib.Path(path).read_text())
        edits = [cell["edit"].split()[0] for cell in answer["edits"]]
        if edits != EDITS:
            sys.exit(f"{answer['tool']}: the edits are {edits}")
        for cell in answer["edits"]:
            if cell["verdict"] != verdict:
                wrong += 1
                print(f"{answer['tool']}: {cell['edit']}: {cell['verdict']}: {cell['detail']}")
    print(f"{len(paths) * len(EDITS) - wrong} cells say {verdict}, {wrong} do not")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
