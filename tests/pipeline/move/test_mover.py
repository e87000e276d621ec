from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from frazil.errors import DiskFull, FrazilError, SparkFailed
from frazil.pipeline.move.mover import to_frazil_error

QUERY = "[STREAM_FAILED] Query [id = 1f, runId = 2e] terminated with exception: "
TRACE = """Failed to plan: Traceback (most recent call last):
  File "source.py", line 1, in main
AttributeError: 'int' object has no attribute 'offset'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
UnboundLocalError: nothing
"""


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (f"{QUERY}Python worker failed to connect back.", SparkFailed, "Python worker failed to connect back."),
        (f"{QUERY}{TRACE}", SparkFailed, "Failed to plan: AttributeError: 'int' object has no attribute 'offset'"),
        (f"{QUERY}failed\n {DiskFull.__module__}.DiskFull: no room here\n", DiskFull, "no room here"),
        ("", SparkFailed, "PySparkException"),
    ],
)
def test_an_error_of_spark_says_what_it_is_about_and_not_in_which_query(
    text: str, kind: type[FrazilError], message: str
) -> None:
    error = to_frazil_error(PySparkException(text))
    assert (type(error), str(error)) == (kind, message)
