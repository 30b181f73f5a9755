// Package evaluate judges forecasts and policies offline, from rows and a seed
// alone, so that every number can be had again.
//
// Its statistics are those of the gate too. Losses and errors are of
// latencies in seconds or of their logarithms, as each says. What is not known
// is NaN and is left out, never counted as 0.
package evaluate
