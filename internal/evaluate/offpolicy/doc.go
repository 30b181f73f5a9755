// Package offpolicy estimates what another policy would have done with the
// requests of a log, from the probabilities that the log's own policy chose
// with and from what came of its choices.
//
// Estimators works on numbers alone: probabilities, values, forecasts. An
// Evaluation makes these of logged decisions: it decides each again with
// policy.Decide under the changes that are asked for. Both see a log once, in
// order of time, and what they hold does not grow with it.
//
// All of it is first-order. A value is the latency of the one request: that a
// request sent elsewhere makes others faster or slower is not in it, nor that
// prefixes would have come to lie elsewhere.
package offpolicy
