"""Lists the commands. They are imported only when they run, so that `frazil --help` stays quick."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    name: str
    target: str
    """This is `module:name` of a function or, for a group of commands, of a cyclopts `App`."""
    help: str


COMMANDS = (
    Command("serve", "frazil.cli.serve:serve", "Run Frazil on this machine."),
    Command("ingest", "frazil.cli.ingest:ingest", "Run only the doors that take records in."),
    Command("pipeline", "frazil.cli.pipeline:pipeline", "Run only the pipeline that moves the log into tables."),
    Command("query", "frazil.cli.query:query", "Run only what answers queries."),
    Command("load", "frazil.cli.load:load", "Append files to a topic."),
    Command("sql", "frazil.cli.sql:sql", "Ask for rows of topics."),
    Command("logs", "frazil.cli.logs:logs", "Search log lines, and follow them."),
    Command("topics", "frazil.cli.topics.app:app", "See topics, produce to them, read them."),
    Command("kafka", "frazil.cli.kafka:app", "Try what the Kafka door needs, before it runs."),
    Command("dlq", "frazil.cli.dlq:app", "See records that could not become rows, and try them again."),
    Command("log", "frazil.cli.log:app", "Look into the log, check it, repair it."),
    Command("maintain", "frazil.cli.maintain:app", "Keep tables and log small and quick."),
    Command("txlog", "frazil.cli.txlog:app", "See what the pipeline did."),
    Command("status", "frazil.cli.status:status", "Ask a running Frazil how it is."),
    Command("config", "frazil.cli.config:app", "Check and show the configuration."),
)
