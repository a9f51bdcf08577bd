"""Check that imports only go down the layers, and that nothing forbidden is called. Prints what is wrong; exit status 1.

    python tools/check_imports.py [REPOSITORY]

Layers, lowest first: a module may import from its own layer and from those before it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

LAYERS = (("errors", "bf16", "bf16_numba", "files"), ("ptx",), ("machine",), ("cuda",), ("lower",), ("circuit",), ("compile",), ("qwen",),
          ("engine",), ("merge",), ("runtime",), ("audit",), ("monitor",), ("chat",), ("cli", "__main__"))
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

REFERENCE_MAY = ("qgpu.errors", "qgpu.ptx", "qgpu.machine.description")
"""All that the reference takes from the package it judges."""

MAY_USE_REFERENCE = frozenset({"runtime", "audit", "cli", "__main__"})
FOREIGN = frozenset({"torch", "transformers", "pickle", "marshal", "shelve"})
"""Never imported in the package or the reference."""


def room(module: str) -> str:
    """The layer's name of a module: "qgpu.ptx.model" is in "ptx", "qgpu.cli_export" in "cli", "qgpu" in ""."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else ""
    return "cli" if name.startswith("cli_") else name


def imported(tree: ast.AST, module: str, is_package: bool):
    """(line, full module name) of every import, relative ones resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[:len(parts) - node.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            if base == module.split(".")[0] or base == "qgpu":
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, base


def forbidden_calls(tree: ast.AST):
    """(line, what) of eval, exec and shell=True."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                yield node.lineno, f"calls {node.func.id}"
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False):
                    yield node.lineno, "runs a shell"


def problems_in(path: Path, module: str, is_package: bool) -> list[str]:
    """What is wrong with one file, each as `path:line: text`."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    found = [f"{path}:{line}: {what}" for line, what in forbidden_calls(tree)]
    own = room(module)
    for line, name in imported(tree, module, is_package):
        top = name.split(".")[0]
        wrong = ""
        if top in FOREIGN:
            wrong = f"imports {top}"
        elif module.startswith("qgpu_reference"):
            if top == "qgpu" and not any(name == may or name.startswith(may + ".") for may in REFERENCE_MAY):
                wrong = f"the reference imports {name}"
        elif top == "qgpu_reference":
            if own not in MAY_USE_REFERENCE and own:
                wrong = f"{own} imports the reference"
        elif top == "qgpu" and own:
            other = room(name)
            if own not in RANK:
                wrong = f"{own!r} is not among the layers"
            elif other and other not in RANK and not other.startswith("__"):
                wrong = f"imports {name}, which is not among the layers"
            elif other in RANK and RANK[other] > RANK[own]:
                wrong = f"{own} imports {other}, a layer above it"
        if wrong:
            found.append(f"{path}:{line}: {wrong}")
    return found


def check(repository: Path) -> list[str]:
    """All problems of src/qgpu and reference/."""
    found = []
    for folder, package in ((repository / "src" / "qgpu", "qgpu"), (repository / "reference", "qgpu_reference")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            module = ".".join([package, *(parts[:-1] if is_package else parts)])
            found += problems_in(path, module, is_package)
    return found


def main(arguments: list[str]) -> int:
    repository = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = check(repository)
    print("\n".join(found) if found else "imports: in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
