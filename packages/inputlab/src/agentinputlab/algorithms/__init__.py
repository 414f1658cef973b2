"""The methods: each proposes a typed change to what an agent sees before it acts.

`rewrite` changes the query, `plan` splits or plans the task, `acquire` brings documents, `clarify` asks back, `curate`
shortens context, `recipes` apply learned texts. A method touches neither sockets nor files: model, retriever and
embedder come with the `InterventionContext`. `agentinputlab.registry` knows all of them by id.
"""
