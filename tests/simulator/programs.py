"""The plain tools of a container, as coroutines: stdbuf, timeout, sleep, cat, echo and their like, and a real `sh` for scripts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import replace

from .processes import SIGNALS, Context, Output, Process, Program

# Finds the program for a command in a pod; None when there is none.
Finder = Callable[[Context], Program | None]


async def true(_context: Context) -> int:
    """Does nothing, successfully."""
    return 0


async def false(_context: Context) -> int:
    """Does nothing, unsuccessfully."""
    return 1


async def echo(context: Context) -> int:
    """echo [-n] WORD…"""
    words = context.argv[1:]
    end = "\n"
    if words[:1] == ["-n"]:
        words, end = words[1:], ""
    context.stdout.write(" ".join(words) + end)
    return 0


async def sleep(context: Context) -> int:
    """Real seconds: this is the one tool whose time is not compressed."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    total = 0.0
    if len(context.argv) < 2:
        context.stderr.write("sleep: missing operand\nTry 'sleep --help' for more information.\n")
        return 1
    for word in context.argv[1:]:
        number, factor = (word[:-1], units[word[-1]]) if word[-1:] in units else (word, 1)
        try:
            total += float(number.replace("infinity", "inf")) * factor
        except ValueError:
            context.stderr.write(
                f"sleep: invalid time interval '{word}'\nTry 'sleep --help' for more information.\n"
            )
            return 1
    if total == float("inf"):
        await asyncio.Event().wait()
    await asyncio.sleep(total)
    return 0


async def cat(context: Context) -> int:
    """stdin, or files of the pod's tree."""
    status = 0
    for name in context.argv[1:] or ["-"]:
        if name == "-":
            while data := await context.stdin.read():
                context.stdout.write(data)
                context.stdout.flush()
            continue
        try:
            with open(context.env.get("FABRIC_PROBE_ROOT", "") + name, "rb") as handle:
                context.stdout.write(handle.read())
        except OSError as error:
            context.stderr.write(f"cat: {name}: {error.strerror}\n")
            status = 1
    return status


async def hostname(context: Context) -> int:
    """Prints the pod's name."""
    context.stdout.write(context.machine.name + "\n")
    return 0


async def kill(context: Context) -> int:
    """kill [-s NAME | -NAME] PID: signals virtual processes of the pod."""
    words = context.argv[1:]
    name = "TERM"
    if words[:1] == ["-s"]:
        name, words = words[1], words[2:]
    elif words and words[0].startswith("-") and words[0] != "--":
        name, words = words[0][1:], words[1:]
    words = [w for w in words if w != "--"]
    return 0 if all(send_signal(context, name, w) for w in words) else 1


def send_signal(context: Context, name: str, target: str) -> bool:
    """Signals a process (or, with a minus, its group, which is the process itself); says so when there is none."""
    numbers = {str(v): k for k, v in SIGNALS.items()}
    name = numbers.get(name, name.removeprefix("SIG"))
    process = (
        context.machine.processes.find(abs(int(target))) if target.lstrip("-").isdigit() else None
    )
    if process is None or not process.alive:
        context.stderr.write("sh: 1: kill: No such process\n\n")
        return False
    if name != "0":
        process.signal(name)
    return True


def with_inner(finder: Finder, context: Context, argv: list[str], missing: str) -> Program | None:
    """The program that another one is to run in its place; complains when the pod has none."""
    program = finder(replace(context, argv=argv))
    if program is None:
        context.stderr.write(missing)
    return program


def stdbuf(finder: Finder) -> Program:
    """stdbuf -oL|-o0|-oN [-eL …] COMMAND…"""

    async def run(context: Context) -> int:
        words = context.argv[1:]
        modes = {"L": "line", "0": "none"}
        stdout, stderr = context.stdout, context.stderr
        while words and words[0].startswith("-"):
            option = words.pop(0)
            letter, value = option[1:2], option[2:] or (words.pop(0) if words else "")
            if option.startswith("--"):
                name, _unused, value = option[2:].partition("=")
                letter = {"output": "o", "error": "e", "input": "i"}.get(name, "?")
            if letter == "o":
                stdout = Output(stdout.pipe, modes.get(value, "block"))
            elif letter == "e":
                stderr = Output(stderr.pipe, modes.get(value, "block"))
        if not words:
            context.stderr.write(
                "stdbuf: missing operand\nTry 'stdbuf --help' for more information.\n"
            )
            return 125
        text = f"stdbuf: failed to run command '{words[0]}': No such file or directory\n"
        program = with_inner(finder, context, words, text)
        if program is None:
            return 127
        inner = replace(context, argv=words, stdout=stdout, stderr=stderr)
        context.process.argv = words
        status = await program(inner)
        stdout.flush()
        stderr.flush()
        return status

    return run


