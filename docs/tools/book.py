"""Stages the pages for mdBook under target/book/: `make book` calls it, then mdBook.

The sources stay readable where they are; in the book, links to pages lead to pages, links to other files to copies of them, and the
references of commands and of Python stand beside.
"""

import os
import shutil
import sys
from pathlib import Path

from pages import DOCS, GENERATED, ROOT, links

BOOK = ROOT / "target" / "book"
SOURCE = BOOK / "src"

CONFIG = """[book]
title = "Motes"
description = "Maximum-likelihood training of latent variable models with clouds of particles"
language = "en"

[output.html]
default-theme = "light"
smart-punctuation = false
no-section-label = true
additional-css = ["motes.css"]

[output.html.fold]
enable = false

[output.html.playground]
runnable = false
"""

# Pages have room for what a terminal shows; options stay on one line; tables that are wider than the page scroll, others begin at its left;
# on a phone they scroll before sentences in them become columns of single words.
STYLE = """:root { --content-max-width: 900px; }
td:first-child code { white-space: nowrap; }
.content table { margin-left: 0; }
@media (max-width: 620px) { .content td:not(:first-child):not([style]) { min-width: 14rem; } }
"""


def place(file: Path) -> Path:
    """Where a page stands in the book, below its source."""
    within = file.relative_to(ROOT)
    if within.name == "README.md" and within.parent != Path("."):
        return Path(f"{within.parent.name}.md")  # mdBook would rename it, but not the links that lead to it
    return within.relative_to("docs") if within.parts[0] == "docs" else within


def staged(page: Path, text: str, chapters: "set[Path]") -> str:
    """A page with its links as they are in the book; files that it links to are copied there."""
    home, parts, end = place(page).parent, [], 0
    for link in links(text):
        label, target = link[1], link[2]
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve()
        if not path or "://" in target or target.startswith("mailto:") or (page.parent == DOCS and path in GENERATED):
            continue
        if file.is_dir():
            new = label.lstrip("!").strip("[]") if not label.startswith("!") else label
        else:
            to = place(file)
            if file not in chapters and file.suffix not in {".svg", ".png", ".jpg"}:
                to = Path("source") / f"{file.relative_to(ROOT)}.txt"
            if file not in chapters:
                (SOURCE / to).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, SOURCE / to)
            relative = Path(os.path.relpath(SOURCE / to, SOURCE / home)).as_posix()
            new = f"{label}({relative}{'#' + anchor if anchor else ''})"
        parts += [text[end : link.start()], new]
        end = link.end()
    return "".join(parts) + text[end:]


def main() -> None:
    commands, python = map(Path, sys.argv[1:3])
    shutil.rmtree(BOOK, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    (BOOK / "book.toml").write_text(CONFIG, encoding="utf-8")
    (BOOK / "motes.css").write_text(STYLE, encoding="utf-8")
    summary = DOCS / "SUMMARY.md"
    targets = [link[2] for link in links(summary.read_text(encoding="utf-8"))]
    chapters = {(DOCS / t).resolve() for t in targets if t and t not in GENERATED}
    for page in [summary, *sorted(chapters)]:
        to = SOURCE / place(page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(staged(page, page.read_text(encoding="utf-8"), chapters), encoding="utf-8")
    shutil.copyfile(commands, SOURCE / "commands.md")
    shutil.copyfile(python, SOURCE / "python_reference.md")


if __name__ == "__main__":
    main()
