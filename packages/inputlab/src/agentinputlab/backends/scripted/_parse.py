"""Scripts read strictly: whatever is wrong is named by its place, and nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from agentinputlab.backends.chat import FINISH_REASONS, Fault, FaultKind
from agentinputlab.backends.scripted._engine import ScriptedRules
from agentinputlab.backends.scripted._rules import PATTERN_KEYS, CallTemplate, Rule
from agentinputlab.backends.scripted._templates import Template
from agentinputlab.contracts._checks import exact_fields, finite, flag, text, whole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = ["MAX_PATTERN_CHARACTERS", "load_rules", "parse_rules"]

MAX_PATTERN_CHARACTERS = 1000
"""Longest regular expression."""
MAX_SCRIPT_BYTES = 4 * 2**20
MAX_DELAY_SECONDS = 600
_RULE_FIELDS = ("name", "when", "reply", "tool_calls", "finish_reason", "delay_seconds", "error", "fault")
_WHEN_FIELDS = (*PATTERN_KEYS, "last_role", "model", "tools_offered", "turn", "call")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_FAULTS = tuple(kind.value for kind in FaultKind if kind is not FaultKind.HTTP_ERROR)
_FAULTS_WITHOUT_REPLY = ("drop_connection", "oversized_body")


def load_rules(path: Path | str) -> ScriptedRules:
    """Read a script from a YAML or JSON file.

    Raises:
        ValidationError: it is not YAML or not a script; the message names file and place.
        OSError: the file cannot be read.
    """
    from ripieno.files import open_regular

    path = Path(path)
    with open_regular(path) as stream:
        data = stream.read(MAX_SCRIPT_BYTES + 1)
    if len(data) > MAX_SCRIPT_BYTES:
        raise ValidationError(f"{path.name} is longer than {MAX_SCRIPT_BYTES} bytes")
    try:
        value = _json(data) if path.suffix == ".json" else _yaml(data)
        return parse_rules(value)
    except ValueError as error:
        raise ValidationError(f"{path.name}: {error}") from error


def parse_rules(value: Mapping[str, Any]) -> ScriptedRules:
    """Read a script from a mapping with ``rules`` and, if wanted, ``model``.

    Raises:
        ValidationError: it is no script; the message names the place, the value and the expectation.
    """
    script = exact_fields(value, "script", allowed=("model", "rules"), required=("rules",))
    model = text(script.get("model", "scripted"), "model")
    rules = script["rules"]
    if not isinstance(rules, list | tuple) or not rules:
        raise ValidationError(f"rules must be a list of at least one rule, got {type(rules).__name__}")
    try:
        parsed = [_rule(item, f"rules[{index}]") for index, item in enumerate(cast("list[object]", rules))]
        identity = content_hash({"model": model, "rules": rules})
    except RecursionError as error:
        raise ValidationError("rules are nested too deep") from error
    except TypeError as error:
        raise ValidationError(f"rules must hold JSON values only: {error}") from error
    except ValidationError:
        raise
    except ValueError as error:
        raise ValidationError(f"rules cannot be written as JSON: {error}") from error
    return ScriptedRules(model, parsed, rules_hash=identity)


def _rule(value: object, place: str) -> Rule:
    fields = exact_fields(value, place, allowed=_RULE_FIELDS)
    if "name" in fields:
        text(fields["name"], f"{place}.name")
    patterns, equals = _when(fields.get("when", {}), f"{place}.when")
    rule = Rule(
        patterns=patterns,
        equals=equals,
        reply=Template(text(fields["reply"], f"{place}.reply", blank=True)) if "reply" in fields else None,
        tool_calls=_tool_calls(fields.get("tool_calls", ()), f"{place}.tool_calls"),
        finish_reason=_one_of(fields["finish_reason"], f"{place}.finish_reason", FINISH_REASONS)
        if "finish_reason" in fields
        else "",
        delay_seconds=_delay(fields.get("delay_seconds", 0), f"{place}.delay_seconds"),
        fault=_fault(fields, place),
    )
    _check_action(rule, place)
    _check_places(rule, place)
    return rule


def _when(value: object, place: str) -> tuple[dict[str, re.Pattern[str]], dict[str, object]]:
    fields = exact_fields(value, place, allowed=_WHEN_FIELDS)
    patterns = {key: _pattern(fields[key], f"{place}.{key}") for key in PATTERN_KEYS if key in fields}
    named = [name for pattern in patterns.values() for name in pattern.groupindex]
    for name in named:
        if named.count(name) > 1 or name in {"model", "call", "turn"}:
            raise ValidationError(f"{place} gives the name {name!r} to two texts; every group needs a name of its own")
    equals: dict[str, object] = {}
    if "last_role" in fields:
        equals["last_role"] = _one_of(fields["last_role"], f"{place}.last_role", _ROLES)
    if "model" in fields:
        equals["model"] = text(fields["model"], f"{place}.model")
    if "tools_offered" in fields:
        equals["tools_offered"] = flag(fields["tools_offered"], f"{place}.tools_offered")
    for key in ("turn", "call"):
        if key in fields:
            equals[key] = whole(fields[key], f"{place}.{key}", minimum=1)
    return patterns, equals


def _pattern(value: object, place: str) -> re.Pattern[str]:
    expression = text(value, place)
    if len(expression) > MAX_PATTERN_CHARACTERS:
        raise ValidationError(f"{place} must have at most {MAX_PATTERN_CHARACTERS} characters, got {len(expression)}")
    try:
        return re.compile(expression, re.IGNORECASE | re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValidationError(f"{place} is no regular expression: {error}") from error


def _tool_calls(value: object, place: str) -> tuple[CallTemplate, ...]:
    if not isinstance(value, list | tuple):
        raise ValidationError(f"{place} must be a list, got {type(value).__name__}")
    calls: list[CallTemplate] = []
    for index, item in enumerate(cast("list[object]", value)):
        where = f"{place}[{index}]"
        fields = exact_fields(item, where, allowed=("name", "arguments"), required=("name",))
        arguments = fields.get("arguments", {})
        if not isinstance(arguments, Mapping | str):
            raise ValidationError(
                f"{where}.arguments must be an object, or a text when wrong JSON is wanted, "
                f"got {type(arguments).__name__}"
            )
        calls.append(CallTemplate(text(fields["name"], f"{where}.name"), Template(arguments)))
    return tuple(calls)


def _fault(fields: Mapping[str, Any], place: str) -> Fault | None:
    if "error" not in fields:
        return Fault(FaultKind(_one_of(fields["fault"], f"{place}.fault", _FAULTS))) if "fault" in fields else None
    if "fault" in fields:
        raise ValidationError(f"{place} has both error and fault; only one thing can go wrong")
    error = exact_fields(fields["error"], f"{place}.error", allowed=("status", "body"), required=("status",))
    status = whole(error["status"], f"{place}.error.status")
    if not 400 <= status <= 599:
        raise ValidationError(f"{place}.error.status must be 400 to 599, got {status}")
    body = error.get("body", {"error": {"message": "injected error", "type": "injected", "code": None, "param": None}})
    return Fault(FaultKind.HTTP_ERROR, status=status, body=body)


def _check_action(rule: Rule, place: str) -> None:
    answers = rule.reply is not None or bool(rule.tool_calls)
    if rule.fault is None:
        if not answers:
            raise ValidationError(f"{place} must have reply, tool_calls, error or fault")
        return
    kind = rule.fault.kind.value
    if answers and (kind == "http_error" or kind in _FAULTS_WITHOUT_REPLY):
        raise ValidationError(f"{place} cannot both answer and have {'error' if kind == 'http_error' else kind}")


def _check_places(rule: Rule, place: str) -> None:
    known = rule.captures
    templates = [(f"{place}.reply", rule.reply)] if rule.reply is not None else []
    templates += [(f"{place}.tool_calls[{i}].arguments", call.arguments) for i, call in enumerate(rule.tool_calls)]
    for where, template in templates:
        for name in sorted(template.names() - known):
            raise ValidationError(
                f"{where} uses ${{{name}}}, which no condition of the rule captures; known: {', '.join(sorted(known))}"
            )


def _delay(value: object, place: str) -> float:
    seconds = finite(value, place, minimum=0)
    if seconds > MAX_DELAY_SECONDS:
        raise ValidationError(f"{place} must be <= {MAX_DELAY_SECONDS}, got {seconds:g}")
    return seconds


def _one_of(value: object, place: str, options: tuple[str, ...]) -> str:
    if value not in options:
        raise ValidationError(f"{place} must be one of {', '.join(options)}, got {value!r:.80}")
    return cast("str", value)


def _json(data: bytes) -> Any:
    from ripieno.canonical import strict_loads

    return strict_loads(data)


def _yaml(data: bytes) -> Any:
    import yaml

    class UniqueKeyLoader(yaml.SafeLoader):
        """The safe loader, which also refuses a key that stands twice and an alias, which could grow without bound."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValidationError(f"line {self.peek_event().start_mark.line + 1} has an alias, scripts have none")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise ValidationError(f"line {node.start_mark.line + 1} has the key {key!r:.80} twice")
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(data, Loader=UniqueKeyLoader)  # noqa: S506 - it is a SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise ValidationError(f"not YAML{where}: {getattr(error, 'problem', None) or type(error).__name__}") from error
