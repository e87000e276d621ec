"""`python -m bench` runs the benchmarks and shows all figures in one table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    catch_up,
    checksums,
    compaction,
    formats,
    freshness,
    hot,
    kafka,
    log,
    log_behaviour,
    log_levels,
    log_queries,
    machine,
    metrics,
    otlp,
    pipeline,
    pipeline_behaviour,
    promql,
    queries,
    report,
    scans,
    serve_memory,
    topics,
)
from bench.figures import Bench, Figure

BENCHMARKS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "append": log.append,
    "concurrent": log.concurrent,
    "batches": log.batches,
    "reopen": log.reopen,
    "seal": log.seal,
    "followers": log_behaviour.followers,
    "memory": log_behaviour.memory,
    "idle": log_behaviour.idle,
    "moved": pipeline.moved,
    "small": pipeline.small,
    "commit": pipeline_behaviour.commit,
    "checksums": checksums.checksums,
    "compaction": compaction.compaction,
    "backlog-memory": pipeline_behaviour.backlog_memory,
    "idle-serve": pipeline_behaviour.idle_serve,
    "kafka-log": kafka.to_log,
    "kafka-table": kafka.to_table,
    "freshness": freshness.freshness,
    "hot": hot.hot,
    "formats": formats.formats,
    "logs": log_queries.logs,
    "promql": promql.promql,
    "otlp-log": otlp.to_log,
    "otlp-small": otlp.small,
    "otlp-sizes": otlp.sizes,
    "otlp-levels": log_levels.levels,
    "otlp-memory": otlp.memory,
    "otlp-table": otlp.to_table,
    "read-plan": scans.plan,
    "read-scan": scans.selective,
    "read-newest": scans.newest,
    "serve-memory": serve_memory.serve_memory,
    "doors-lateness": queries.lateness,
    "sql-count": queries.sql_count,
    "metrics": metrics.metrics,
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
        print(report.as_json(described, figures))
    else:
        report.show(described, figures)


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
