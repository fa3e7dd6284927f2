"""Makes `ansible_collections.k8si.fabric` importable when pytest runs in a clone."""

from __future__ import annotations

import sys
from pathlib import Path

# ansible-test brings its own loader and copies the tree; a clone has .build/collections (make env).
_collections = Path(__file__).resolve().parents[2] / ".build" / "collections"
if _collections.is_dir() and str(_collections) not in sys.path:
    sys.path.insert(0, str(_collections))
