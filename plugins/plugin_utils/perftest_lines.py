# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines out of whatever a terminal, a pipe, a log collector or a mail has made of perftest's output."""

from __future__ import annotations

import re

# No line of perftest is longer; what exceeds it is noise, and bounding it keeps every pattern linear.
MAX_LINE = 4096

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?|[@-Z\\^_]|[ -/][0-~]|[0-9=>])"
)
_WORD = re.compile(r"\w")
_CONTROL = {code: None for code in range(32) if code not in (9, 10)} | {127: None}

_TYPOGRAPHY = {0xA0: " ", 0x202F: " ", 0xFEFF: None, 0x200B: None, 0x2018: "'", 0x2019: "'"}

# What loggers put before a line. Tried only where the table's header had something before it.
_PREFIX = re.compile(
    r"(?:\s*(?:"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"  # ISO time
    r"|(?:[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"  # syslog time
    r"|\[[^\]]{1,128}\](?:<std\w{3}>:)?"  # [pod/name/container], [1,0]<stdout>:
    r"|std(?:out|err) [FP]"  # CRI log
    r"|[\w.-]{1,64}(?:\[\d{1,8}\])?:(?=\s)"  # host: or unit[pid]:
    r"|[#>|*]"  # quoted or commented out
    r"))+(?=\s)",
    re.ASCII,
)


def clean_lines(text: str) -> list[str]:
    """Return the lines of a text without escapes, control characters and carriage returns."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\n" not in text and "\\n" in text:
        # A text that went through a JSON or YAML dump and was never decoded.
        text = text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t")
    if not text.isascii():
        # What web pages and word processors put in the place of blanks and apostrophes.
        text = text.translate(_TYPOGRAPHY)
    if not text.isprintable():
        text = text.translate(_CONTROL)
    return text.split("\n")


def is_prefix(text: str) -> bool:
    """Tell whether what stands before a table's header is a log prefix, or marks only."""
    if not text or not _WORD.search(text):
        return True
    match = _PREFIX.match(text + " ")
    return match is not None and match.end() == len(text)


def without_prefix(line: str, header_prefix: str) -> str:
    """Return a line without the log prefix that the table's header also carried."""
    if not header_prefix:
        return line
    if line.startswith(header_prefix):
        return line[len(header_prefix) :]
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line
