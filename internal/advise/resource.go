package advise

import "github.com/spillway-llm/spillway/router/policy"

// Resource is what requests wait for most.
type Resource uint8

// The resources of an engine.
const (
	Nothing Resource = iota // the fleet has time to spare
	Prefill                 // time to compute prompts
	Decode                  // time that the sequences of a batch add to its steps
	Slots                   // places in the batch
	KV                      // room in the KV cache
	resources
)

// String is the resource as reports name it.
func (r Resource) String() string {
	return [resources]string{"nothing", "prefill", "decode", "slots", "kv"}[r]
}

// says is the resource as the subject of a sentence.
func (r Resource) says() string {
	return [resources]string{"nothing", "time for prefill", "time for decoding", "the places in the batches", "room in the KV caches"}[r]
}

// MarshalText writes the name.
func (r Resource) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// matched is the matched configuration of traffic that is bound by r.
func (r Resource) matched() string {
	if r == Prefill {
		return policy.TokenLoad
	}
	return policy.ActiveRequest
}

const (
	// full is the share of batch or cache from which on requests wait for it:
	// endpoints are not equally full, so some have none left when the mean is
	// here.
	full = 0.85
	// idle is the share of the endpoints' time below which nobody waits long for
	// anybody.
	idle = 0.05
)

// binds is the resource that is used up first. Where batches and caches have
// room, it is what takes more of the endpoints' time.
func (m *Moment) binds() Resource {
	switch {
	case m.KV >= full:
		return KV
	case m.Slots >= full:
		return Slots
	case m.Prefill+m.Decode < idle:
		return Nothing
	case m.Prefill > m.Decode:
		return Prefill
	}
	return Decode
}
