// Package simulate asks what a log's traffic would have met under another policy.
//
// Fit reads decisions and their outcomes, finds which prompts begin alike (from
// the digests that routers keep of them), which request goes on from which answer,
// and how fast each endpoint was, by driving simulated engines with the very
// requests that each of them was sent. The Model that comes of it replays the
// arrivals through package fleet: first under the policy that wrote the log (Check:
// does it come out as it was?), then under others (Run, Compare).
//
// Unlike estimators of one request it sees what decisions do to later requests.
// What it can't see is what engines do that a step model does not describe; the
// check says how far that goes, and intervals are wider by it.
package simulate
