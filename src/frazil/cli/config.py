"""`frazil config check` and `show` validate the settings and print them."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.output import print_json
from frazil.config.show import as_data, as_yaml

app = App(name="config")


@app.command
def check(*, context: GivenContext) -> None:
    """Say whether the configuration is right, and all that is wrong with it."""
    from frazil.doors.kafka.settings import check_settings as check_kafka
    from frazil.formats.registry.http import RegistryHttp
    from frazil.lake.config_checks import check_settings as check_lake
    from frazil.log.log import check_settings as check_log
    from frazil.store import open_store
    from frazil.topics.dead_letter_settings import check_dead_letter_topics
    from frazil.web.ports.listeners import check_settings as check_listening

    loaded = context.load()
    check_log(loaded.config)
    check_lake(loaded.config, open_store(loaded.config.store, loaded.config.data_dir))
    check_kafka(loaded.config)
    check_listening(loaded.config)
    check_dead_letter_topics(loaded.config)
    if loaded.config.kafka.registry.url:
        RegistryHttp(loaded.config.kafka.registry)
    print(f"{loaded.path or 'the configuration (no file, defaults and environment)'} is right")


@app.command
def show(
    *,
    output: Annotated[Literal["yaml", "json"], Parameter(help="How to print it.")] = "yaml",
    context: GivenContext,
) -> None:
    """Print the configuration in force, secrets hidden."""
    loaded = context.load()
    if output == "json":
        print_json(as_data(loaded))
    else:
        print(as_yaml(loaded), end="")
