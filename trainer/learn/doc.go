// Package learn makes a bundle of measured rows: which rows count, how the
// forests of the four heads are fitted to them, and the settings of it all. The
// trainer and the benchmarks learn through it alone, so that what is judged is
// what is served.
package learn
