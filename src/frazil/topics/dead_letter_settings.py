"""Names of topics in the settings, looked at before somebody needs them."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.errors import ConfigError, InvalidTopic
from frazil.topics.names import parse_name


def check_dead_letter_topics(config: Config) -> None:
    """`ConfigError` says which topic for dead letters cannot be one."""
    for topic, settings in config.topics.items():
        letters = settings.subscriptions.dead_letter_topic
        if letters is None:
            continue
        key = f"topics.{topic}.subscriptions.dead_letter_topic"
        try:
            found, own = (parse_name(each, config.lake.namespace) for each in (letters, topic))
        except InvalidTopic as error:
            raise ConfigError(f"{key}: {error}") from error
        if found == own:
            raise ConfigError(f"{key}: {letters!r} is the topic itself; its dead letters need another")
        if found.partition is not None:
            raise ConfigError(f"{key}: {letters!r} is one partition of {found.path}; name the topic")
