// Package workload makes the requests that policies are judged on: who asks
// what, when, and which text the prompts share. It knows no endpoint and no
// router; the simulator and the load generator run the same plans.
//
// A Spec is one workload, a Plan its sessions at one load. What session i asks
// depends on the seed and on i alone, never on the load or on how the answers
// went, so arms that run on equal seeds are given equal requests.
//
// # Sources
//
// code-generation, reasoning and b2b-saas are the published definitions behind
// llm-d's "sticky until saturated" results (llm-d-benchmarking workloads
// 06d672f and 7c4b49a), as their client, kubernetes-sigs/inference-perf, runs
// them:
//
//   - A lognormal length is the least value plus a lognormal whose mean and
//     standard deviation are what is left of the given ones; all lengths are
//     clipped and rounded.
//   - A closed loop with C clients has C conversations, no more. One that has
//     ended begins again with the same words until the request limit, 6 C or
//     3 C, is reached, so repeated first turns find their prompt cached.
//   - That client's seed was the number of clients, so its draws can be made
//     again: Published plans the very conversations that were sent.
//   - The 750 prompts of b2b-saas are shuffled once and then sent in turn,
//     again and again; the warm-up of 15 requests/s for 50 s is one round.
//
// The other workloads are chosen here and measured nowhere; each says why.
package workload
