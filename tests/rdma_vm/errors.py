"""What can go wrong, in words that say what to do."""

from __future__ import annotations


class RdmaVmError(Exception):
    """Any failure of this package; its text is for a person."""


class MissingDependencyError(RdmaVmError):
    """A program or a package of the host that is needed is not there."""


class BuildError(RdmaVmError):
    """The guest's image could not be made."""


class GuestError(RdmaVmError):
    """A guest did not start, did not answer, or ended by itself."""
