// Package bench is what every benchmark that judges a claim has in common: bars
// with a bound, where the numbers were measured, and one file a benchmark in
// docs/results. A benchmark is a program in a folder below this one; it prints its
// table and ends with one line a bar, "bar NAME VALUE RELATION BOUND ok|short".
package bench
