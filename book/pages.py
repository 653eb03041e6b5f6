"""Lays out the pages of the documentation site, and checks the links of the built one.

pages.py stage REPOSITORY PAGES PROGRAM   the pages, each where the repository has it, and the reference
pages.py check HTML                       every link of the site leads to a page and to a place on it
"""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SOURCE = "https://github.com/threadseal/threadseal/blob/main/"
# The target of a Markdown link; none of these pages has a parenthesis in one.
LINK = re.compile(r"\]\(([^)\s]+)\)")
# The pages that are made here.
MADE = "\n- [Commands](reference/commands.md)\n- [JSON output](reference/schemas.md)"
FENCE = re.compile(r"^\s*```")


def stage(root: Path, pages: Path, program: str) -> None:
    """Copies what the table of contents names, and writes the reference."""
    contents = (root / "book/SUMMARY.md").read_text().replace("](../", "](")
    contents = contents.replace("# Reference\n", f"# Reference\n{MADE}", 1)
    pages.mkdir(parents=True)
    named = set(LINK.findall(contents))
    reference = {"reference/commands.md": commands(program), "reference/schemas.md": schemas(root)}
    for name in named - set(reference):
        write(pages / name, with_links(root, name, (root / name).read_text(), named))
    for name, text in reference.items():
        write(pages / name, text)
    write(pages / "SUMMARY.md", contents)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_links(root: Path, name: str, text: str, named: set[str]) -> str:
    """The text of a page, with links to the repository for files that the site does not have."""

    def target(found: re.Match[str]) -> str:
        path, _, place = found[1].partition("#")
        if not path or urlsplit(path).scheme:
            return found[0]
        wanted = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if wanted in named:
            # The page of a README is the index of its folder.
            return re.sub(r"README\.md", "index.md", found[0])
        if not (root / wanted).exists():
            sys.exit(f"{name}: {found[1]} leads nowhere")
        return f"]({SOURCE}{wanted}{'#' + place if place else ''})"

    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        inside ^= bool(FENCE.match(line))
        lines.append(line if inside else LINK.sub(target, line))
    return "".join(lines)


def commands(program: str) -> str:
    """The help of each command, as the program prints it."""
    text = ["# Commands\n\nWhat `threadseal COMMAND --help` prints, for each command.\n"]

    def describe(words: list[str]) -> None:
        run = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True)
        text.append(f"\n{'#' * min(len(words) + 1, 4) if words else '##'} threadseal {' '.join(words)}".rstrip())
        text.append(f"\n\n```text\n{run.stdout.rstrip()}\n```\n")
        for name in below(run.stdout):
            if name != "help":
                describe([*words, name])

    describe([])
    return "".join(text)


def below(printed: str) -> list[str]:
    """The commands that a help lists: words with two blanks before them, under a heading."""
    names, listing = [], False
    for line in printed.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            listing = not re.match(r"(Arguments|Options|Global options|Examples|Exit codes|Usage|Environment|Topics)\b", line)
        elif listing and (found := re.match(r"  ([a-z][a-z-]*)(  |$)", line)):
            names.append(found[1])
    return names


def schemas(root: Path) -> str:
    """A table of the members of each schema."""
    text = ["# JSON output\n\nThe members of each object that `--json` prints. `*` marks those that are always there.\n"]
    folder = root / "spec/schemas"
    for path in sorted(folder.glob("*.schema.json")):
        schema = json.loads(path.read_text())
        name = schema.get("properties", {}).get("schema", {}).get("const", path.name.removesuffix(".schema.json"))
        text.append(f"\n## {name}\n\n")
        text += [f"{cell(schema[key])}\n\n" for key in ("title", "description") if key in schema]
        text.append(f"[`{path.name}`]({SOURCE}spec/schemas/{path.name})\n\n")
        members = list(rows(schema, ""))
        if members:
            text.append("| member | type | |\n|---|---|---|\n")
            text += [f"| `{name}`{mark} | {cell(kind)} | {cell(what)} |\n" for name, mark, kind, what in members]
    return "".join(text)


def rows(schema: dict, before: str):
    """The members of an object, and of the objects in it."""
    required = schema.get("required", [])
    for name, member in schema.get("properties", {}).items():
        kind = member.get("type") or member.get("$ref", "").rpartition("/")[2] or ("a word" if "enum" in member or "const" in member else "")
        kind = " or ".join(kind) if isinstance(kind, list) else kind
        words = member.get("enum") or ([member["const"]] if "const" in member else [])
        what = " ".join([member.get("description", ""), *(f"`{json.dumps(word)}`" for word in words)]).strip()
        yield before + name, " *" if name in required else "", kind, what
        inner = member.get("items") if member.get("type") == "array" else member
        if isinstance(inner, dict):
            yield from rows(inner, f"{before}{name}{'[]' if inner is not member else ''}.")


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


class Places(HTMLParser):
    """The links of a page, and the places that links lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.update(value for key in ("id", "name") if (value := given.get(key)))
        link = given.get("href" if tag in ("a", "link") else "src")
        if link:
            self.links.append(link)


def check(html: Path) -> None:
    """Ends with the links that lead nowhere."""
    pages = {path.resolve(): Places(path.read_text()) for path in html.rglob("*.html")}
    wrong, links = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            links += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_there = unquote(parts.fragment) in pages[target].places if target in pages else target.exists()
            if not is_there and path.name not in ("print.html", "404.html", "toc.html"):
                wrong.append(f"{path.relative_to(html.resolve())}: {link}")
    print(f"{len(pages)} pages, {links} links, {len(wrong)} lead nowhere")
    if wrong or links < 1000:
        sys.exit("\n".join(wrong) or "there are too few links")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stage", root, pages, program]:
            stage(Path(root), Path(pages), program)
        case ["check", html]:
            check(Path(html))
        case _:
            sys.exit(__doc__)
