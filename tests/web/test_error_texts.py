from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from frazil.doors.telemetry.refusals import refusal
from frazil.errors import ConfigError, FrazilIoError, PartitionDamaged, RequestError
from frazil.web.error_texts import text_for_client
from tests.cli.support import serving

MARK = "m4rk3d"


def test_what_is_about_the_request_is_told() -> None:
    assert text_for_client(RequestError("The key is not base64.")) == "The key is not base64."
    assert text_for_client("plain words") == "plain words"


def test_the_rest_is_in_the_log_under_a_reference(caplog: pytest.LogCaptureFixture) -> None:
    errors = [FrazilIoError(f"Reading /srv/{MARK}/wal: denied."), ValueError(f"postgresql://me:{MARK}@db")]
    for error in errors:
        text = text_for_client(error)
        assert MARK not in text
        reference = text.rpartition(" ")[2].rstrip(".")
        (record,) = [each for each in caplog.records if getattr(each, "reference", None) == reference]
        assert MARK in record.__dict__["reason"]
        assert text_for_client(error) == text, "those who try again share a reference"
    assert len(caplog.records) == len(errors)


def test_a_stopped_partition_names_the_command_and_no_folder() -> None:
    command = f"FRAZIL__DATA_DIR=/{MARK} frazil log repair orders/0 --yes"
    text = text_for_client(PartitionDamaged("orders/0", f"/{MARK}/0.wal is damaged", command))
    assert "frazil log repair orders/0" in text
    assert MARK not in text


def test_settings_are_not_told_and_what_is_wrong_with_a_question_is(tmp_path: Path) -> None:
    (tmp_path / "frazil.yaml").write_text(f"topics: {{orders: {{tenant_column: {MARK}}}}}")
    with serving(tmp_path) as served, httpx.Client(base_url=served.url, timeout=60) as client:
        assert client.put("/topics/orders").status_code == 201
        assert client.post("/topics/orders", content=b"one").status_code == 200
        answer = client.post("/sql", content="SELECT * FROM orders")
        assert (answer.status_code, MARK in answer.text) == (500, False), answer.text
        assert "The server is not set up for this. Its log says why, under the reference " in answer.json()["error"]
        question = client.get("/hot/orders/key/1")
        assert (question.status_code, "has no keys" in question.text) == (400, True)
    assert (
        text_for_client(ConfigError(f"{tmp_path}/{MARK}: tables cannot be in a folder whose name has '#'.")).count(
            MARK
        )
        == 0
    )


def test_the_doors_for_telemetry_tell_as_little() -> None:
    refused = refusal(FrazilIoError(f"Appending to /srv/{MARK}/0.wal: denied."))
    assert (refused.http, MARK in refused.reason) == (503, False)


def test_no_answer_names_a_folder_or_a_password(tmp_path: Path) -> None:
    """The catalog is a folder where a file should be, and its address has a password."""
    folder = tmp_path / MARK
    folder.mkdir()
    (folder / "catalog").mkdir()
    settings = {
        "FRAZIL__LAKE__PROPERTIES__TYPE": "sql",
        "FRAZIL__LAKE__PROPERTIES__URI": f"sqlite:///{folder / 'catalog'}?password={MARK}",
        "FRAZIL__LAKE__PROPERTIES__WAREHOUSE": f"file://{folder / 'warehouse'}",
    }
    with serving(folder, settings) as served, httpx.Client(base_url=served.url, timeout=60) as client:
        answers = [client.put("/topics/orders"), client.post("/topics/orders", content=b"one")]
        # The claim can no longer be read, so nobody may write.
        answers += [client.put("/topics/visits"), client.put("/topics/visits/subscriptions/s")]
        claim = folder / "data" / "store" / "queue" / "visits" / "00000" / "writer.json"
        claim.parent.mkdir(parents=True)
        claim.mkdir()
        refused = [
            client.post("/topics/visits", content=b"one"),
            client.get("/topics/orders", params={"offset": 0}),
            client.get("/topics/orders/stats"),
            client.get("/topics/nothing", params={"offset": 0}),
            client.get("/hot/nothing"),
            client.get("/hot/orders/key/1", params={"cold": "true"}),
            client.post("/sql", content="SELECT * FROM orders"),
            client.post("/sql", content="SELECT * FROM nothing"),
            client.post("/sql", content="SELECT * FROM read_csv('/etc/passwd')"),
            client.delete("/topics/orders", params={"drop_table": "true"}),
        ]
        for answer in (*answers, *refused):
            assert MARK not in answer.text, (answer.request.url, answer.text)
        assert sum(answer.is_error for answer in refused) >= len(refused) - 1, "or it would show nothing"
