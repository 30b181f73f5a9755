// Package plot draws line charts as SVG: a few lines with intervals over a linear
// or logarithmic axis, and rows of values with intervals, which is all that the
// reports need. The same chart gives the same bytes.
package plot
