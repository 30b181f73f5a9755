#!/usr/bin/python3
"""Trains XGBoost or scikit-learn on rows that internal/bench/gbdt wrote.

Reads one JSON object a line: {"tool", "objective", "alpha", "rows", "trees",
"leaves", "rate", "l2", "least_rows", "bins", "threads"}. Answers each with one
line: {"wall", "cpu"} in seconds of the training call alone, having written its
predictions for the held-out rows to the file predictions. An empty line of input ends it.
"""
import json
import sys
import time

import numpy

FOLDER = sys.argv[1]


def read(name, features):
    x = numpy.fromfile(f"{FOLDER}/{name}.x").reshape(-1, features)
    return x, numpy.fromfile(f"{FOLDER}/{name}.y")


def timed(train):
    wall, cpu = time.perf_counter(), time.process_time()
    model = train()
    return model, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def xgboost(job, x, y, held):
    import xgboost as xgb

    # A matrix is binned when it is first trained on, so it must be new.
    data = xgb.DMatrix(x, y, nthread=job["threads"])
    settings = {
        "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0,
        "max_leaves": job["leaves"], "max_bin": job["bins"] + 1, "eta": job["rate"],
        "lambda": job["l2"], "min_child_weight": job["least_rows"],
        "nthread": job["threads"], "objective": "reg:squarederror",
        "base_score": float(y.mean()), "verbosity": 1,
    }
    model, took = timed(lambda: xgb.train(settings, data, job["trees"]))
    return model.predict(xgb.DMatrix(held)), took


def sklearn(job, x, y, held):
    from sklearn.ensemble import HistGradientBoostingRegressor

    loss = {"loss": "squared_error"}
    if job["objective"] == "quantile":
        loss = {"loss": "quantile", "quantile": job["alpha"]}
    model = HistGradientBoostingRegressor(
        max_iter=job["trees"], max_leaf_nodes=job["leaves"], learning_rate=job["rate"],
        l2_regularization=job["l2"], min_samples_leaf=job["least_rows"],
        max_bins=job["bins"], early_stopping=False, **loss)
    _, took = timed(lambda: model.fit(x, y))
    return model.predict(held), took


def main():
    features = int(sys.argv[2])
    x, y = read("train", features)
    held, _ = read("held", features)
    for line in iter(sys.stdin.readline, "\n"):
        if not line:
            return
        job = json.loads(line)
        tool = {"xgboost": xgboost, "sklearn": sklearn}[job["tool"]]
        predictions, took = tool(job, x[:job["rows"]], y[:job["rows"]], held)
        predictions.astype("<f8").tofile(f"{FOLDER}/predictions")
        print(json.dumps(took), flush=True)


main()
