from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.web.ports.listeners import check_settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"loki": {"port": 9090}}, "prometheus.port: 9090 is that of loki already"),
        ({"otlp": {"grpc": {"port": 4318}}}, "otlp.grpc.port: 4318 is that of otlp.http already"),
        ({"tempo": {"port": 9095}}, "tempo.grpc.port: 9095 is that of tempo already"),
        ({"server": {"port": 3100}}, "loki.port: 3100 is that of server already"),
        ({"loki": {"port": 9090}, "prometheus": {"host": "0.0.0.0"}}, "prometheus.port: 9090 is that of loki"),
        ({"danube": {"port": 8080}}, "danube.port: 8080 is that of server already"),
        ({"danube": {"tls": {"cert": "no.pem", "key": "no.key"}}}, "danube.tls.cert: no.pem cannot be read"),
        ({"loki": {"tls": {"cert": "no.pem", "key": "no.key"}}}, "loki.tls.cert: no.pem cannot be read"),
    ],
)
def test_what_cannot_be_is_found_before_anybody_listens(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_settings(Config.model_validate(settings))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loki": {"port": 0}, "prometheus": {"port": 0}},
        {"loki": {"port": 9090, "enabled": False}},
        {"loki": {"port": 9090, "host": "127.0.0.2"}},
        {"loki": {"tls": {"cert": "no.pem", "key": "no.key"}, "enabled": False}},
    ],
)
def test_what_can_be_is_let_be(settings: dict[str, Any]) -> None:
    check_settings(Config.model_validate(settings))


def test_files_of_tls_are_looked_at(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    cert.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"otlp.tls.cert: .* is no certificate in PEM"):
        check_settings(Config.model_validate({"otlp": {"tls": {"cert": cert, "key": cert}}}))
