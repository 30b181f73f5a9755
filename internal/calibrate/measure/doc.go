// Package measure takes the measurements of package calibrate from a live
// engine over the OpenAI API.
//
// An engine that serves others is not measured: its metrics page is read before
// and after each measurement and during it, and requests that are not ours end
// the run. Prompts are random text that no cache holds. Times are those of the
// router's labels: from the dispatch to the first generated token, and from
// token to token.
package measure
