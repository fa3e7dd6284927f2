# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of a perftest tool, as given to exec or as left in a log behind a prompt."""

from __future__ import annotations

import re
import shlex

# Short options that take a value (from --help of 6.06 and 6.29, all tools).
_VALUED = set("cdDfiIlLmMnopqQrsStTuwWxyAB")
_VALUED_LONG = frozenset(
    [
        "ib-dev",
        "size",
        "iters",
        "iter",
        "port",
        "ib-port",
        "qp",
        "mtu",
        "gid-index",
        "duration",
        "use_cuda",
        "use_cuda_bus_id",
        "use_rocm",
        "connection",
        "tx-depth",
        "rx-depth",
        "sl",
        "margin",
        "cq-mod",
        "inline_size",
        "post_list",
        "recv_post_list",
        "qp-timeout",
        "output",
        "force-link",
        "tclass",
        "tos",
        "limit_bw",
        "limit_msgrate",
        "out_json_file",
        "retry_count",
        "outs",
        "hop_limit",
        "rate_limit",
        "burst_size",
        "pkey_index",
    ]
)
_TOOL = re.compile(
    r"(?:^|[\s/])((?:ib_(?:write|read|send|atomic)|raw_ethernet)_(?:bw|lat))(?=\s|$)", re.ASCII
)
_LONG = {
    "a": "all",
    "b": "bidirectional",
    "c": "connection",
    "d": "ib-dev",
    "D": "duration",
    "n": "iters",
    "q": "qp",
    "R": "rdma_cm",
    "s": "size",
    "z": "comm_rdma_cm",
}


class Command:
    """A perftest command line: tool, options, and the server's address if it is a client's."""

    def __init__(self, tool: str, words: list[str]) -> None:
        self.tool = tool
        self.options: dict[str, str | bool] = {}
        self.server: str | None = None
        position = 0
        while position < len(words):
            word = words[position]
            position += 1
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                if not equals and name in _VALUED_LONG and position < len(words):
                    value, equals = words[position], "="
                    position += 1
                self.options[name] = value if equals else True
            elif len(word) > 1 and word[0] == "-":
                position = self._short(word[1:], words, position)
            elif word in (">", ">>", "|", "&", "2>&1", "&&", ";") or word.startswith("#"):
                break
            else:
                self.server = word

    def _short(self, letters: str, words: list[str], position: int) -> int:
        for at, letter in enumerate(letters):
            name = _LONG.get(letter, letter)
            if letter not in _VALUED:
                self.options[name] = True
                continue
            if letters[at + 1 :]:
                self.options[name] = letters[at + 1 :]
            elif position < len(words):
                self.options[name] = words[position]
                position += 1
            break
        return position

    @property
    def role(self) -> str:
        return "client" if self.server else "server"

    def has(self, *names: str) -> bool:
        """Tell whether one of the options was given."""
        return any(name in self.options for name in names)

    def gpu(self) -> bool:
        """Tell whether GPU memory was asked for."""
        return any(name.startswith(("use_cuda", "use_rocm")) for name in self.options)


def read_command(words: list[str] | str | None) -> Command | None:
    """Return the perftest command in a list of arguments (wrappers such as stdbuf before it are skipped)."""
    if isinstance(words, str):
        match = _TOOL.search(words)
        return _from_text(words, match) if match else None
    if not words:
        return None
    for at, word in enumerate(words):
        match = _TOOL.search(str(word))
        if match and str(word).endswith(match.group(1)):
            return Command(match.group(1), [str(w) for w in words[at + 1 :]])
    return None


def prompt_command(line: str) -> Command | None:
    """Return the command that a line shows behind a shell prompt, or None."""
    match = _TOOL.search(line)
    if match is None:
        return None
    before = line[: match.start()].rstrip()
    bare = before == "" or before in (".", "./") or before.endswith((".", "/"))
    if not bare and not re.search(r"[$#>%](?:\s|$)", before):
        return None
    return _from_text(line, match)


def _from_text(line: str, match: re.Match) -> Command:
    rest = line[match.end() :][:1024]
    try:
        words = shlex.split(rest, comments=False)
    except ValueError:
        words = rest.split()
    return Command(match.group(1), words)
