"""Scripted models: an ordered list of rules in YAML or JSON, the first that fits answers.

A script::

    model: scripted-shop              # name of the model; "scripted" if left out
    rules:
      - when: {last_user: "order (?P<order>#W\\\\d+)", tools_offered: true}
        tool_calls:
          - {name: get_order_details, arguments: {order_id: "${order}"}}
      - when: {last_role: tool}
        reply: "Your order is on its way."
      - when: {call: 3}
        error: {status: 503, body: {error: {message: "overloaded"}}}
      - reply: "How can I help?"

Conditions (all must hold; a rule without any always fits):

| Key | Holds when |
|---|---|
| `system` | the regular expression is found in a system or developer message |
| `last_user` | ... in the last user message |
| `last` | ... in the last message of whatever role |
| `any` | ... in a message of any role |
| `last_role` | the last message has this role |
| `model` | the request names this model |
| `tools_offered` | the request offers tools, or does not |
| `turn` | this is the n-th answer of the conversation (1 + number of assistant messages) |
| `call` | this is the n-th request that the script has answered |

Actions: `reply` (text), `tool_calls` (list of `name` and `arguments`), `finish_reason`, `delay_seconds`, `error`
(`status` and `body`) or `fault` (`drop_connection`, `truncated`, `malformed_json`, `missing_usage`, `oversized_body`,
`key_echo`; with a reply where one is needed).

In replies and arguments, `${name}` is the text of a named group and `${last_user.1}` that of a numbered group of a
condition; `${model}`, `${call}` and `${turn}` are known everywhere; `$${` writes `${`. A script with `call` conditions
answers in the order in which requests arrive; every other script is a function of the request alone.
"""

from agentinputlab.backends.scripted._engine import NoRuleFitsError, ScriptedRules
from agentinputlab.backends.scripted._parse import MAX_PATTERN_CHARACTERS, load_rules, parse_rules
from agentinputlab.backends.scripted._rules import MAX_SEARCHED_CHARACTERS, Rule

__all__ = [
    "MAX_PATTERN_CHARACTERS",
    "MAX_SEARCHED_CHARACTERS",
    "NoRuleFitsError",
    "Rule",
    "ScriptedRules",
    "load_rules",
    "parse_rules",
]