def timeout(finder: Finder) -> Program:
    """timeout [-s SIGNAL] [-k N] SECONDS COMMAND…; 124 when the time was up."""

    async def run(context: Context) -> int:
        words, name = context.argv[1:], "TERM"
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option.startswith("-s"):
                name = option[2:] or words.pop(0)
            elif option in ("-k", "--kill-after"):
                words.pop(0)
        seconds, words = float(words[0].rstrip("s")), words[1:]
        text = f"timeout: failed to run command '{words[0]}': No such file or directory\n"
        program = with_inner(finder, context, words, text)
        if program is None:
            return 127
        process = context.machine.processes.spawn(words, context.env, program, context.machine)
        pumps = [
            asyncio.ensure_future(_copy(process.stdout.read, context.stdout)),
            asyncio.ensure_future(_copy(process.stderr.read, context.stderr)),
        ]
        expired = False
        try:
            try:
                await asyncio.wait_for(asyncio.shield(process.wait()), seconds or None)
            except TimeoutError:
                expired = True
                process.signal(name.removeprefix("SIG"))
                await process.wait()
            await asyncio.gather(*pumps)
        finally:
            process.signal("KILL")
        return 124 if expired else process.exit_code

    return run


async def _copy(read: Callable[[], object], output: Output) -> None:
    while data := await read():  # type: ignore[misc]
        output.write(data)
        output.flush()


def env(finder: Finder) -> Program:
    """env [NAME=VALUE…] [COMMAND…]"""

    async def run(context: Context) -> int:
        words, values = context.argv[1:], dict(context.env)
        while words and "=" in words[0]:
            name, _unused, value = words.pop(0).partition("=")
            values[name] = value
        if not words:
            context.stdout.write("".join(f"{k}={v}\n" for k, v in values.items()))
            return 0
        text = f"env: '{words[0]}': No such file or directory\n"
        program = with_inner(finder, context, words, text)
        return await program(replace(context, argv=words, env=values)) if program else 127

    return run


# Scripts run for real; not too many at a time.
_SHELLS: asyncio.Semaphore | None = None


def _shells() -> asyncio.Semaphore:
    global _SHELLS
    if _SHELLS is None:
        _SHELLS = asyncio.Semaphore(4)
    return _SHELLS


async def real(context: Context) -> int:
    """Runs a real command of this machine: `sh`, or a script of the pod's own folder of tools."""
    limit = _shells() if context.argv[1:2] == ["-c"] else None
    if limit is not None:
        await limit.acquire()
    try:
        return await _real(context)
    finally:
        if limit is not None:
            limit.release()


async def _real(context: Context) -> int:
    child = await asyncio.create_subprocess_exec(
        *context.argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=context.env,
        cwd="/",
        start_new_session=True,
    )

    def forward(name: str) -> Callable[[], None]:
        def send() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, SIGNALS[name])

        return send

    for name in SIGNALS:
        if name != "KILL":
            context.process.handlers[name] = forward(name)
    pumps = [
        asyncio.ensure_future(_pump(child.stdout, context.stdout)),
        asyncio.ensure_future(_pump(child.stderr, context.stderr)),
    ]
    feeder = asyncio.ensure_future(_feed(context, child.stdin))
    try:
        await asyncio.gather(*pumps)
        status = await child.wait()
        return status if status >= 0 else 128 - status
    finally:
        feeder.cancel()
        for pump in pumps:
            pump.cancel()
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


async def _pump(reader: asyncio.StreamReader | None, output: Output) -> None:
    assert reader is not None
    while data := await reader.read(65536):
        output.write(data)
        output.flush()


async def _feed(context: Context, writer: asyncio.StreamWriter | None) -> None:
    assert writer is not None
    try:
        while data := await context.stdin.read():
            writer.write(data)
            await writer.drain()
        writer.close()
    except (ConnectionError, asyncio.CancelledError):
        pass


def of(process: Process) -> str:
    """A process' command for reports."""
    return " ".join(process.argv)
