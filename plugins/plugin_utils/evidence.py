# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the links measured so far prove about each port and path. Pure; planner and judge share it.

Everything is told apart by role: a port may be fine as client (in a write test it sends) and bad as server. A link that passed
proves both of its ends, each in its role. A link that did not is a strike against both, and says nothing by itself about which.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CLIENT, SERVER = "client", "server"
ROLES = (CLIENT, SERVER)
GOOD, BAD, SUSPECT = "good", "bad", "suspect"
STRIKES = 2  # different partners with whom a port must fail before it is called bad

# (client rail, server rail): the same number twice but in tests across rails
Lane = tuple[int, int]


def lane_of(link: dict) -> Lane:
    """Which rails a link joins. `rail` is the server's, `client_rail` is there only where it differs."""
    return link.get("client_rail", link["rail"]), link["rail"]


@dataclass
class Evidence:
    """The state of every port and path.

    runs: (client id, server id) -> [passed] of every time that the link was measured.
    states: (endpoint id, role) -> `good` (passed with somebody), `bad` (passed with nobody, failed with two partners that are
    good), `suspect` (failed, and not yet told).
    wide: lanes on which no link passed and more than one pair was measured.
    """

    runs: dict[tuple[str, str], list[bool]] = field(default_factory=dict)
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    wide: set[Lane] = field(default_factory=set)

    def failed_with(self, endpoint: str, role: str) -> list[str]:
        """Partners with whom the endpoint in this role never passed."""
        return [other for other, ok in self._met.get((endpoint, role), {}).items() if not ok]

    def is_good(self, endpoint: str) -> bool:
        """Proven in every role it was measured in, and measured at all."""
        states = [s for s in (self.states.get((endpoint, r)) for r in ROLES) if s]
        return bool(states) and all(s == GOOD for s in states)

    def is_clean(self, endpoint: str) -> bool:
        """Good, and no link of it ever failed."""
        return self.is_good(endpoint) and not any(self.failed_with(endpoint, r) for r in ROLES)

    def __post_init__(self) -> None:
        self._met: dict[tuple[str, str], dict[str, bool]] = {}


def weigh(links: list[dict], strict: bool = True) -> Evidence:
    """Weighs judged links.

    Args:
        links: {client, server (ids), client_node, server_node, rail, client_rail (where it differs), verdict}.
        strict: a port is bad only after two strikes by partners that are themselves good; otherwise one of the two is
            enough, which is what is left to say when no more can be measured.
    """
    found = Evidence()
    lanes: dict[Lane, list[dict]] = {}
    for link in links:
        lanes.setdefault(lane_of(link), []).append(link)
    for lane, mine in lanes.items():
        nodes = {k[side] for k in mine for side in ("client_node", "server_node")}
        if len(nodes) > 2 and not any(k["verdict"] == "passed" for k in mine):
            found.wide.add(lane)
    for link in links:
        passed = link["verdict"] == "passed"
        client, server = link["client"], link["server"]
        found.runs.setdefault((client, server), []).append(passed)
        if lane_of(link) in found.wide:
            continue  # what is common to all tells nothing of one
        for own, role, other in ((client, CLIENT, server), (server, SERVER, client)):
            row = found._met.setdefault((own, role), {})
            row[other] = row.get(other, False) or passed
    for key, row in found._met.items():
        found.states[key] = GOOD if any(row.values()) else SUSPECT
    condemned = []
    for (own, role), row in found._met.items():
        if found.states[own, role] == GOOD:
            continue
        opposite = SERVER if role == CLIENT else CLIENT
        by_good = sum(found.states[other, opposite] == GOOD for other in row)
        if by_good >= STRIKES or (not strict and by_good and len(row) >= STRIKES):
            condemned.append((own, role))
    found.states.update(dict.fromkeys(condemned, BAD))
    return found
