"""How many queries does BM25 in memory answer per second, and what share of the floor is that?"""

from __future__ import annotations

import time

import numpy as np
from _common import pin_to_one_core, timed, write_results

from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever
from ripieno.randomness import derive_substream

N_WORDS, QUERY_WORDS, TOP_K, N_QUERIES = 20_000, 4, 5, 4_000
LIMIT_QUERIES_PER_SECOND = 4_000


def texts(rng: np.random.Generator, count: int, length: int) -> list[str]:
    """Texts whose words follow Zipf's law, as in natural language: few words are in very many documents."""
    shares = 1 / np.arange(1, N_WORDS + 1)
    words = rng.choice(N_WORDS, size=(count, length), p=shares / shares.sum())
    return [" ".join(f"w{word}" for word in row) for row in words]


def main() -> None:
    pin_to_one_core()
    rng = derive_substream("benchmark.inputlab.bm25").default_rng()
    queries = texts(rng, N_QUERIES, QUERY_WORDS)
    rows: list[dict[str, object]] = []
    for n_documents, length in ((1_000, 12), (10_000, 12), (10_000, 60), (100_000, 12)):
        documents = [Document(f"d{k:06d}", text) for k, text in enumerate(texts(rng, n_documents, length))]
        started = time.process_time()
        retriever = InMemoryBM25Retriever(documents)
        build = time.process_time() - started
        count = N_QUERIES if n_documents <= 10_000 else 1_000
        whole = timed(lambda k, found=retriever: found.retrieve(queries[k % N_QUERIES], top_k=TOP_K), calls=count)
        started = time.process_time()
        for query in queries[:count]:
            retriever.retrieve(query, top_k=TOP_K)
        per_second = count / (time.process_time() - started)
        floor = timed(lambda k, found=retriever: found.scores(queries[k % N_QUERIES]), calls=count)
        row: dict[str, object] = {
            "documents": n_documents,
            "words each": length,
            "queries per CPU second": round(per_second),
            "limit": LIMIT_QUERIES_PER_SECOND if (n_documents, length) == (10_000, 12) else "",
            "query (µs)": whole["median"],
            "quartiles (µs)": f"{whole['quartile_1']} to {whole['quartile_3']}",
            "of that scores (µs)": floor["median"],
            "index (s)": round(build, 2),
        }
        rows.append(row)
    write_results(
        "inputlab_bm25",
        title="Speed of BM25 in memory",
        method=f"{QUERY_WORDS}-word queries, top {TOP_K} as finished results, exact scores of all documents, ties by "
        f"document id; {N_WORDS:,} words drawn by Zipf's law; one core.",
        columns=list(rows[0]),
        rows=rows,
        limit_queries_per_second=LIMIT_QUERIES_PER_SECOND,
    )


if __name__ == "__main__":
    main()
