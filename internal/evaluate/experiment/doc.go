// Package experiment says what an experiment on live traffic showed: the effect of
// its second arm against the first, with intervals, from the rows of the requests
// that it decided on.
//
// Of a switchback the blocks are the units, not the requests: those of one block
// share queues and caches, and a thousand of them may say no more than one. What
// is compared is therefore one number a block, in the pairs that the design drew.
//
// Of a split (a canary) the requests of both arms met in the same queues. The
// difference of their means is shown, and said to be biased; beside it stands an
// estimate that counts what each choice did to the requests after it
// (differences in Q: Farias, Li, Peng and Zheng, NeurIPS 2022).
package experiment
