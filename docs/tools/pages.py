"""What the checker of links and the book share: which pages there are, their links and their headings."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Pages of the summary that `make book` writes.
GENERATED = {"commands.md", "python_reference.md"}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
FENCE = re.compile(r"^( *)(```+|~~~+)")


def pages() -> "list[Path]":
    """All pages that are in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def prose(text: str) -> str:
    """A page with its code blanked out, line by line and letter by letter, so that places stay the same."""
    lines, fence = [], None
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found[2]
        elif fence is not None:
            fence = None if line.strip() == fence else fence
        else:
            lines.append(re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda m: " " * len(m[0]), line))
            continue
        lines.append(" " * len(line))
    return "\n".join(lines)


def links(text: str) -> "list[re.Match[str]]":
    """The links and images of a page; group 2 is where they lead."""
    # A link whose text is code is a link all the same: its brackets are looked for where the code is not blanked.
    blank = prose(text)
    return [m for m in LINK.finditer(text) if blank[m.end(1)] == "(" and blank[m.start(1)] in "![" ]


def anchors(text: str) -> "set[str]":
    """The anchors of a page's headings, as GitHub and mdBook make them."""
    found: "dict[str, int]" = {}
    for line in prose_headings(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if i == 0 else f"{slug}-{i}" for slug, last in found.items() for i in range(last + 1)}


def prose_headings(text: str) -> "list[str]":
    """The headings of a page, without their marks."""
    blank = prose(text).split("\n")
    both = zip(text.split("\n"), blank)
    return [line.lstrip("#") for line, bare in both if re.match(r"#{1,6} ", bare)]
