// Package correction is what a router learns online, without a trainer: how
// much slower than its class an endpoint runs (Speed), what remains of the
// forecast error per endpoint (Offset), and whether forecasts may be used at
// all (Machine). Nothing here reads a clock: time comes as an argument, so the
// simulator runs the same code.
package correction
