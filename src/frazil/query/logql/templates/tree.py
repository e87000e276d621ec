"""Defines the tree of a template. Nodes know their place and print themselves, since errors quote them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from frazil.query.logql.go_numbers import quoted


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Constant:
    """Is a number, a text, a truth value or nil, as it was written."""

    value: object
    written: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return quoted(self.value) if isinstance(self.value, str) else self.written


@dataclass(frozen=True)
class Dot:
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True)
class Field:
    """Looks names up in a row, one in what the other gave: first in `base`, or in the dot if there is none."""

    base: Argument | None
    names: tuple[str, ...]
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.base if self.base is not None else ''}.{'.'.join(self.names)}"


@dataclass(frozen=True)
class Variable:
    name: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Function:
    name: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Command:
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return " ".join(f"({each})" if isinstance(each, Pipeline) else str(each) for each in self.arguments)


@dataclass(frozen=True)
class Pipeline:
    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False
    """Whether the variables existed before."""

    def __str__(self) -> str:
        variables = f"{', '.join(self.variables)} {'=' if self.assigns else ':='} " if self.variables else ""
        return variables + " | ".join(map(str, self.commands))


Argument: TypeAlias = Constant | Dot | Field | Variable | Function | Pipeline


@dataclass(frozen=True)
class Action:
    pipeline: Pipeline


@dataclass(frozen=True)
class If:
    condition: Pipeline
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class With:
    value: Pipeline
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class Range:
    values: Pipeline
    each: Block
    otherwise: Block


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Continue:
    pass


@dataclass(frozen=True)
class Call:
    """Runs another template, which the same text defines."""

    name: str
    value: Pipeline | None
    at: int = field(default=0, compare=False)


Node: TypeAlias = Text | Action | If | With | Range | Break | Continue | Call
Block: TypeAlias = tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Template:
    name: str
    text: str
    nodes: Block
    defined: dict[str, Block]


def pipelines_of(nodes: Block) -> Iterator[Pipeline]:
    """Yields all pipelines in the nodes, those within others too."""
    for node in nodes:
        match node:
            case Action(pipeline):
                yield from _within(pipeline)
            case If(head, then, otherwise) | With(head, then, otherwise) | Range(head, then, otherwise):
                yield from _within(head)
                yield from pipelines_of(then)
                yield from pipelines_of(otherwise)
            case Call(_, Pipeline() as head):
                yield from _within(head)


def _within(pipeline: Pipeline) -> Iterator[Pipeline]:
    yield pipeline
    for command in pipeline.commands:
        for argument in command.arguments:
            base = argument.base if isinstance(argument, Field) else argument
            if isinstance(base, Pipeline):
                yield from _within(base)
