"""Prints what CHANGELOG.md says of the version in Cargo.toml."""

import re
import sys

from pages import ROOT


def main() -> None:
    version = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.M)[1]
    parts = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    found = [part for part in parts if part.startswith(f"[{version}]")]
    if not found:
        sys.exit(f"CHANGELOG.md says nothing of {version}; add a section [{version}]")
    print(found[0].partition("\n")[2].strip())


if __name__ == "__main__":
    main()
