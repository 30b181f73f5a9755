// Package calibrate finds the profile of one live engine: which prompts and
// batches to measure (Plan), the text of prompts that no cache holds (Text),
// and the step model that the measurements describe (Fit).
//
// An engine that serves nothing else takes, in the terms of package physics,
//
//	T(B)    = overhead + steps*A + B*u + C*u*(p-u/2)   to the first token
//	TPOT(n) = A + D*n + E*kv                           while n sequences decode
//
// for a prompt of p tokens, u of them not cached, computed in ceil(u/budget)
// steps; kv is the context that all n read. Both are linear in the six numbers,
// which are fitted together: the decode steps tell the cost of a step apart
// from what a request spends outside the engine. Package measure takes the
// measurements.
package calibrate
