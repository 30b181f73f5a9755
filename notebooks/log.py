"""Reads the log that the notebooks look at, from the store or from an export.

Both ways give one table with the columns of docs/data.md, in UTC and seconds;
what is not known is NaN. The notebooks take it from

    SPILLWAY_LOG   a file that "spillway store export --candidates" wrote: CSV
                   (also gzipped) or, where pyarrow is installed, Parquet
    DATABASE_URL   the store, where SPILLWAY_LOG is not set

and SPILLWAY_LLM names the LLM where there are several.
"""

import base64
import json
import os

import numpy as np
import pandas as pd

FORECAST = ["ttft_p50", "ttft_p90", "tpot_p50", "tpot_p90",
            "residual_ttft_p50", "residual_ttft_p90", "residual_tpot_p50", "residual_tpot_p90", "support"]

VECTOR = ["prompt_tokens", "cached_tokens", "uncached_tokens", "expected_output_tokens", "max_output_tokens", "completions",
          "waiting", "running", "kv_used", "scrape_age",
          "inflight_requests", "inflight_prefill_tokens", "inflight_decoding", "inflight_context_tokens",
          "dispatched_since_scrape", "dispatched_tokens_since_scrape",
          "peak_prefill_throughput", "max_batched_tokens", "max_num_seqs", "kv_capacity_tokens", "speed_factor",
          "prior_ttft", "prior_tpot", "prior_prefill", "prior_queue", "prior_admission", "prior_interference"]

TEXTS = ["decision", "llm", "router", "mode", "policy", "schema", "state", "reason", "chosen", "class", "status", "served_by"]
TIMES = ["decided_at", "finished_at"]
SCALARS = ["policy_version", "bundle", "prompt_tokens", "expected_output_tokens", "slo_ttft", "slo_tpot", "priority",
           "propensity", "explored", "complete", "rest", "attempt", "http_status",
           "ttft", "tpot", "e2e", "output_tokens", "cached_tokens", "censored_at"]

QUERY = """
    SELECT d.id::text AS decision, d.decided_at, d.llm, d.router, d.mode, d.policy, d.policy_version, d.bundle,
        encode(d.schema, 'hex') AS schema, d.state, d.reason, d.prompt_tokens, d.expected_output_tokens,
        d.slo_ttft, d.slo_tpot, d.priority, coalesce(d.chosen, '') AS chosen, coalesce(d.chosen_class, '') AS class,
        d.propensity, d.explored, d.complete, d.rest,
        d.chosen_vector, d.chosen_forecast, d.chosen_corrected,
        coalesce(o.attempt, 0) AS attempt, coalesce(o.status, '') AS status, coalesce(o.http_status, 0) AS http_status,
        o.ttft, o.tpot, o.e2e, o.output_tokens, o.cached_tokens, coalesce(o.endpoint, '') AS served_by,
        o.censored_at, o.finished_at,
        d.ids, d.classes, d.probabilities, d.costs, d.corrected, d.vectors
    FROM decisions d
    LEFT JOIN LATERAL (
        SELECT * FROM outcomes WHERE decided_at = d.decided_at AND decision = d.id ORDER BY attempt DESC LIMIT 1
    ) o ON true
    WHERE %(llm)s::text IS NULL OR d.llm = %(llm)s
    ORDER BY d.decided_at, d.id
"""


def read():
    """The rows of one LLM, a decision each, in order of time, and its candidates.

    Returns two tables: rows, and candidates with one row for every candidate of
    a decision, which "row" names by its index in rows.
    """
    file, llm = os.environ.get("SPILLWAY_LOG"), os.environ.get("SPILLWAY_LLM")
    if file:
        rows, candidates = _from_file(file)
        if llm:
            kept = rows[rows["llm"] == llm]
            candidates = candidates[candidates["row"].isin(kept.index)]
            candidates = candidates.assign(row=kept.index.get_indexer(candidates["row"])).reset_index(drop=True)
            rows = kept.reset_index(drop=True)
    elif os.environ.get("DATABASE_URL"):
        rows, candidates = _from_store(os.environ["DATABASE_URL"], llm)
    else:
        raise SystemExit('set SPILLWAY_LOG to a file that "spillway store export --candidates" wrote, or DATABASE_URL to the store')
    if rows.empty:
        raise SystemExit("the log holds no decisions" + (f" of {llm}" if llm else ""))
    if rows["llm"].nunique() > 1:
        raise SystemExit("set SPILLWAY_LLM to one of " + ", ".join(sorted(rows["llm"].unique())))
    return rows, candidates


