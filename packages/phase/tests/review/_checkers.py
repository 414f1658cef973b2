"""Small readers of the exported languages: enough to run what was exported, and strict about its form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def python_of_prism(text: str) -> str:
    """Turn a PRISM expression into a Python one."""
    while "?" in text:
        text = _without_innermost_choice(text)
    text = re.sub(r"(?<![<>!])=", "==", text)
    text = text.replace("&", " and ").replace("|", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    return re.sub(r"\bfalse\b", "False", re.sub(r"\btrue\b", "True", text))


def _without_innermost_choice(text: str) -> str:
    """Turn one ``(c ? a : b)`` that holds no other into ``((a) if (c) else (b))``."""
    starts: list[int] = []
    for end, char in enumerate(text):
        if char == "(":
            starts.append(end)
        elif char == ")":
            start = starts.pop()
            inner = text[start + 1 : end]
            if "?" in inner:
                condition, rest = inner.split("?")
                yes, no = rest.split(":")
                return f"{text[:start]}(({yes}) if ({condition}) else ({no})){text[end + 1 :]}"
    raise AssertionError(f"a choice without parentheses: {text!r}")


@dataclass
class PrismModel:
    """A PRISM model of modules that synchronise on their actions."""

    text: str
    constants: dict[str, int] = field(default_factory=dict)
    formulas: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, tuple[int, int, Any]] = field(default_factory=dict)
    modules: dict[str, list[tuple[str, str, dict[str, str]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = [line.split("//")[0].strip() for line in self.text.splitlines()]
        lines = [line for line in lines if line]
        assert lines[0] == "mdp"
        module = None
        for line in lines[1:]:
            if match := re.fullmatch(r"const int (\w+) = (\d+);", line):
                self.constants[match[1]] = int(match[2])
            elif match := re.fullmatch(r"formula (\w+) = (.+);", line):
                assert match[1] not in self.formulas
                self.formulas[match[1]] = match[2]
            elif match := re.fullmatch(r'label "(\w+)" = (.+);', line):
                self.labels[match[1]] = match[2]
            elif match := re.fullmatch(r"module (\w+)", line):
                assert module is None
                assert match[1] not in self.modules
                module = match[1]
                self.modules[module] = []
            elif line == "endmodule":
                assert module is not None
                module = None
            elif match := re.fullmatch(r"(\w+) : \[(\w+)\.\.(\w+)\] init (\w+);", line):
                assert module is not None
                low, high = (self.constants.get(word, None) for word in (match[2], match[3]))
                low = int(match[2]) if low is None else low
                high = int(match[3]) if high is None else high
                self._declare(match[1], low, high, int(match[4]))
            elif match := re.fullmatch(r"(\w+) : bool init (true|false);", line):
                assert module is not None
                self._declare(match[1], 0, 1, match[2] == "true")
            elif match := re.fullmatch(r"\[(\w+)\] (.+) -> (.+);", line):
                assert module is not None
                parts = [re.fullmatch(r"\((\w+)'=(.+)\)", part) for part in match[3].split(" & ")]
                assert all(parts), line
                self.modules[module].append((match[1], match[2], {part[1]: part[2] for part in parts if part}))
            else:
                raise AssertionError(f"not PRISM: {line!r}")
        assert module is None
        self._check_names()

    def _declare(self, name: str, low: int, high: int, start: Any) -> None:
        assert name not in self.variables
        assert low <= start <= high
        self.variables[name] = (low, high, start)

    def _check_names(self) -> None:
        known = {*self.constants, *self.formulas, *self.variables, "true", "false", "max"}
        assert not set(self.variables) & set(self.formulas)
        expressions = [*self.formulas.values(), *self.labels.values()]
        for commands in self.modules.values():
            for _, guard, updates in commands:
                expressions += [guard, *updates, *updates.values()]
        for expression in expressions:
            assert set(_WORD.findall(expression)) <= known, expression
            assert expression.count("(") == expression.count(")")

    def start(self) -> dict[str, Any]:
        return {name: start for name, (_, _, start) in self.variables.items()}

    def value(self, expression: str, state: dict[str, Any]) -> Any:
        names: dict[str, Any] = {**self.constants, **state, "max": max}

        class Lookup(dict[str, Any]):
            def __missing__(inner, key: str) -> Any:  # noqa: N805
                inner[key] = eval(python_of_prism(self.formulas[key]), {}, inner)
                return inner[key]

        return eval(python_of_prism(expression), {"__builtins__": {}}, Lookup(names))

    def act(self, action: str, state: dict[str, Any], choice: dict[str, Any] | None = None) -> dict[str, Any]:
        """Take one synchronised step; `choice` says which update a module with several ones takes."""
        result = dict(state)
        for commands in self.modules.values():
            mine = [(guard, updates) for name, guard, updates in commands if name == action]
            if not mine:
                continue
            enabled = [updates for guard, updates in mine if self.value(guard, state)]
            assert enabled, f"{action} is blocked"
            for updates in enabled:
                values = {name: self.value(text, state) for name, text in updates.items()}
                if choice is None or all(choice.get(name, value) == value for name, value in values.items()):
                    result.update(values)
                    break
            else:
                raise AssertionError(f"no update fits {choice}")
        for name, (low, high, _) in self.variables.items():
            assert low <= result[name] <= high, name
        return result

    def enabled(self, state: dict[str, Any]) -> set[str]:
        actions = {name for commands in self.modules.values() for name, _, _ in commands}
        found = set()
        for action in actions:
            mine = [[g for name, g, _ in commands if name == action] for commands in self.modules.values()]
            if all(any(self.value(guard, state) for guard in guards) for guards in mine if guards):
                found.add(action)
        return found


# --- SMT-LIB ----------------------------------------------------------------------------------------------------


def s_expressions(text: str) -> list[Any]:
    """Read S-expressions; unbalanced ones are an error."""
    tokens = re.findall(r'"[^"]*"|[()]|[^\s()"]+', re.sub(r";.*", "", text))
    stack: list[list[Any]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    assert len(stack) == 1
    return stack[0]


class SmtScript:
    """A script of declarations, definitions without arguments, assertions and questions."""

    def __init__(self, text: str) -> None:
        assert text.isascii()
        self.constants: dict[str, str] = {}
        self.definitions: dict[str, Any] = {}
        self.assertions: list[Any] = []
        self.questions: dict[str, Any] = {}
        depth, label = 0, ""
        for command in s_expressions(text):
            match command:
                case ["set-logic", "QF_LRA"]:
                    pass
                case ["declare-const", str(name), "Bool" | "Real" as sort]:
                    assert name not in self.constants
                    self.constants[name] = sort
                case ["define-fun", str(name), [], "Bool", body]:
                    assert name not in self.constants
                    assert name not in self.definitions
                    self._check(body)
                    self.definitions[name] = body
                case ["assert", body]:
                    self._check(body)
                    if depth:
                        self.questions[label] = body
                    else:
                        self.assertions.append(body)
                case ["echo", str(name)]:
                    label = name.strip('"')
                case ["push", "1"]:
                    depth += 1
                case ["pop", "1"]:
                    depth -= 1
                case ["check-sat"]:
                    assert depth == 1
                case _:
                    raise AssertionError(f"not SMT-LIB: {command}")
        assert depth == 0

    def _check(self, body: Any) -> None:
        if isinstance(body, str):
            known = body in self.constants or body in self.definitions or body in ("true", "false")
            assert known or re.fullmatch(r"\d+\.\d+", body), body
            return
        assert body[0] in ("and", "or", "not", "=>", "=", "<", "<=", ">", ">=", "-")
        assert len(body) > 1
        for part in body[1:]:
            self._check(part)

    def value(self, body: Any, model: dict[str, Any], known: dict[str, Any] | None = None) -> Any:  # noqa: PLR0911
        known = {} if known is None else known
        if isinstance(body, str):
            if body in self.definitions:
                if body not in known:
                    known[body] = self.value(self.definitions[body], model, known)
                return known[body]
            if body in model:
                return model[body]
            return body == "true" if body in ("true", "false") else float(body)
        parts = [self.value(part, model, known) for part in body[1:]]
        match body[0]:
            case "and":
                return all(parts)
            case "or":
                return any(parts)
            case "not":
                return not parts[0]
            case "=>":
                return not parts[0] or parts[1]
            case "-":
                return -parts[0]
            case "=":
                return parts[0] == parts[1]
            case "<":
                return parts[0] < parts[1]
            case "<=":
                return parts[0] <= parts[1]
            case ">":
                return parts[0] > parts[1]
        return parts[0] >= parts[1]


# --- TLA+ ---------------------------------------------------------------------------------------------------------


class TlaModule:
    """A module of operators without arguments; knows their names and the conjuncts of each."""

    def __init__(self, text: str) -> None:
        assert text.isascii()
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\\*")]
        head = re.fullmatch(r"---- MODULE (\w+) ----", lines[0])
        assert head
        self.name = head[1]
        assert lines[1] == "EXTENDS Integers"
        assert lines[-1] == "===="
        assert lines[2].startswith("VARIABLES ")
        self.variables = lines[2].removeprefix("VARIABLES ").split(", ")
        assert lines[3] == f"vars == <<{', '.join(self.variables)}>>"
        self.operators: dict[str, list[str]] = {}
        current = ""
        for line in lines[4:-1]:
            if match := re.fullmatch(r"(\w+) ==(.*)", line):
                current = match[1]
                assert current not in self.operators
                assert current not in self.variables
                self.operators[current] = [match[2].strip()] if match[2].strip() else []
            else:
                assert line.startswith("  /\\ "), line
                self.operators[current].append(line.removeprefix("  /\\ "))
        self._check()

    def _check(self) -> None:
        words = {"IF", "THEN", "ELSE", "TRUE", "FALSE", "BOOLEAN", "UNCHANGED", "in"}
        known = {*self.variables, *self.operators, *words, "vars"}
        seen: set[str] = set(self.variables)
        for name, parts in self.operators.items():
            assert parts, name
            for part in parts:
                assert set(_WORD.findall(part)) - {"_vars"} <= known, part
                used = set(_WORD.findall(part)) & set(self.operators)
                assert used <= seen, f"{name} uses {used - seen} before it is defined"
                assert part.count("(") == part.count(")")
            seen.add(name)

    def moves(self, action: str) -> set[str]:
        """Which variables an action says something about; every action has to say it about all."""
        found: set[str] = set()
        for part in self.operators[action]:
            if match := re.fullmatch(r"UNCHANGED <<(.*)>>", part):
                names = match[1].split(", ")
            elif match := re.match(r"(\w+)' ", part):
                names = [match[1]]
            else:
                continue
            assert not found & set(names)
            found |= set(names)
        return found

    def value(self, expression: str, state: dict[str, Any]) -> Any:
        text = expression
        while match := re.search(r"IF (?:(?!IF ).)*? THEN (?:(?!IF ).)*? ELSE [^()]*$", text):
            condition, rest = match[0].removeprefix("IF ").split(" THEN ", 1)
            yes, no = rest.split(" ELSE ", 1)
            text = text[: match.start()] + f"(({yes}) if ({condition}) else ({no}))" + text[match.end() :]
        text = text.replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ")
        text = re.sub(r"(?<![<>=!])=(?!=)", "==", text)
        text = re.sub(r"\bFALSE\b", "False", re.sub(r"\bTRUE\b", "True", text))  # not inside a name

        class Lookup(dict[str, Any]):
            def __missing__(inner, key: str) -> Any:  # noqa: N805
                inner[key] = all(self.value(part, state) for part in self.operators[key])
                return inner[key]

        constants = {"MaxTokens": int(self.operators["MaxTokens"][0])} if "MaxTokens" in self.operators else {}
        return eval(text.strip(), {"__builtins__": {}}, Lookup({**constants, **state}))
