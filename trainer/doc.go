// Package trainer refits the forecasts: one cycle takes a window of rows, fits
// four heads, judges them on later rows beside what they must beat, and
// publishes what passes the gate. A refusal is stored with its numbers.
//
// The rows are split by time, never at random, and no row is learned from
// whose outcome was still open when the held-out part began: that is the gap.
//
// Rows that can't be what they claim are left out and counted; where they are
// many, nothing is learned from the others either.
//
// Every cycle also decides whether the served bundle stays fresh: it is judged
// on the same rows as the candidate, and when there are too few new rows to
// judge anything it is extended, for a bounded time after the newest row that
// judged it and only if that went well. The last judgement is read from the
// store, so that a trainer that starts anew for each cycle does the same as one
// that goes on.
//
// Between cycles it watches new outcomes for drift, and refits early when it
// finds any.
package trainer
