// Package trainer refits the forecasts: one cycle takes a window of rows, fits
// four heads, judges them on later rows beside what they must beat, and
// publishes what passes the gate. A refusal is stored with its numbers.
//
// The rows are split by time, never at random, and no row is learned from
// whose outcome was still open when the held-out part began.
//
// Every cycle also decides whether the served bundle stays fresh: when a
// candidate is refused it is judged on the same rows, and when there are too
// few new rows to judge anything it is extended, for a bounded time after it
// was last judged and only if that went well.
package trainer
