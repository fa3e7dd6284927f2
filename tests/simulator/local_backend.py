"""The default backend: commands are coroutines, scripts run under a real `sh` in the pod's fake tree."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from . import programs
from .machine import Machine
from .perftest.options import TOOLS
from .perftest.tool import World, perftest
from .podtree import PodTrees
from .processes import Context, Process, Program
from .wrapper import scripts

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LocalBackend:
    """Finds and starts the programs of a pod."""

    def __init__(self, world: World, trees: PodTrees, lacks: Callable[[Machine], set[str]]) -> None:
        """lacks: the commands that are missing in a pod's image."""
        self._world = world
        self._trees = trees
        self._lacks = lacks
        self._plain: dict[str, Program] = {
            "true": programs.true,
            "false": programs.false,
            "echo": programs.echo,
            "sleep": programs.sleep,
            "cat": programs.cat,
            "hostname": programs.hostname,
            "kill": programs.kill,
            "env": programs.env(self._find),
            "stdbuf": programs.stdbuf(self._find),
            "timeout": programs.timeout(self._find),
        }

    def knows(self, machine: Machine, command: str) -> bool:
        """Whether the container has an executable of this name."""
        name = command.rsplit("/", 1)[-1]
        if name in self._lacks(machine):
            return False
        if command.startswith("/") and not command.startswith(("/bin/", "/usr/bin/")):
            return False
        return (
            name in self._plain
            or name in TOOLS
            or (name in ("sh", "nvidia-smi") and (name == "sh" or bool(machine.gpus)))
        )

    def start(self, machine: Machine, argv: list[str], env: dict[str, str]) -> Process:
        """Starts a command in a pod."""
        program = self._program(machine, argv)
        return machine.processes.spawn(argv, env, program, machine)

    def _program(self, machine: Machine, argv: list[str]) -> Program:
        start, kill = scripts()
        if argv[:2] == ["sh", "-c"] and len(argv) > 2:
            if argv[2] == start:
                return self._wrapped
            if argv[2] == kill:
                return self._kill
        return self._resolved

    async def _wrapped(self, context: Context) -> int:
        """START: says what the command's pid is, then becomes the command."""
        argv = context.argv[4:]
        if not argv or not self.knows(context.machine, argv[0]):
            context.stderr.write("\x01nofile\x01")
            return 127
        context.stderr.write(f"\x01pid:{context.process.pid}\x01")
        context.process.argv = argv
        return await self._resolved(replace(context, argv=argv))

    async def _kill(self, context: Context) -> int:
        """KILL: signals a process group, or the process."""
        name, pid = context.argv[4:6]
        return 0 if programs.send_signal(context, name, pid) else 1

    async def _resolved(self, context: Context) -> int:
        program = self._find(context)
        if program is None:
            context.stderr.write(f"sh: 1: {context.argv[0]}: not found\n")
            return 127
        return await program(context)

    def _find(self, context: Context) -> Program | None:
        command = context.argv[0]
        if not self.knows(context.machine, command):
            return None
        name = command.rsplit("/", 1)[-1]
        if name in TOOLS:

            async def run(inner: Context) -> int:
                return await perftest(self._world, inner)

            return run
        if name in self._plain:
            return self._plain[name]
        return self._real

    async def _real(self, context: Context) -> int:
        """A real process in the pod's fake tree."""
        root, tools = self._trees.of(context.machine, self._lacks(context.machine))
        env = {**context.env, "FABRIC_PROBE_ROOT": root, "PATH": f"{tools}:{SYSTEM_PATH}"}
        argv = list(context.argv)
        name = argv[0].rsplit("/", 1)[-1]
        for folder in tools.split(":"):
            if os.path.exists(os.path.join(folder, name)):
                argv[0] = os.path.join(folder, name)
                break
        return await programs.real(replace(context, argv=argv, env=env))
