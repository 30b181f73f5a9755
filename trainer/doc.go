// Package trainer refits the forecasts: one cycle takes a window of rows, fits
// four heads, judges them on later rows beside what they must beat, and
// publishes what passes the gate. A refusal is stored with its numbers.
//
// The rows are split by time, never at random, and no row is learned from
// whose outcome was still open when the held-out part began.
package trainer
