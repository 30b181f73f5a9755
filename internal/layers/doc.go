// Package layers holds who may import whom, as data with a reason a line, and
// the checks that make the table true of the source.
//
// The table is the wall plan of the repository: a package that is missing from
// it, or that imports something its row does not name, fails the tests of this
// package. The checks read the source files themselves, whatever their build
// constraints, so they hold on every platform at once. Test files are exempt:
// a test may use what it likes.
package layers
