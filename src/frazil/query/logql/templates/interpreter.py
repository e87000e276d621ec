"""Runs templates on rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.query.logql.templates.functions import FUNCTIONS, Signature
from frazil.query.logql.templates.text_functions import MOST_TEXT
from frazil.query.logql.templates.times import GoTime
from frazil.query.logql.templates.tree import (
    Action,
    Argument,
    Block,
    Break,
    Call,
    Command,
    Constant,
    Continue,
    Dot,
    Field,
    Function,
    If,
    Node,
    Pipeline,
    Range,
    Template,
    Text,
    Variable,
    With,
)
from frazil.query.logql.templates.values import (
    NO_VALUE,
    ExecutionFault,
    NoValue,
    fail,
    kind_of,
    printed,
    truth,
)

_MOST_CALLS = 100
_MOST_STEPS = 100_000
_ABSENT = object()


@dataclass(frozen=True)
class Row:
    """Is what a template sees: labels as the dot, the line and the time as functions."""

    labels: Mapping[str, str]
    line: str = ""
    timestamp_ns: int = 0


class _Loop(Exception):
    def __init__(self, ends: bool) -> None:
        self.ends = ends


class _Failed(Exception):
    pass


def render(template: Template, row: Row) -> str:
    """Returns the text of the template for the row, else raises `ExecutionFault` with Go's text."""
    run = _Run(template, row)
    try:
        run.block(template.nodes, row.labels)
    except _Failed as failed:
        raise ExecutionFault(str(failed)) from None
    return "".join(run.parts)


