"""Clients that trust the certificate of a telemetry door get in, and unusable files are explained."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import httpx
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource

from frazil.config.model import Config
from frazil.config.sections.endpoint import TlsConfig
from frazil.errors import ConfigError
from frazil.web.tls import check_tls
from tests.cli.support import frazil
from tests.doors.otlp.support import LOGS
from tests.doors.telemetry.support import PROTOBUF, Served, logs_request, rows, run, settings
from tests.servers.secure import certificate

BODY = logs_request("a").SerializeToString()
PATHS = {"otlp": "/v1/logs", "loki": "/otlp/v1/logs", "prometheus": "/api/v1/otlp/v1/metrics"}


class Files(NamedTuple):
    authority: Path
    cert: Path
    key: Path


def make(folder: Path) -> Files:
    folder.mkdir()
    authority = folder / "authority.pem"
    return Files(authority, *certificate(folder, authority))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make(tmp_path_factory.mktemp("tls") / "others")


def secured(folder: Path, files: Files) -> Config:
    tls = {"cert": files.cert, "key": files.key}
    return settings(folder, otlp={"tls": tls}, loki={"tls": tls}, prometheus={"tls": tls})


def http(served: Served, authority: Path, seconds: float) -> Any:
    return HttpLogs(endpoint=f"{served.url('otlp')}/v1/logs", certificate_file=str(authority), timeout=seconds)


def rpc(served: Served, authority: Path, seconds: float) -> Any:
    trusted = grpc.ssl_channel_credentials(authority.read_bytes())
    return GrpcLogs(endpoint=f"https://127.0.0.1:{served.door.grpc_port}", credentials=trusted, timeout=seconds)


def export(exporter: Any, text: str) -> LogRecordExportResult:
    """Sends as the SDK does, with its own retries."""
    record = ReadableLogRecord(LogRecord(timestamp=1_700_000_000_000_000_000, body=text), Resource({}))
    records: Sequence[ReadableLogRecord] = [record]
    try:
        result: LogRecordExportResult = exporter.export(records)
        return result
    finally:
        exporter.shutdown()


@pytest.mark.parametrize("exporter", [http, rpc])
def test_exporters_need_the_authority(
    exporter: Callable[[Served, Path, float], Any],
    files: Files,
    others: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = secured(tmp_path, files)
    # If these are set, the HTTP client trusts them instead of the file that it is given.
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)

    async def scenario(served: Served) -> None:
        assert served.url("otlp").startswith("https://")
        refused = await asyncio.to_thread(export, exporter(served, others.authority, 2), "not trusted")
        assert refused is LogRecordExportResult.FAILURE
        taken = await asyncio.to_thread(export, exporter(served, files.authority, 60), "trusted")
        assert taken is LogRecordExportResult.SUCCESS
        assert (await asyncio.to_thread(rows, config))["body"].to_pylist() == ["trusted"]

    run(config, scenario)


@pytest.mark.parametrize("api", PATHS)
def test_every_port_speaks_tls_and_nothing_else(api: str, files: Files, tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        url, plain = served.url(api), served.url(api).replace("https://", "http://")
        trusting = ssl.create_default_context(cafile=str(files.authority))
        async with httpx.AsyncClient(verify=trusting) as client:
            for _ in range(2):
                with pytest.raises(httpx.TransportError):
                    await served.client.post(url + PATHS[api], content=BODY, headers=PROTOBUF)
                with pytest.raises(httpx.TransportError):
                    await served.client.post(plain + PATHS[api], content=BODY, headers=PROTOBUF)
                answer = await client.post(url + PATHS[api], content=b"", headers=PROTOBUF)
                assert answer.status_code == 200

    run(secured(tmp_path, files), scenario)


def test_grpc_speaks_tls_and_nothing_else(files: Files, tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        address = f"127.0.0.1:{served.door.grpc_port}"
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(LOGS)(BODY, timeout=20)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        trusted = grpc.ssl_channel_credentials(files.authority.read_bytes())
        async with grpc.aio.secure_channel(address, trusted) as channel:
            assert await channel.unary_unary(LOGS)(BODY) == b""
        assert served.stored() == 1

    run(secured(tmp_path, files), scenario)


Wrong = Callable[[Path, Files, Files], tuple[Path, Path, str]]
"""Returns a certificate, a key, and the expected error; made in a folder from valid files and files of others."""


def _missing(folder: Path, files: Files, _: Files) -> tuple[Path, Path, str]:
    return folder / "none.pem", files.key, f"cert: {folder / 'none.pem'} cannot be read: No such file or directory"


def _folder(folder: Path, files: Files, _: Files) -> tuple[Path, Path, str]:
    return files.cert, folder, f"key: {folder} cannot be read: Is a directory"


def _other_key(_: Path, files: Files, others: Files) -> tuple[Path, Path, str]:
    return files.cert, others.key, f"key: {others.key} is not the key of {files.cert}"


def _swapped(_: Path, files: Files, __: Files) -> tuple[Path, Path, str]:
    return files.key, files.cert, f"cert: {files.key} is no certificate in PEM"


def _no_key(folder: Path, files: Files, _: Files) -> tuple[Path, Path, str]:
    text = folder / "text.pem"
    text.write_text("no key")
    return files.cert, text, f"key: {text} is no key in PEM"


def _passphrase(folder: Path, files: Files, _: Files) -> tuple[Path, Path, str]:
    locked = folder / "locked.key"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(files.key), "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    return files.cert, locked, f"key: {locked} has a passphrase"


@pytest.mark.parametrize("wrong", [_missing, _folder, _other_key, _swapped, _no_key, _passphrase])
def test_files_that_are_of_no_use_are_explained(wrong: Wrong, files: Files, others: Files, tmp_path: Path) -> None:
    cert, key, reason = wrong(tmp_path, files, others)
    with pytest.raises(ConfigError) as caught:
        check_tls(TlsConfig(cert=cert, key=key), "otlp.tls")
    assert str(caught.value).startswith(f"otlp.tls.{reason}")


@pytest.mark.parametrize("api", PATHS)
def test_it_does_not_start_with_them(api: str, files: Files, others: Files, tmp_path: Path) -> None:
    section = f"FRAZIL__{api.upper()}__"
    ports = ["HTTP__PORT", "GRPC__PORT"] if api == "otlp" else ["PORT"]
    told = frazil(
        tmp_path,
        "ingest",
        **{f"{section}{name}": "0" for name in ports},
        **{
            f"{section}ENABLED": "true",
            f"{section}TLS__CERT": str(files.cert),
            f"{section}TLS__KEY": str(others.key),
        },
        FRAZIL__SERVER__PORT="0",
    )
    assert told.returncode == 1
    assert told.stderr.splitlines()[-1] == f"frazil: {api}.tls.key: {others.key} is not the key of {files.cert}"
