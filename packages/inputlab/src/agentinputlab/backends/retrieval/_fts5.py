"""Full-text search in a SQLite file, for collections that do not fit into memory."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from agentinputlab.backends.retrieval._bm25 import default_tokenize
from agentinputlab.backends.retrieval._types import Document, RetrievalResult
from agentinputlab.contracts._checks import entries, text
from agentinputlab.contracts.errors import ArtifactError, ValidationError
from agentinputlab.contracts.serialization import canonical_json, content_hash

__all__ = ["FTS5_PROTOCOL", "SQLiteFTS5Retriever"]

FTS5_PROTOCOL = "sqlite.fts5.bm25.unicode61.v1"
"""Identity of tokenizer and ranking: FTS5 with `unicode61` and its `bm25` (k1 = 1.2, b = 0.75)."""
MAX_TERMS = 256
_SCHEMA = """
CREATE TABLE about (protocol TEXT NOT NULL);
CREATE TABLE documents (
  id INTEGER PRIMARY KEY, doc_id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, title TEXT NOT NULL,
  corpus_revision TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE VIRTUAL TABLE searched USING fts5(content, content='', tokenize='unicode61');
"""
_COLUMNS = "doc_id, text, title, corpus_revision, metadata"


class SQLiteFTS5Retriever:
    """Rank documents of a file that `build` wrote.

    A query is the OR of its first 256 distinct words. Only documents that hold one of them are found; the score is the
    negated ``bm25`` of FTS5, so that larger is better, and equal scores are ordered by document id.

    Args:
        path: the file.
        retriever_id: name of the retriever.

    Raises:
        ArtifactError: the file is not one that `build` wrote.
    """

    def __init__(self, path: Path | str, *, retriever_id: str = "sqlite-fts5") -> None:
        self.retriever_id = text(retriever_id, "SQLiteFTS5Retriever.retriever_id")
        self._path = Path(path)
        if not self._path.is_file():
            raise ArtifactError(f"{self._path.name} is no file")
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            f"{self._path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        self._fingerprint: str | None = None
        try:
            known = self._connection.execute("SELECT protocol FROM about").fetchall()
        except sqlite3.DatabaseError:
            known = []
        if known != [(FTS5_PROTOCOL,)]:
            self._connection.close()
            raise ArtifactError(f"{self._path.name} is no index of protocol {FTS5_PROTOCOL}")

    @classmethod
    def build(
        cls, path: Path | str, documents: Iterable[Document], *, retriever_id: str = "sqlite-fts5"
    ) -> SQLiteFTS5Retriever:
        """Write an index file that must not exist yet, and open it.

        The documents are read one by one, so that they need not fit into memory.

        Raises:
            ValidationError: no document, or an id stands twice.
            FileExistsError: the file is there already.
        """
        path = Path(path)
        if path.exists():
            raise FileExistsError(f"{path} exists already")
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        try:
            _write(partial, documents)
            path.hardlink_to(partial)  # fails when the name was taken meanwhile
        finally:
            partial.unlink(missing_ok=True)
        return cls(path, retriever_id=retriever_id)

    def __enter__(self) -> SQLiteFTS5Retriever:
        """Give the retriever."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def retrieve(self, query: str, *, top_k: int = 5) -> tuple[RetrievalResult, ...]:
        """Give at most ``top_k`` documents that share a word with the query, best first."""
        words = list(dict.fromkeys(default_tokenize(query)))[:MAX_TERMS]
        if top_k < 1 or not words:
            return ()
        expression = " OR ".join(f'"{word}"' for word in words)
        statement = (
            f"SELECT {_COLUMNS}, -bm25(searched) AS score FROM searched JOIN documents ON id = searched.rowid "  # noqa: S608 - names are constants
            "WHERE searched MATCH ? ORDER BY score DESC, doc_id LIMIT ?"
        )
        with self._lock:
            rows = self._connection.execute(statement, (expression, top_k)).fetchall()
        return tuple(
            RetrievalResult(_document(row[:-1]), row[-1], rank, {"bm25_score": row[-1]})
            for rank, row in enumerate(rows, start=1)
        )

    def fingerprint(self) -> str:
        """Give the content hash of protocol and documents; the first call reads the whole file."""
        if self._fingerprint is None:
            digest = sha256()
            with self._lock:
                rows = self._connection.execute(f"SELECT {_COLUMNS} FROM documents ORDER BY doc_id")  # noqa: S608 - as above
                for row in rows:
                    digest.update(canonical_json(list(row)).encode() + b"\n")
            self._fingerprint = content_hash(
                {"retriever": FTS5_PROTOCOL, "retriever_id": self.retriever_id, "documents_sha256": digest.hexdigest()}
            )
        return self._fingerprint


def _write(path: Path, documents: Iterable[Document]) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_SCHEMA)
        connection.execute("INSERT INTO about VALUES (?)", (FTS5_PROTOCOL,))
        number = 0
        for number, (document, row) in enumerate(_rows(documents), start=1):
            try:
                connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", (number, *row))
            except sqlite3.IntegrityError as error:
                raise ValidationError(f"documents has the doc_id {document.doc_id!r:.80} twice") from error
            connection.execute(
                "INSERT INTO searched (rowid, content) VALUES (?, ?)", (number, document.searched_text.lower())
            )
        if not number:
            raise ValidationError("documents must hold at least one document")
        connection.commit()
    finally:
        connection.close()


def _rows(documents: Iterable[Document]) -> Iterator[tuple[Document, tuple[str, ...]]]:
    for document in documents:
        entries([document], "documents", Document)
        metadata = canonical_json(document.metadata)
        yield document, (document.doc_id, document.text, document.title, document.corpus_revision, metadata)


def _document(row: tuple[str, ...]) -> Document:
    doc_id, content, title, corpus_revision, metadata = row
    return Document(doc_id, content, title, corpus_revision, json.loads(metadata))
