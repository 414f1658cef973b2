"""The embedded retail arena: data, tools, a scripted user, a scripted agent, judge and scorer, all without a network.

`data_model` holds the shop, `tools` changes it, `user` and `agent` talk about it, `orchestrator` lets them talk,
`judge` and `scorer` say how it went. Nothing here knows of ledgers; `providers.embedded_retail` brings both together.
"""
