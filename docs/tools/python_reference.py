"""Prints the reference of the Python package as Markdown, from its docstrings; needs the package and NumPy alone."""

import inspect
import re
import textwrap

import motes

SECTION = re.compile(r"-{3,}$")


def plain(text: str) -> str:
    """A sentence without the marks of reStructuredText."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text)
    return text.replace("``", "`")


def markdown(doc: str) -> str:
    """A docstring as Markdown: sections in bold, arguments as a list, examples as code."""
    out: "list[str]" = []
    lines, i, listing = doc.split("\n"), 0, False
    while i < len(lines):
        line = lines[i]
        if line.startswith(">>>"):
            end = next((j for j in range(i, len(lines)) if not lines[j].strip()), len(lines))
            out += ["```python", *lines[i:end], "```"]
            i = end
        elif i + 1 < len(lines) and line.strip() and SECTION.match(lines[i + 1]):
            out += [f"**{line.strip()}**", ""]
            listing = line.strip() in {"Parameters", "Other parameters", "Attributes", "Returns", "Raises", "Yields"}
            i += 2
        elif listing and line.strip() and not line.startswith(" "):
            end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() and not lines[j].startswith(" ")), len(lines))
            name, colon, kind = line.partition(" : ")
            about = " ".join(textwrap.dedent("\n".join(lines[i + 1 : end])).split())
            name = f"`{name}`" if colon else plain(name)
            out.append(f"- {name}{f' ({plain(kind)})' if colon else ''}{': ' if about else ''}{plain(about)}")
            if end < len(lines) and end + 1 < len(lines) and SECTION.match(lines[end + 1]):
                out.append("")
            i = end
        else:
            out.append(plain(line.strip() if line.startswith("    ") else line))
            i += 1
    return "\n".join(out).strip()


def signature(thing: object) -> str:
    """How something is called, without annotations, which the text explains."""
    try:
        parts = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for n, p in parts.parameters.items() if n not in {"self", "cls"}]
    return str(parts.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def members(kind: type) -> "list[tuple[str, object]]":
    """What a class of ours shows, with what private bases add to it; public ones have entries of their own."""
    found: "dict[str, object]" = {}
    for base in reversed(kind.__mro__):
        if base is kind or (base.__module__.startswith("motes") and base.__name__.startswith("_")):
            found.update({n: v for n, v in vars(base).items() if not n.startswith("_")})
    return [(n, v) for n, v in found.items() if inspect.getdoc(getattr(kind, n)) and (callable(v) or isinstance(v, (property, classmethod, staticmethod)))]


def entry(name: str, thing: object, level: str) -> None:
    call = signature(thing) if callable(thing) else ""
    print(f"\n{level} {name}\n")
    if call:
        lines = textwrap.wrap(name + call, 88, subsequent_indent="    ", break_long_words=False)
        print("```python", *lines, "```\n", sep="\n")
    print(markdown(inspect.getdoc(thing) or ""))


def main() -> None:
    print("# Python reference\n\nGenerated from the docstrings; `help(motes.fit)` shows the same. [The guide](python.md) comes first.\n")
    names = [n for n in motes.__all__ if not n.startswith("__")]
    functions = [n for n in names if not inspect.isclass(getattr(motes, n))]
    print("\n## Functions")
    for name in functions:
        entry(f"motes.{name}", getattr(motes, name), "###")
    for name in (n for n in names if n not in functions):
        kind = getattr(motes, name)
        entry(f"motes.{name}", kind, "##")
        bases = [f"`motes.{b.__name__}`" for b in kind.__mro__[1:] if b.__name__ in names]
        if bases:
            print(f"\nIt has all that {', '.join(bases)} has.")
        for member, value in members(kind):
            thing = getattr(kind, member)
            if isinstance(value, property):
                print(f"\n**`{member}`**: {markdown(inspect.getdoc(thing) or '')}")
            else:
                entry(f"{name}.{member}", thing, "###")


if __name__ == "__main__":
    main()
