package feature

import "time"

// Candidate is one endpoint as one decision saw it.
type Candidate struct {
	Endpoint    string
	Class       string   // accelerator, engine and flags; selects the prior's coefficients
	Vector      Vector   // what its forecast was made from; all NaN when it was not asked about
	Forecast    Forecast // as the predictor gave it; NoForecast when not asked about
	Corrected   Forecast // tempered, after online correction and with the prior recomputed at the decision
	Cost        float64  // what the policy minimised; NaN when the policy did not score it
	Probability float64  // that this candidate would be chosen, over the decision's own draws
}

// Decision is one routing decision and everything it was made from.
type Decision struct {
	ID            ID
	DecidedAt     time.Time
	LLM           string
	Router        string // the router instance
	Mode          string // shadow, canary, switchback or live
	Experiment    string // the design it is part of, as package design writes it; empty: none
	Arm           string // of that design; empty where nothing was left to a canary's coin
	Policy        string // the policy that decided: predicted, or the fallback when forecasts might not
	PolicyVersion int
	Bundle        int64 // version of the bundle whose forecasts were used; 0 when none were
	Schema        Fingerprint
	State         string // forecast state: live, cold, stale, slow, down or wrong
	Reason        string // one readable line

	PromptTokens         float64
	ExpectedOutputTokens float64
	SLOTTFT              Seconds // NaN when the request sets none
	SLOTPOT              Seconds
	Priority             int

	Chosen       string  // endpoint; empty when shed
	ChosenClass  string  // its class
	ChosenVector Vector  // its vector, in a column of its own: the trainer reads only this
	Propensity   float64 // the probability the chosen candidate had
	Explored     bool    // chosen by the policy's exploration

	Complete    bool        // every candidate is here, so the decision can be made again
	Candidates  []Candidate // ordered by endpoint
	States      []byte      // everything else Decide read, in its own versioned form
	Rest        int         // candidates left out of an incomplete row
	RestCostMin float64     // NaN when Rest is 0
	RestCostMax float64

	// PromptDigest tells what prompts have in common and nothing of their text:
	// see prefix.Digester. Empty where nothing is known of the prompt.
	PromptDigest []byte

	Epoch uint64 // of the pool snapshot
	Seed  uint64 // of the decision's own draws
}
