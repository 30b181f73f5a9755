// Package physics is the analytic prior: what a continuous-batching engine's
// step model says about time to first token and time per output token, from
// state a router can see. It extrapolates where trees cannot.
//
// The step model has five coefficients per (LLM, endpoint class):
//
//	step = A + B*prefill + C*prefill*context + D*decoding + E*kv
//
// with prefill tokens computed in this step, the context they attend to,
// sequences decoding, and the context tokens those read. The form and the
// published coefficients come from a fit to measured steady states of vLLM
// (median TPOT error 1.4 % on Qwen3-32B, 2xH100).
package physics
