// Package design says which arm of an experiment on live traffic decides what: by
// blocks of time (a Switchback) or request by request (a Split).
//
// An arm of a switchback is a function of the design and the time alone. Routers
// that were told the same design therefore agree without a word, one that begins
// anew goes on where it was, and an analysis finds the same arm again. Every
// decision of an experiment carries its design as text, so that a log says by
// itself what was tried.
package design
