# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines of perftest are warnings, which are errors, and which are neither.

Only the sorting is here; what an error means is the failure catalogue's business.
"""

from __future__ import annotations

import re

_WARNING = re.compile(
    r"Conflicting CPU frequency values detected"
    r"|BW peak won't be measured"
    r"|Disabling dynamic polling"
    r"|Device not recognized to implement inline feature"
    r"|Requested mtu is higher than active mtu|Changing to active mtu"
    r"|Max msg size in UD is MTU|Changing to this MTU"
    r"|inline size set to"
    r"|is not supported with device memory send tests: setting"
    r"|less than minimum CQE number"
    r"|RLIMIT_MEMLOCK is|severely limit memory registrations"
    r"|Using sampled CPU speed"
    r"|Blueflame is not supported"
    r"|Correlation coefficient r\^2"
    r"|failed to open|Failed to open (?:json|file)"
    r"|User stopped traffic|Client closed connection"
    r"|does not support the kernel ABI"
    r"|\b[Ww][Aa][Rr][Nn](?:[Ii][Nn][Gg])?\b"
)
_NOISE = re.compile(
    r"\s*(?:$"
    r"|Defaulted container "
    r"|Unable to use a TTY"
    r"|If you don't see a command prompt"
    r"|command terminated with exit code"
    r"|scnt=\d+, ccnt=\d+"
    r"|Please check command line and run again"
    r"|-{8,}$"
    r")"
)
# Words by which a line of stdout (or of both streams in one) is an error. stderr needs none.
_ERROR_WORD = re.compile(
    r"error|fail|couldn't|could not|unable|cannot|can't|unsupported|not support|unrecognized|unknown option"
    r"|invalid|mismatch|not found|denied|refused|timed? ?out|did not|assertion|segmentation|incompatib"
    r"|exceeded|should be|no such|unexpected|does not exist|doesn't exist|bad address|returned \d"
    r"|incorrect|state is (?:down|init|armed|active_defer)|no ib devices|couldn",
    re.IGNORECASE,
)
_KEPT_WARNINGS = 200


def is_warning(line: str) -> bool:
    """Tell whether a line is a warning: the run goes on after it."""
    return _WARNING.search(line) is not None


def is_noise(line: str) -> bool:
    """Tell whether a line of stderr says nothing about the run (kubectl's remarks, blank lines, details)."""
    return _NOISE.match(line) is not None


def has_error_word(line: str) -> bool:
    """Tell whether a line that is not part of the normal output reads like an error."""
    return _ERROR_WORD.search(line) is not None


class Messages:
    """Warnings and errors in the order they came, each text once."""

    def __init__(self) -> None:
        self._warnings: dict[str, None] = {}
        self._errors: dict[str, None] = {}

    def add(self, line: str, stream: str) -> None:
        """Sort a line that is no part of banner or table. stream: "stdout" or "stderr"."""
        if is_noise(line):
            return
        text = line.strip()
        if is_warning(line):
            if len(self._warnings) < _KEPT_WARNINGS:
                self._warnings[text] = None
        elif (stream == "stderr" or has_error_word(line)) and len(self._errors) < _KEPT_WARNINGS:
            self._errors[text] = None

    @property
    def warnings(self) -> list[str]:
        return list(self._warnings)

    @property
    def errors(self) -> list[str]:
        return list(self._errors)
