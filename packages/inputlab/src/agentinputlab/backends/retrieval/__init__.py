"""Documents and who finds them: BM25 in memory, full text on disk, or a function."""

from agentinputlab.backends.retrieval._bm25 import DEFAULT_TOKENIZER_ID, InMemoryBM25Retriever, default_tokenize
from agentinputlab.backends.retrieval._fts5 import FTS5_PROTOCOL, SQLiteFTS5Retriever
from agentinputlab.backends.retrieval._function import FunctionRetriever
from agentinputlab.backends.retrieval._types import Document, RetrievalResult, Retriever

__all__ = [
    "DEFAULT_TOKENIZER_ID",
    "FTS5_PROTOCOL",
    "Document",
    "FunctionRetriever",
    "InMemoryBM25Retriever",
    "RetrievalResult",
    "Retriever",
    "SQLiteFTS5Retriever",
    "default_tokenize",
]