def _from_file(name):
    if name.endswith(".parquet"):
        raw = pd.read_parquet(name)  # needs pyarrow
    else:
        text = {name: str for name in TEXTS + ["epoch", "seed", "candidates", "vectors", "states"]}
        raw = pd.read_csv(name, dtype=text, keep_default_na=False, na_values={c: [""] for c in _numbers()},
                          float_precision="round_trip")
        for name in TIMES:  # in UTC, with a Z; some without fractions of a second
            raw[name] = np.array([v[:-1] or "NaT" for v in raw[name]], "datetime64[us]")
    tables = [json.loads(text) if text else {"endpoint": []} for text in raw["candidates"]]
    vectors = [base64.b64decode(v) if isinstance(v, str) else v for v in raw["vectors"]]
    return _rows(raw), _candidates(tables, [np.frombuffer(v, "<f4") for v in vectors])


def _from_store(url, llm):
    import psycopg2

    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(QUERY, {"llm": llm})
        raw = pd.DataFrame(cursor.fetchall(), columns=[c.name for c in cursor.description])
    # Rows of versions whose vector had another width have no place in the columns.
    width = len(VECTOR)
    fits = [len(v or [0] * width) == width and len(all_) == width * len(ids)
            for v, all_, ids in zip(raw["chosen_vector"], raw["vectors"], raw["ids"])]
    raw = raw[fits].reset_index(drop=True)
    for column, names in [("chosen_vector", ["vector_" + n for n in VECTOR]),
                          ("chosen_forecast", ["forecast_" + n for n in FORECAST]),
                          ("chosen_corrected", ["corrected_" + n for n in FORECAST])]:
        unknown = [np.nan] * len(names)
        block = pd.DataFrame([v or unknown for v in raw[column]], columns=names, dtype=float)
        raw = pd.concat([raw.drop(columns=column), block], axis=1)
    tables = []
    for ids, classes, probabilities, costs, corrected in zip(raw["ids"], raw["classes"], raw["probabilities"], raw["costs"], raw["corrected"]):
        medians = np.array(corrected, float).reshape(-1, len(FORECAST))
        tables.append({"endpoint": ids, "class": classes, "probability": probabilities, "cost": costs,
                       "ttft_p50": medians[:, 0], "tpot_p50": medians[:, 2]})
    return _rows(raw), _candidates(tables, [np.array(v, "f4") for v in raw["vectors"]])


def _numbers():
    return (SCALARS + ["vector_" + n for n in VECTOR]
            + [prefix + n for prefix in ("forecast_", "corrected_") for n in FORECAST])


def _rows(raw):
    """The columns that the notebooks know of, each with its type."""
    rows = raw[TEXTS + TIMES + _numbers()].copy()
    for name in TIMES:
        rows[name] = pd.to_datetime(rows[name], utc=True)
    for name in ("explored", "complete"):
        rows[name] = rows[name].astype(bool)
    for name in _numbers():
        if name not in ("explored", "complete"):
            rows[name] = pd.to_numeric(rows[name]).astype("f4" if name.startswith("vector_") else float).astype(float)
    return rows


def _candidates(tables, vectors):
    """One row for every candidate of every decision."""
    counts = [len(t["endpoint"]) for t in tables]
    out = {"row": np.repeat(np.arange(len(tables)), counts)}
    for name in ("endpoint", "class"):
        out[name] = [v for t in tables for v in t.get(name, [])]
    for name in ("probability", "cost", "ttft_p50", "tpot_p50"):
        out[name] = np.array([np.nan if v is None else float(v) for t in tables for v in t.get(name, [])])
    numbers = np.concatenate(vectors) if vectors else np.empty(0, "f4")
    block = pd.DataFrame(numbers.reshape(-1, len(VECTOR)).astype(float), columns=["vector_" + n for n in VECTOR])
    return pd.concat([pd.DataFrame(out), block], axis=1)
