// Package advise answers what operators must answer first: does this traffic want
// token-load, active-request or predicted, and where should the valve stand?
//
// It looks at the traffic twice. Usage reads what the requests took of the fleet,
// from the rows of a log or of one simulation under combined-load, which favours
// neither side, and Class says what binds: time for prefill, time for decoding,
// places in the batch or room in the KV cache, and whether that is one thing or
// several. A Study runs the very traffic under the three policies in simulation,
// on engines that the router knows only nearly, each seed with others, and Advise
// puts both together by one rule:
//
//   - The matched configuration is the one with the lower mean end-to-end latency,
//     where the two differ by more than 3 % and the 95 % interval of the paired
//     difference has one sign. Where simulation does not tell, it is the one that
//     the class wants: token-load for prefill, active-request for everything else.
//   - Where the traffic is of one kind, the matched configuration is recommended,
//     unless predicted is shown to be better by more than 3 %: its whole interval.
//   - Where it is of several, neither matched configuration is right for all of
//     it, and predicted is recommended, unless it is shown to be worse than the
//     matched one by more than 3 %.
//
// So the class decides who bears the burden of proof, and simulation is the proof.
package advise
