// Package fit finds an engine's step model, the five coefficients of package
// physics, in what was measured: steady states of a closed loop, static
// batches, an engine's own time stamps, requests with the load a router knew, or
// a router's own rows, which tell what ran beside each answer. Everything is non-negative regression on relative error, robust
// against outliers and deterministic.
//
// Each fit states its equations, can predict rows that it has not seen, and is
// judged on those (CrossSteadyStates and its siblings).
package fit
