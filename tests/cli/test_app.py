from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from frazil.cli.app import run
from frazil.cli.commands import COMMANDS
from frazil.version import __version__
from tests.cli.support import FRAZIL, TIMEOUT_SECONDS, environment, new_frazil


def test_version(tmp_path: Path) -> None:
    result = new_frazil(tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"frazil {__version__}\n")


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_every_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = new_frazil(tmp_path, *arguments)
    assert result.returncode == 0
    for command in COMMANDS:
        assert command.name in result.stdout
        assert command.help in result.stdout


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"frazil {command}" in capsys.readouterr().out


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = "pydantic", "pyarrow", "starlette", "granian", "obstore", "yaml", "httpx"
    program = (
        "import sys; from frazil.cli.app import run; run(['--help']); "
        f"print('loaded:', [name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run(
        [FRAZIL.with_name("python"), "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("serv",), 'frazil: Unknown command "serv". Did you mean "serve"?'),
        (("config", "show", "--output", "xml"), 'frazil: Invalid value "xml" for --output.'),
        (("config", "check", "extra"), "frazil: Unused Tokens: ['extra']."),
        (("--nope",), 'frazil: Unknown command "--nope".'),
    ],
)
def test_wrong_usage_is_one_sentence_with_a_hint(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    result = new_frazil(tmp_path, *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith(sentence)
    assert result.stderr.endswith("Try `frazil --help`.\n")


def test_an_error_is_a_sentence_and_with_debug_a_traceback(tmp_path: Path) -> None:
    arguments = "config", "check", "--config", "gone.yaml"
    sentence = "frazil: gone.yaml: there is no such configuration file\n"
    assert new_frazil(tmp_path, *arguments).stderr == sentence
    result = new_frazil(tmp_path, "--debug", *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith(sentence)


def test_an_unexpected_error_says_how_to_see_more(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [FRAZIL, "config", "show"],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 10
    assert result.stderr.startswith("frazil: unexpected OSError: [Errno 28]")
    assert result.stderr.endswith("; run with --debug for the traceback\n")


def test_a_reader_that_leaves_early_causes_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text("topics:\n" + "".join(f"  topic{n}:\n" for n in range(1000)))
    process = subprocess.Popen(
        [FRAZIL, "config", "show"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(TIMEOUT_SECONDS), errors) == (141, "")


def test_ctrl_c_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = subprocess.Popen(
            [FRAZIL, "status", "--url", f"127.0.0.1:{silent.getsockname()[1]}"],
            cwd=tmp_path,
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, errors) == (130, "frazil: interrupted\n")
