// Package front is what the front doors have in common, whatever protocol they
// speak: how a request is read into a query, how an answer is heard and judged,
// and what a client is told that is turned away.
//
// It decides nothing and opens nothing; the doors are gateway and extproc.
package front
