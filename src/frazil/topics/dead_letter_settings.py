"""Checks the names of dead-letter topics in the settings before they are needed."""

from __future__ import annotations

from frazil.config.model import Config
from frazil.errors import ConfigError, InvalidTopic
from frazil.topics.names import parse_name


def check_dead_letter_topics(config: Config) -> None:
    """Raises `ConfigError` for a name that cannot be a dead-letter topic."""
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
