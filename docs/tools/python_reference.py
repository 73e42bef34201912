"""Prints the reference of the Python package as Markdown, from its docstrings; needs the package and NumPy alone."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import motes
from motes._constraints import Constraint
from motes._decoder import DecoderFit

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
            about, _, inner = textwrap.dedent("\n".join(lines[i + 1 : end])).partition("\n\n")
            about = " ".join(about.split())
            name = f"`{name}`" if colon or name.startswith("*") else plain(name)
            out.append(f"- {name}{f' ({plain(kind)})' if colon else ''}{': ' if about else ''}{plain(about)}")
            for said in filter(None, inner.split("\n")):  # a list in the list: what the command line has, too
                name, _, text = said.strip().partition(" : ")
                out.append(f"  - `{name}`: {text}")
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
    if issubclass(kind, Constraint):  # what the other methods are for is fitting
        return []
    for base in reversed(kind.__mro__):
        if base is kind or (base.__module__.startswith("motes") and base.__name__.startswith("_")):
            found.update({n: v for n, v in vars(base).items() if not n.startswith("_")})
    return [(n, v) for n, v in found.items() if inspect.getdoc(getattr(kind, n)) and (callable(v) or isinstance(v, (property, classmethod, staticmethod)))]


def show(name: str, call: str, doc: str, level: str) -> None:
    print(f"\n{level} {name}\n")
    if call:
        lines = textwrap.wrap(name + call, 88, subsequent_indent="    ", break_long_words=False)
        print("```python", *lines, "```\n", sep="\n")
    print(markdown(doc))


def entry(name: str, thing: object, level: str) -> None:
    show(name, signature(thing) if callable(thing) else "", inspect.getdoc(thing) or "", level)


def of_class(name: str, kind: type, public: "list[str]") -> None:
    entry(name, kind, "##")
    bases = [f"`motes.{b.__name__}`" for b in kind.__mro__[1:] if b.__name__ in public]
    if bases:
        print(f"\nIt has all that {', '.join(bases)} has.")
    for member, value in members(kind):
        thing = getattr(kind, member)
        if isinstance(value, property):
            print(f"\n**`{member}`**: {markdown(inspect.getdoc(thing) or '')}")
        else:
            entry(f"{kind.__name__}.{member}", thing, "###")


def of_source(module: str, name: str) -> None:
    """The same for a class of a module that cannot be imported without PyTorch or scikit-learn: it is read, not run."""
    source = Path(motes.__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    (kind,) = (n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == name)
    functions = {n.name: n for n in kind.body if isinstance(n, ast.FunctionDef)}

    def call(function: ast.FunctionDef) -> str:
        function.args.args = function.args.args[1:]
        for argument in ast.walk(function.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return f"({ast.unparse(function.args)})"

    show(f"motes.{module}.{name}", call(functions.pop("__init__")), ast.get_docstring(kind) or "", "##")
    for method in functions.values():
        doc = ast.get_docstring(method)
        if doc and not method.name.startswith("_") and not method.decorator_list:
            show(f"{name}.{method.name}", call(method), doc, "###")


def main() -> None:
    print("# Python reference\n\nGenerated from the docstrings; `help(motes.fit)` shows the same. [The guide](python.md) comes first.\n")
    names = [n for n in motes.__all__ if not n.startswith("__")]
    functions = [n for n in names if not inspect.isclass(getattr(motes, n))]
    print("\n## Functions")
    for name in functions:
        entry(f"motes.{name}", getattr(motes, name), "###")
    for name in (n for n in names if n not in functions):
        of_class(f"motes.{name}", getattr(motes, name), names)
    of_source("torch", "Decoder")
    of_source("jax", "Decoder")
    of_class("motes.torch.DecoderFit", DecoderFit, names)
    of_source("sklearn", "EmpiricalBayesLogisticRegression")


if __name__ == "__main__":
    main()