class _Run:
    def __init__(self, template: Template, row: Row) -> None:
        self._template = template
        self._row = row
        self._variables: list[tuple[str, object]] = [("$", row.labels)]
        self._calls = 0
        self._steps = 0
        self._size = 0
        self.parts: list[str] = []

    def block(self, nodes: Block, dot: object) -> None:
        for node in nodes:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise _Failed(f"the template takes more than {_MOST_STEPS} steps")
            self._node(node, dot)

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > MOST_TEXT:
            raise _Failed(f"the template makes more than {MOST_TEXT} characters")
        self.parts.append(text)

    def _node(self, node: Node, dot: object) -> None:
        match node:
            case Text(text):
                self._write(text)
            case Action(pipeline):
                value = self._pipeline(pipeline, dot)
                if not pipeline.variables:
                    self._write(printed(value))
            case If(condition, then, otherwise):
                with _Scope(self._variables):
                    self.block(then if truth(self._pipeline(condition, dot)) else otherwise, dot)
            case With(head, then, otherwise):
                with _Scope(self._variables):
                    value = self._pipeline(head, dot)
                    if truth(value):
                        self.block(then, value)
                    else:
                        self.block(otherwise, dot)
            case Range():
                with _Scope(self._variables):
                    self._range(node, dot)
            case Break():
                raise _Loop(ends=True)
            case Continue():
                raise _Loop(ends=False)
            case Call():
                self._call_template(node, dot)

    def _range(self, node: Range, dot: object) -> None:
        values = self._pipeline(node.values, dot, declare=False)
        match values:
            case Mapping():
                items: list[tuple[object, object]] = [(key, values[key]) for key in sorted(values)]
            case list():
                items = list(enumerate(values))
            case bool():
                self._fail(node.values, f"range can't iterate over {printed(values)}")
            case int():
                items = [(number, number) for number in range(min(values, _MOST_STEPS + 1))]
            case None | NoValue():
                items = []
            case _:
                self._fail(node.values, f"range can't iterate over {printed(values)}")
        if not items:
            self.block(node.otherwise, dot)
        for key, value in items:
            with _Scope(self._variables):
                names = node.values.variables
                given = (value,) if len(names) == 1 else (key, value)
                for name, each in zip(names, given, strict=False):
                    self._variables.append((name, each))
                try:
                    self.block(node.each, value)
                except _Loop as loop:
                    if loop.ends:
                        return

    def _call_template(self, node: Call, dot: object) -> None:
        if node.name not in self._template.defined:
            self._fail_at(node.at, f'{{{{template "{node.name}"}}}}', f'template "{node.name}" not defined')
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise _Failed(f"exceeded maximum template depth ({_MOST_CALLS})")
        value = self._pipeline(node.value, dot) if node.value else None
        kept, self._variables = self._variables, [("$", value)]
        self.block(self._template.defined[node.name], value)
        self._variables = kept
        self._calls -= 1

    def _fail(self, node: object, reason: str) -> None:
        at = getattr(node, "at", 0)
        if isinstance(node, Pipeline):
            at = getattr(node.commands[0].arguments[0], "at", 0)
        self._fail_at(at, str(node), reason)

    def _fail_at(self, at: int, shown: str, reason: str) -> None:
        text, name = self._template.text, self._template.name
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1)
        if len(shown) > 20:
            shown = f"{shown[:20]}..."
        raise _Failed(f'template: {name}:{line}:{column}: executing "{name}" at <{shown}>: {reason}')

    def _pipeline(self, pipeline: Pipeline, dot: object, *, declare: bool = True) -> object:
        value: object = _ABSENT
        for command in pipeline.commands:
            value = self._command(command, dot, value)
        if declare:
            for name in pipeline.variables:
                if pipeline.assigns:
                    self._assign(name, value)
                else:
                    self._variables.append((name, value))
        return value

    def _assign(self, name: str, value: object) -> None:
        for number in range(len(self._variables) - 1, -1, -1):
            if self._variables[number][0] == name:
                self._variables[number] = (name, value)
                return

    def _command(self, command: Command, dot: object, piped: object) -> object:
        first = command.arguments[0]
        if isinstance(first, Function):
            return self._call(first, command, dot, piped)
        if len(command.arguments) > 1 or piped is not _ABSENT:
            self._fail(first, f"can't give argument to non-function {first}")
        if isinstance(first, Constant) and first.value is None:
            self._fail(first, "nil is not a command")
        return self._value(first, dot)

    def _call(self, function: Function, command: Command, dot: object, piped: object) -> object:
        name = function.name
        if name == "__line__":
            return self._row.line
        if name == "__timestamp__":
            return GoTime(self._row.timestamp_ns)
        signature = FUNCTIONS[name]
        arguments = command.arguments[1:]
        self._check_count(function, signature, len(arguments) + (piped is not _ABSENT))
        if name in ("and", "or"):
            return self._first_deciding(name == "or", arguments, dot, piped)
        values = [self._value(each, dot) for each in arguments]
        shown: list[object] = list(arguments)
        if piped is not _ABSENT:
            values.append(piped)
            shown.append(function)
        kinds = signature.parameters
        for number, value in enumerate(values):
            values[number] = self._fitted(shown[number], kinds[min(number, len(kinds) - 1)], value)
        try:
            return signature.function(*values)
        except ExecutionFault as fault:
            self._fail_at(function.at, str(command) if len(command.arguments) > 1 else name, str(fault))
        except (OverflowError, ValueError, TypeError) as wrong:
            self._fail_at(function.at, str(command), f"error calling {name}: {wrong}")
        return None

    def _first_deciding(self, decides: bool, arguments: tuple[Argument, ...], dot: object, piped: object) -> object:
        value: object = None
        for argument in arguments:
            value = self._value(argument, dot)
            if truth(value) is decides:
                return value
        return value if piped is _ABSENT else piped

    def _check_count(self, function: Function, signature: Signature, given: int) -> None:
        wanted = len(signature.parameters)
        if signature.repeats:
            least = wanted if function.name in ("mul", "mulf", "subf", "divf") else max(wanted - 1, 1)
            least = 0 if function.name in ("print", "println") else least
            if given < min(least, wanted):
                self._fail(
                    function,
                    f"wrong number of args for {function.name}: want at least {max(wanted - 1, 0)} got {given}",
                )
        elif given != wanted:
            self._fail(function, f"wrong number of args for {function.name}: want {wanted} got {given}")

    def _fitted(self, shown: object, kind: str, value: object) -> object:
        """Returns the value if a parameter of the kind takes it."""
        if isinstance(value, NoValue):
            value = None
        if kind == "any":
            return value
        if kind == "float64" and isinstance(value, int) and isinstance(shown, Constant):
            return float(value)
        given = kind_of(value)
        wanted = "time.Time" if kind == "time" else kind
        if given == wanted:
            return value
        if value is None:
            self._fail(shown, "invalid value; expected " + wanted)
        if isinstance(shown, Constant):
            self._fail(shown, f"expected {'integer' if wanted == 'int' else wanted}; found {shown}")
        self._fail(shown, f"wrong type for value; expected {wanted}; got {given}")
        return None

    def _value(self, argument: Argument, dot: object) -> object:
        match argument:
            case Constant(value):
                return value
            case Dot():
                return dot
            case Variable(name):
                return next(value for known, value in reversed(self._variables) if known == name)
            case Field(base, names):
                return self._field(argument, dot if base is None else self._value(base, dot), names)
            case Pipeline():
                with _Scope(self._variables):
                    return self._pipeline(argument, dot)
            case Function():
                return self._call(argument, Command((argument,)), dot, _ABSENT)
        fail("unknown argument")
        return None

    def _field(self, argument: Field, value: object, names: tuple[str, ...]) -> object:
        for name in names:
            if value is self._row.labels:
                value = self._row.labels.get(name, "")
            elif isinstance(value, Mapping):
                value = value.get(name, NO_VALUE)
            elif isinstance(value, NoValue) or value is None:
                self._fail(argument, f"nil pointer evaluating interface {{}}.{name}")
            else:
                self._fail(argument, f"can't evaluate field {name} in type {kind_of(value)}")
        return value


class _Scope:
    """Forgets the variables that were declared in it."""

    def __init__(self, variables: list[tuple[str, object]]) -> None:
        self._variables = variables
        self._count = len(variables)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        del self._variables[self._count :]
