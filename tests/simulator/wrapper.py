"""The two scripts that a batch of execs sends with every command: to start it, and to signal it later.

They are interpreted here, in process, so that an exec costs no fork. The collection's own constants are used where they can be
loaded; the copies below serve until then, and a test compares the two.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

START = (
    'command -v "$1" >/dev/null 2>&1 || { printf "\\001nofile\\001" >&2; exit 127; }; '
    'printf "\\001pid:%s\\001" "$$" >&2; exec "$@"'
)
KILL = 'kill -s "$1" -- "-$2" 2>/dev/null || kill -s "$1" "$2"'

_HOME = Path(__file__).parents[2] / "plugins" / "module_utils" / "exec_batch.py"


@cache
def scripts() -> tuple[str, str]:
    """START and KILL of the collection, or the copies here when its module is not there or needs what is missing."""
    if _HOME.exists():
        found = constants(_HOME.read_text())
        if found is not None:
            return found
    return (START, KILL)


def constants(source: str) -> tuple[str, str] | None:
    """Reads the two constants out of a module's source without running it."""
    import ast

    values: dict[str, str] = {}
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            if (
                isinstance(target, ast.Name)
                and target.id in ("START", "KILL")
                and value is not None
            ):
                try:
                    values[target.id] = ast.literal_eval(value)
                except ValueError:
                    return None
    return (values["START"], values["KILL"]) if len(values) == 2 else None
