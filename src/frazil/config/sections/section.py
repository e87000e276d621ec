"""The base class, types and helpers of all sections of the settings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MIB = 1024 * 1024


def _as_text(value: object) -> object:
    """Returns numbers and booleans as text, as Spark, Iceberg and object stores spell them in their settings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


FreeText = Annotated[str, BeforeValidator(_as_text)]
"""This is the value of a setting whose name belongs to another system."""


def free_names(placeholder: str, *, spelling: str = "", secrets: bool = False) -> dict[str, Any]:
    """Describes the free names of a mapping, for its schema.

    `placeholder` stands for a name in the reference. `spelling` is how the underscores of a variable are read when
    the file does not mention the name (see `environment`). With `secrets`, values of names that sound like a secret
    are treated as secrets.
    """
    return {"placeholder": placeholder, "spelling": spelling, "secrets": secrets}


def setting_problem(text: str, *key: str) -> PydanticCustomError:
    """Returns an error about a key that is wrong although its value alone would be right."""
    return PydanticCustomError("setting", "{text}", {"key": key, "text": text})


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
