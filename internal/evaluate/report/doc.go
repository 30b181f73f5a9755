// Package report shows people what an evaluation came to: a table for a
// terminal and a page with plots that needs nothing but itself.
package report
