"""What all sections of the settings have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MIB = 1024 * 1024


def _as_text(value: object) -> object:
    """Numbers and booleans as Spark, Iceberg and object stores spell them in their settings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


FreeText = Annotated[str, BeforeValidator(_as_text)]
"""A value of a map whose names are somebody else's."""


def free_names(placeholder: str, *, spelling: str = "", secrets: bool = False) -> dict[str, Any]:
    """What a map from free names says of them.

    `placeholder` stands for a name in the reference. `spelling` is how a variable's underscores are read when the
    file does not mention the name (see `environment`). With `secrets`, names that sound like a secret have one.
    """
    return {"placeholder": placeholder, "spelling": spelling, "secrets": secrets}


def setting_problem(text: str, *key: str) -> PydanticCustomError:
    """Something that is wrong with a key although its value alone would be right."""
    return PydanticCustomError("setting", "{text}", {"key": key, "text": text})


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
