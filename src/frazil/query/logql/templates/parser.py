"""Parses templates, and keeps them compiled."""

from __future__ import annotations

from frazil.ops.short_texts import remember_short
from frazil.query.logql.go_numbers import quoted
from frazil.query.logql.templates.functions import FUNCTIONS
from frazil.query.logql.templates.lexer import TemplateFault, Token, tokens_of
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

ROW_FUNCTIONS = ("__line__", "__timestamp__")
"""These give what belongs to the row that is formatted."""

_MOST_NESTED = 100
_CONSTANTS: dict[str, object] = {"true": True, "false": False, "nil": None}
_KEYWORDS = frozenset(
    ("if", "else", "end", "with", "range", "define", "block", "template", "break", "continue", "nil")
)
_BLOCKS = ("if", "with", "range", "define", "block")


@remember_short(1024)
def compiled(name: str, text: str) -> Template:
    """Returns the tree of the template, else raises `TemplateFault`. Its name, `line` or `label`, is in messages."""
    parser = _Parser(name, text)
    nodes = parser.whole()
    return Template(name, text, nodes, parser.defined)


class _Parser:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._tokens = list(tokens_of(name, text))
        self._at = 0
        self._depth = 0
        self._loops = 0
        self._variables = ["$"]
        self.defined: dict[str, Block] = {}

    def whole(self) -> Block:
        nodes, end = self._block()
        if end:
            raise self._fault(f"unexpected {{{{{end}}}}}")
        return nodes

    def _fault(self, reason: str) -> TemplateFault:
        at = self._tokens[min(self._at, len(self._tokens) - 1)].at
        line = self._text.count("\n", 0, at) + 1
        return TemplateFault(f"template: {self._name}:{line}: {reason}")

    @property
    def _next(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _end(self, context: str) -> None:
        token = self._next
        if token is None or token.kind != "end":
            raise self._fault(f"unexpected {_shown(token)} in {context}")
        self._at += 1

    def _block(self) -> tuple[Block, str]:
        """Reads nodes up to an `end` or `else`, and returns which of them it was; the text's end gives ''."""
        nodes: list[Node] = []
        while (token := self._next) is not None:
            if token.kind == "text":
                self._at += 1
                if token.text:
                    nodes.append(Text(token.text))
                continue
            word = token.text if token.kind == "word" else ""
            if word in ("end", "else"):
                self._at += 1
                return tuple(nodes), word
            if node := self._action(word):
                nodes.append(node)
        return tuple(nodes), ""

    def _action(self, word: str) -> Node | None:
        if word in _BLOCKS:
            self._deeper()
            self._at += 1
            node = self._defining(word) if word in ("define", "block") else self._branch(word)
            self._depth -= 1
            return node
        if word in ("break", "continue"):
            self._at += 1
            if not self._loops:
                raise self._fault(f"{{{{{word}}}}} outside {{{{range}}}}")
            self._end(f"{{{{{word}}}}}")
            return Break() if word == "break" else Continue()
        if word == "template":
            at = self._take().at
            name = self._string("template clause")
            value = None if self._next and self._next.kind == "end" else self._pipeline("template clause")
            self._end("template clause")
            return Call(name, value, at)
        pipeline = self._pipeline("command")
        self._end("command")
        return Action(pipeline)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self._fault("the template is nested too deeply")

    def _string(self, context: str) -> str:
        token = self._next
        if token is None or token.kind != "string":
            raise self._fault(f"unexpected {_shown(token)} in {context}")
        self._at += 1
        return str(token.value)

    def _defining(self, word: str) -> Node | None:
        name = self._string(f"{word} clause")
        value = self._pipeline("block clause") if word == "block" else None
        self._end(f"{word} clause")
        kept, self._variables = self._variables, ["$"]
        nodes, end = self._block()
        self._variables = kept
        if end != "end":
            raise self._fault(f"unexpected {{{{{end or 'EOF'}}}}} in {word} clause")
        self._end("end")
        self.defined[name] = nodes
        return Call(name, value, 0) if word == "block" else None

    def _branch(self, word: str) -> Node:
        scope = len(self._variables)
        head = self._pipeline(word, range_variables=word == "range")
        self._end(word)
        self._loops += word == "range"
        then, end = self._block()
        self._loops -= word == "range"
        otherwise: Block = ()
        if end == "else":
            follows = self._next
            if follows is not None and follows.kind == "word" and follows.text == word and word in ("if", "with"):
                self._at += 1
                self._deeper()
                otherwise = (self._branch(word),)
                self._depth -= 1
                del self._variables[scope:]
                return If(head, then, otherwise) if word == "if" else With(head, then, otherwise)
            self._end("else")
            otherwise, end = self._block()
        if end != "end":
            raise self._fault("unexpected EOF" if not end else "expected end; found {{else}}")
        self._end("end")
        del self._variables[scope:]
        if word == "range":
            return Range(head, then, otherwise)
        return If(head, then, otherwise) if word == "if" else With(head, then, otherwise)

    def _pipeline(self, context: str, *, range_variables: bool = False) -> Pipeline:
        names, assigns = self._declared(range_variables)
        commands: list[Command] = []
        while True:
            commands.append(self._command(context))
            if self._next is None or self._next.kind != "|":
                break
            self._at += 1
            if self._next is not None and self._next.kind == "end":
                break
        for command in commands[1:]:
            if isinstance(command.arguments[0], Constant | Dot):
                raise self._fault(f"non executable command in pipeline stage {commands.index(command) + 1}")
        if not assigns:
            self._variables.extend(names)
        return Pipeline(tuple(commands), names, assigns)

    def _declared(self, several: bool) -> tuple[tuple[str, ...], bool]:
        """Reads `$x :=` or `$x =`, and in a range `$i, $x :=`."""
        start, names = self._at, []
        while self._next is not None and self._next.kind == "variable":
            names.append(self._take().text)
            follows = self._next
            if follows is not None and follows.kind in (":=", "="):
                if follows.kind == "=" and not set(names) <= set(self._variables):
                    raise self._fault(f"undefined variable {quoted(names[0])}")
                self._at += 1
                return tuple(names), follows.kind == "="
            if not (several and follows is not None and follows.kind == "," and len(names) == 1):
                break
            self._at += 1
        self._at = start
        return (), False

    def _command(self, context: str) -> Command:
        arguments: list[Argument] = []
        while (token := self._next) is not None and token.kind not in ("end", "|", ")"):
            if arguments and not token.spaced and token.kind != "(":
                raise self._fault(f"unexpected {_shown(token)} in operand")
            arguments.append(self._argument(token))
        if not arguments:
            if self._next is not None and self._next.kind == "end":
                raise self._fault(f"missing value for {context}")
            raise self._fault(f"unexpected {_shown(self._next)} in {context}")
        return Command(tuple(arguments))

    def _argument(self, token: Token) -> Argument:
        argument = self._operand(token)
        names: list[str] = []
        chained_at = token.at
        while (follows := self._next) is not None and follows.kind == "field" and not follows.spaced:
            chained_at = chained_at if names else follows.at
            names.append(self._take().text[1:])
        if not names:
            return argument
        if isinstance(argument, Constant):
            raise self._fault(f"unexpected . after term {quoted(str(argument))}")
        if isinstance(argument, Field):
            return Field(argument.base, argument.names + tuple(names), chained_at)
        return Field(None if isinstance(argument, Dot) else argument, tuple(names), chained_at)

    def _operand(self, token: Token) -> Argument:
        self._at += 1
        match token.kind:
            case "field":
                return Field(None, (token.text[1:],), token.at)
            case "dot":
                return Dot(token.at)
            case "variable":
                if token.text not in self._variables:
                    raise self._fault(f"undefined variable {quoted(token.text)}")
                return Variable(token.text, token.at)
            case "string" | "number":
                return Constant(token.value, token.text, token.at)
            case "word" if token.text in _CONSTANTS:
                return Constant(_CONSTANTS[token.text], token.text, token.at)
            case "word":
                if token.text not in FUNCTIONS and token.text not in ROW_FUNCTIONS:
                    raise self._fault(f"function {quoted(token.text)} not defined")
                return Function(token.text, token.at)
            case "(":
                self._deeper()
                if self._next is not None and self._next.kind == "end":
                    raise self._fault("unclosed left paren")
                pipeline = self._pipeline("parenthesized pipeline")
                self._depth -= 1
                if self._next is None or self._next.kind != ")":
                    raise self._fault("unclosed left paren")
                self._at += 1
                return pipeline
        raise self._fault(f"unexpected {_shown(token)} in command")


def _shown(token: Token | None) -> str:
    if token is None:
        return "EOF"
    if token.kind == "end":
        return '"}}"'
    return f"<{token.text}>" if token.text in _KEYWORDS else quoted(token.text)
