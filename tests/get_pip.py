"""Stands in for the get-pip script that `ansible-test sanity` downloads, where only the PyPI registry is reached.

pip comes out of Python itself (ensurepip); the versions that ansible-test asks for are then installed with it.
"""

from __future__ import annotations

import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
# --no-setuptools and --no-wheel are words of the real script, not of pip
wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)
