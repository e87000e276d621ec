"""Runs a command, and turns its result into an exit code and, if it failed, one clear sentence."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

from cyclopts import App, CycloptsError, Parameter

from frazil.cli.commands import COMMANDS
from frazil.cli.terminal.context import Context
from frazil.errors import ConfigError, FrazilError, Interrupted
from frazil.footprint import own_process
from frazil.version import __version__

PRIVATE = 0o077
"""Files and folders get none of these permissions."""

# A shell reports this code for a process that SIGPIPE ended.
_BROKEN_PIPE = 141


def main() -> NoReturn:
    """Run, clean up, and leave without taking the interpreter down.

    Native threads (granian's, an object store's) may be about to enter the interpreter once more. If it is half gone
    then, they abort the process, and its exit code is lost.
    """
    # This must be set before Arrow is loaded, here and in child processes (docs/decisions/0060).
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    own_process()
    # Files that this process and its children create belong to this user alone (docs/decisions/0073).
    os.umask(PRIVATE)
    code = run(sys.argv[1:])
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            _flush(stream)
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    debug = "--debug" in arguments
    try:
        _dispatch(arguments)
        _flush(sys.stdout)
    except BrokenPipeError:
        return _BROKEN_PIPE
    except SystemExit as ended:
        # rich exits like this when nobody reads the help any more.
        return ended.code if isinstance(ended.code, int) else FrazilError.exit_code
    except FrazilError as error:
        return _fail(str(error), error.exit_code, debug and not isinstance(error, Interrupted))
    except KeyboardInterrupt:
        return _fail("interrupted", Interrupted.exit_code, debug)
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback for people
        hint = "" if debug else "; run with --debug for the traceback"
        return _fail(f"unexpected {type(error).__name__}: {error}{hint}", FrazilError.exit_code, debug)
    return 0


def create_app() -> App:
    app = App(
        name="frazil",
        help="Streams become Apache Iceberg tables exactly once, and can be read from the first millisecond.",
        version=f"frazil {__version__}",
    )
    app.meta.suppress_keyboard_interrupt = False
    for command in COMMANDS:
        app.command(command.target, name=command.name, help=command.help)

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        config: Annotated[Path | None, Parameter(help="Settings file; `frazil.yaml` if there is one.")] = None,
        debug: Annotated[
            bool, Parameter(negative=(), show_default=False, help="Show the traceback of an error.")
        ] = False,
    ) -> None:
        command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        given = {"context": Context(config)} if "context" in ignored else {}
        command(*bound.args, **bound.kwargs, **given)

    return app


def _dispatch(arguments: Sequence[str]) -> None:
    try:
        create_app().meta(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        raise ConfigError(f"{_sentence(error)} Try `frazil --help`.") from error


def _fail(sentence: str, code: int, debug: bool) -> int:
    with contextlib.suppress(OSError):
        if debug:
            traceback.print_exc()
        print(f"frazil: {sentence}", file=sys.stderr)
    return code


def _flush(stream: TextIO | None) -> None:
    """Flush the stream, which is None if the process was started with a closed stdout."""
    if stream is not None:
        stream.flush()


def _sentence(error: CycloptsError) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
