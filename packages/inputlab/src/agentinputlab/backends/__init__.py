"""What reaches outside: language models, retrievers, simulated users, embedders. Nothing loads until it is used.

Sub-modules: `llm`, `scripted`, `retrieval`, `user`, `embedding`, `vector`, and beside them `chat` (what a chat model
answers), `tokens` (how scripted models count) and `answered` (who an endpoint says it is).
"""
