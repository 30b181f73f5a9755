// Package route is the one choke point of both front doors: whatever came in,
// and whatever protocol it came by, is decided, charged, settled and recorded
// here.
//
//	Begin   prefix and load of every endpoint, priors, one forecast call,
//	        then Decide and charge in one locked step
//	Ticket  follows the request: sent, first token, tokens, end; settles
//	        exactly once and records the outcome
//
// It declares what it needs of the predictor (Forecaster) and of the store
// (Recorder).
package route
