// Package pool knows the endpoints: where they are, which LLMs they serve,
// what their engines say of themselves, whether they answer, and when they
// restarted.
//
// Endpoints come from a list in the configuration, from a file that is watched
// and from any Source: packages kube and dns below this one have some. What a
// source said last stands while it can't be asked. Each endpoint has a scrape loop of its own, which reads only the metrics
// that are used (Read) and never waits for another endpoint. What is known is
// published as an immutable Snapshot that readers take without a lock.
//
// Health only marks. An endpoint that does not answer stays in the snapshot,
// its numbers growing old, because a stale signal must never leave a pool
// without a candidate: whoever chooses decides what a mark is worth. An
// endpoint that leaves the list leaves the snapshot at once.
//
// An endpoint lives one incarnation after the other. A changed process start
// time or cache configuration, or a counter that went back, begins a new one;
// leaving the list and coming back unchanged does not.
package pool
