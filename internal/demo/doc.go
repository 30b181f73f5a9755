// Package demo runs every part of Spillway on one machine as processes of
// their own: a private Postgres, simulated engines, predictor, trainer, router
// and load. It kills the predictor on the way, tells what happens as it
// happens, and afterwards checks from the database and from the load's own
// records that everything claimed is so.
package demo
