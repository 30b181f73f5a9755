// Package report shows advice to people: a table, and a page with plots.
package report
