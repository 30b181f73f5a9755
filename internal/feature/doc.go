// Package feature is the vocabulary of the learned problem: what is known of
// a request and of an endpoint when a decision is made (Request, Load, Prior),
// the numbers a forecast is made from (Vector), the forecast itself, the
// decision that used it and the outcome measured afterwards.
//
// Of is the only maker of a Vector. The value that was predicted from is the
// value stored and the value trained on, bit for bit.
//
// Times inside the learned problem are Seconds, not time.Duration, because
// they may be unknown: unknown is NaN, never 0.
package feature
