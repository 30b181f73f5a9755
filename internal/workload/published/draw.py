"""Draws the conversations of the published closed loops, as their load generator did.

    python3 draw.py > draws.txt     (numpy 1.24 or later)

The published runs set the load generator's seed to the number of clients
(llm-d-benchmarking, run_benchmark.sh, 7c4b49a: SEED=conc), so that number and the order
of draws below decide every length: turns, system prompts, the tokens of the shared
system prompt (drawn, and thrown away here), inputs, outputs (kubernetes-sigs/inference-perf
at 3c7c4a3, conversation replay). Lengths are in tokens of the tokenizer, before the text
is tokenized again.

A line is one conversation: workload, clients, tokens of its own system prompt, then
input+output of each turn, as many as its client may send.
"""

import numpy

VOCABULARY = 151643  # of Qwen3's tokenizer, without added tokens


def clipped(values, least, most):
    return numpy.clip(numpy.round(values), least, most).astype(int)


def lognormal(rng, mean, deviation, least, most, count):
    variance = numpy.log(1 + (deviation / mean) ** 2)
    values = rng.lognormal(numpy.log(mean) - variance / 2, numpy.sqrt(variance), count)
    return clipped(values, least, most)


def code_generation(clients):
    rng = numpy.random.default_rng(clients)
    turns = clipped(rng.normal(6, 3.5, clients), 2, 20)
    system = clipped(rng.uniform(15000, 100001, clients), 15000, 100000)
    rng.integers(0, VOCABULARY, 3000)
    inputs = lognormal(rng, 1500, 1200, 100, 10000, turns.sum())
    outputs = lognormal(rng, 800, 600, 50, 4000, turns.sum())
    return turns, system, inputs, outputs


def reasoning(clients):
    rng = numpy.random.default_rng(clients)
    rng.integers(0, VOCABULARY, 250)
    inputs = lognormal(rng, 1000, 800, 100, 5000, clients)
    outputs = lognormal(rng, 8000, 6500, 500, 32000, clients)
    return numpy.ones(clients, int), numpy.zeros(clients, int), inputs, outputs


for name, draw, rounds, loads in (
    ("code-generation", code_generation, 6, range(10, 101, 10)),
    ("reasoning", reasoning, 3, range(50, 451, 100)),
):
    for clients in loads:
        turns, system, inputs, outputs = draw(clients)
        first = 0
        for conversation in range(clients):
            some = range(first, first + min(turns[conversation], rounds))
            words = " ".join(f"{inputs[i]}+{outputs[i]}" for i in some)
            print(name, clients, system[conversation], words)
            first += turns[conversation]
