"""Checks every link between pages of this repository, or of the site that is named: `python3 docs/tools/check_links.py [SITE]`.

It needs no network and nothing but Python.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

from pages import DOCS, GENERATED, ROOT, anchors, links, pages


def main() -> int:
    wrong, count, texts = [], 0, {page: page.read_text(encoding="utf-8") for page in pages()}
    for page, text in texts.items():
        for link in links(text):
            target = unquote(link[2])
            if target.startswith(("http://", "https://", "mailto:")) or (not target and page.name == "SUMMARY.md"):
                continue
            count += 1
            where = f"{page.relative_to(ROOT)}:{text[: link.start()].count(chr(10)) + 1}"
            path, _, anchor = target.partition("#")
            if page == DOCS / "SUMMARY.md" and path in GENERATED:
                continue
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or not file.is_relative_to(ROOT):
                wrong.append(f"{where}: there is no {target}")
            elif anchor and file.suffix == ".md" and anchor not in anchors(texts[file]):
                wrong.append(f"{where}: {path or page.name} has no heading #{anchor}")
    summary = texts[DOCS / "SUMMARY.md"]
    for page in sorted(DOCS.glob("*.md")):
        if page.name != "SUMMARY.md" and f"({page.name})" not in summary:
            wrong.append(f"docs/SUMMARY.md: {page.name} is missing; add it where readers would look for it")
    print("\n".join(wrong) or f"{count} links in {len(texts)} pages lead somewhere")
    return 1 if wrong else 0


def site(root: Path) -> int:
    wrong, count = [], 0
    for page in sorted(root.rglob("*.html")):
        if page.name in {"404.html", "print.html", "toc.html"}:  # their links are relative to other places
            continue
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                count += 1
                if not (page.parent / unquote(target)).exists():
                    wrong.append(f"{page.relative_to(root)}: there is no {target}")
    print("\n".join(wrong) or f"{count} links of the site lead somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(site(Path(sys.argv[1])) if sys.argv[1:] else main())
