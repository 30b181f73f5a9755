// Package refit fits a bundle to some rows with the trainer's own learning code
// and judges it on the others: on the later ones, which is what serving it
// would have been like, and beside that on rows drawn at random, which flatters
// every model.
package refit
