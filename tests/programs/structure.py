"""Print figures of the code's structure: packages, imports, names, types, constants, functions.

    python tests/programs/structure.py [ROOT] [--list participles|classes|constants|any|long]

ROOT is another checkout to compare with. Counts are made from the source text alone; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("leanrag_engine", "server")
IRREGULAR = {
    "shown",
    "told",
    "written",
    "drawn",
    "said",
    "kept",
    "held",
    "left",
    "sent",
    "given",
    "taken",
    "known",
    "spent",
    "heard",
    "built",
    "met",
    "broken",
    "spoken",
    "bound",
    "chosen",
    "found",
    "fitted",
    "driven",
    "hidden",
    "lost",
    "made",
    "meant",
    "paid",
    "sold",
    "sought",
    "spread",
    "struck",
    "thrown",
    "won",
    "worn",
    "led",
    "stuck",
    "understood",
    "begun",
}
NOT_PARTICIPLES = {
    "embed",
    "need",
    "seed",
    "feed",
    "speed",
    "shed",
    "exceed",
    "proceed",
    "indeed",
    "bed",
    "red",
    "zed",
}


def source_files(root: Path) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def is_participle(name: str) -> bool:
    """Whether a function's name begins with a past participle: ``joined``, ``shown_by``."""
    first = name.strip("_").split("_")[0]
    return first in IRREGULAR or (first.endswith("ed") and first not in NOT_PARTICIPLES)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods, without properties: a property names a thing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(each) for each in node.decorator_list}
            if not decorators & {"property", "cached_property"}:
                yield node


def imported_units(path: Path, root: Path) -> Iterator[tuple[str, ...]]:
    """What a module imports of the project's own packages, as paths of their parts."""
    package = path.relative_to(root).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = tuple(node.module.split(".")) if node.module else ()
        base = (*package[: len(package) - node.level + 1], *module) if node.level else module
        base = ("server", *base[1:]) if base[:1] == ("leanrag_mcp",) else base
        if base[:1] and base[0] in PACKAGES:
            yield from ((*base, alias.name) for alias in node.names)


def unit_of(parts: tuple[str, ...], root: Path) -> str:
    """The top-level package or module below ``leanrag_engine`` or ``server`` that an import names."""
    if len(parts) < 2:
        return parts[0]
    place = root.joinpath(*parts[:2])
    return "/".join(parts[:2]) if place.is_dir() or place.with_suffix(".py").exists() else parts[0]


def top_level_edges(root: Path) -> set[tuple[str, str]]:
    edges = set()
    for path in source_files(root):
        here = unit_of(path.relative_to(root).with_suffix("").parts, root)
        for parts in imported_units(path, root):
            there = unit_of(parts, root)
            if there != here:
                edges.add((here, there))
    return edges


def most_entries(root: Path) -> tuple[int, str]:
    """The folder with most entries, ``__init__.py`` and ``py.typed`` left out."""
    counts = []
    for package in PACKAGES:
        for folder in [root / package, *(each for each in (root / package).rglob("*") if each.is_dir())]:
            if folder.name == "__pycache__":
                continue
            left_out = {"__init__.py", "py.typed", "__pycache__"}
            entries = [each for each in folder.iterdir() if each.name not in left_out]
            counts.append((len(entries), str(folder.relative_to(root))))
    return max(counts)


def figures(root: Path) -> tuple[dict[str, object], dict[str, list[str]]]:
    """The figures by name, and the places behind those that have some."""
    places: dict[str, list[str]] = defaultdict(list)
    lines = 0
    count = 0
    lengths = []
    classes: dict[str, list[str]] = defaultdict(list)
    any_count = 0
    for path in source_files(root):
        text = path.read_text(encoding="utf-8")
        where = str(path.relative_to(root))
        lines += len(text.splitlines())
        tree = ast.parse(text)
        for function in functions(tree):
            count += 1
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            lengths.append((length, f"{where}:{function.lineno} {function.name}"))
            if is_participle(function.name):
                places["participles"].append(f"{where}:{function.lineno} {function.name}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(f"{where}:{node.lineno}")
            elif isinstance(node, ast.Name) and node.id == "Any":
                any_count += 1
                places["any"].append(f"{where}:{node.lineno}")
        for statement in tree.body:
            if is_numeric_constant(statement):
                places["constants"].append(f"{where}:{statement.lineno} {ast.unparse(statement)[:80]}")
    several = {name: found for name, found in classes.items() if len(found) > 1}
    places["classes"] = [f"{name}: {', '.join(found)}" for name, found in sorted(several.items())]
    places["long"] = [f"{length} {where}" for length, where in sorted(lengths, reverse=True)[:15]]
    edges = top_level_edges(root)
    units = Counter(end for edge in edges for end in edge)
    engine = [each for each in units if each.startswith("leanrag_engine")]
    ordered = sorted(length for length, _ in lengths)
    return {
        "top-level units of leanrag_engine": len(engine),
        "top-level units, server's included": len(units),
        "import edges between engine units": sum(
            a.startswith("leanrag_engine") and b.startswith("leanrag_engine") for a, b in edges
        ),
        "import edges between all units": len(edges),
        "most entries in a folder": "{} ({})".format(*most_entries(root)),
        "lines": lines,
        "functions": count,
        "participle functions": f"{len(places['participles'])} ({100 * len(places['participles']) / count:.1f} %)",
        "class names with several meanings": len(several),
        "uses of Any": any_count,
        "numeric module constants": len(places["constants"]),
        "longest functions": [length for length, _ in sorted(lengths, reverse=True)[:5]],
        "median and 99th percentile of function lines": (
            ordered[len(ordered) // 2],
            ordered[int(len(ordered) * 0.99)],
        ),
    }, places


def is_numeric_constant(statement: ast.stmt) -> bool:
    """Whether a statement of a module binds an upper-case name to a number or to a tuple of numbers."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return False
    numbers = value.elts if isinstance(value, ast.Tuple) else [value]
    return (
        isinstance(target, ast.Name)
        and target.id.isupper()
        and bool(numbers)
        and all(is_number(each) for each in numbers)
    )


def is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def main() -> None:
    arguments = sys.argv[1:]
    wanted = arguments[arguments.index("--list") + 1] if "--list" in arguments else ""
    roots = [each for each in arguments if each not in ("--list", wanted)]
    found, places = figures(Path(roots[0]) if roots else Path(__file__).parents[2])
    for name, value in found.items():
        print(f"{name:50} {value}")
    if wanted:
        print(*places[wanted], sep="\n")


if __name__ == "__main__":
    main()
