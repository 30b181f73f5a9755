// Package simreport tells what simulations came to: the mean and 95 % interval of
// each metric over paired seeds, as a table, CSV, JSON, and an HTML page with
// plots. It reads summaries and runs nothing.
package simreport
