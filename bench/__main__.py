"""`python -m bench`: all figures in one table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    catch_up,
    checksums,
    formats,
    freshness,
    hot,
    kafka,
    log,
    log_extra,
    log_levels,
    machine,
    otlp,
    pipeline,
    pipeline_extra,
    serve_memory,
    table,
    topics,
)
from bench.figures import Bench, Figure

BENCHMARKS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "append": log.append,
    "concurrent": log.concurrent,
    "batches": log.batches,
    "reopen": log.reopen,
    "seal": log.seal,
    "followers": log_extra.followers,
    "memory": log_extra.memory,
    "idle": log_extra.idle,
    "moved": pipeline.moved,
    "small": pipeline.small,
    "commit": pipeline_extra.commit,
    "checksums": checksums.checksums,
    "backlog-memory": pipeline_extra.backlog_memory,
    "idle-serve": pipeline_extra.idle_serve,
    "kafka-log": kafka.to_log,
    "kafka-table": kafka.to_table,
    "freshness": freshness.freshness,
    "hot": hot.hot,
    "formats": formats.formats,
    "otlp-log": otlp.to_log,
    "otlp-small": otlp.small,
    "otlp-sizes": otlp.sizes,
    "otlp-levels": log_levels.levels,
    "otlp-memory": otlp.memory,
    "otlp-table": otlp.to_table,
    "serve-memory": serve_memory.serve_memory,
    "topics-ack": topics.acknowledged,
    "topics-store": topics.in_process,
    "topics-fan-out": topics.fan_out,
    "topics-latency": topics.end_to_end,
    "topics-catch-up": catch_up.caught_up,
}


def main() -> None:
    options = _options()
    described = machine.describe()
    figures: list[Figure] = []
    for name in options.only or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="frazil-bench-", dir=options.dir) as folder:
            figures += BENCHMARKS[name](Bench(Path(folder), options.quick, _say))
    described["load average"] += f" at the start, {machine.load()} at the end"
    if options.output == "json":
        print(table.as_json(described, figures))
    else:
        table.show(described, figures)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--dir", type=Path, default=Path(), help="a folder on the disk to measure (default: here)")
    return parser.parse_args()


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
