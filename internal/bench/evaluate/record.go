package main

import (
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/feature"
)

// record is what the file says beside the bars.
type record struct {
	Scores      []scored      `json:"scores"`
	Exploration []priceRecord `json:"exploration"`
	Worlds      []worldRecord `json:"worlds"`
}

type scored struct {
	Instrument string         `json:"instrument"`
	Quantity   string         `json:"quantity"`
	Worlds     string         `json:"worlds"`
	Pairs      int            `json:"pairs"`
	Answered   int            `json:"answered"`
	Bias       feature.Number `json:"bias"`
	RMSE       feature.Number `json:"rmse"`
	Median     feature.Number `json:"median_error"`
	Decisive   int            `json:"decisive"`
	Right      int            `json:"sign_right"`
	Low        feature.Number `json:"sign_low"` // of the 99 % interval
	High       feature.Number `json:"sign_high"`
	Covered    feature.Number `json:"coverage"`
	Width      feature.Number `json:"half_interval"`
	Needed     feature.Number `json:"requests_needed"`
}

type priceRecord struct {
	World string       `json:"world"`
	Seeds int          `json:"seeds"`
	Mean  trial.Change `json:"mean_ttft"`
	P99   trial.Change `json:"ttft_p99"`
}

type worldRecord struct {
	Name      string                     `json:"name"`
	Mechanism string                     `json:"mechanism"`
	Logged    string                     `json:"logged_by"`
	Endpoints int                        `json:"endpoints"`
	Rate      float64                    `json:"requests_per_second"`
	Means     [quantities]feature.Number `json:"logged_means"` // seconds, in the order of the effects below
	Trusted   bool                       `json:"simulator_trusted"`
	Why       string                     `json:"simulator_refuses,omitempty"`
	Pairs     []pairRecord               `json:"pairs"`
}

type pairRecord struct {
	Target    string                                `json:"target"`
	Truth     [quantities]effect                    `json:"true"`
	Longer    [quantities]effect                    `json:"true_of_switchback"`
	Rows      int                                   `json:"rows"`
	Chance    int64                                 `json:"left_to_chance"`
	Effective feature.Number                        `json:"effective_samples"`
	Common    feature.Number                        `json:"common"`
	Estimates map[string][quantities]estimateRecord `json:"estimates"`
}

type estimateRecord struct {
	Effect  effect `json:"effect"`
	Refused string `json:"refused,omitempty"`
}

func newRecord(studies []*study, prices []price) record {
	var out record
	all := pairsOf(studies)
	for q := range quantities {
		for g := range groups {
			for i := range instruments {
				s := scoreOf(all, i, q, g)
				p := s.sign()
				out.Scores = append(out.Scores, scored{
					i.String(), q.String(), g.String(), s.pairs, s.answered, feature.Number(s.bias), feature.Number(s.rmse), feature.Number(s.median),
					s.decisive, s.right, p.Low, p.High, feature.Number(s.covered), feature.Number(s.width), feature.Number(s.needed),
				})
			}
		}
	}
	if len(prices) > 0 {
		for _, p := range append(prices, pooled(prices)) {
			out.Exploration = append(out.Exploration, priceRecord{p.world, len(p.mean), trial.ChangeOf(p.mean), trial.ChangeOf(p.p99)})
		}
	}
	for _, s := range studies {
		w := worldRecord{
			Name: s.world.name, Mechanism: s.world.mechanism.name, Logged: s.world.logged.name, Endpoints: s.world.endpoints, Rate: s.world.rate(),
			Trusted: s.trusted, Why: s.why,
		}
		for q := range quantities {
			w.Means[q] = feature.Number(s.logged[q])
		}
		for i := range s.pairs {
			w.Pairs = append(w.Pairs, s.pairs[i].record())
		}
		out.Worlds = append(out.Worlds, w)
	}
	return out
}

func (p *pair) record() pairRecord {
	out := pairRecord{
		Target: p.target.name, Truth: p.truth.log, Longer: p.truth.all, Rows: p.rows, Chance: p.overlap.judged,
		Effective: feature.Number(p.overlap.effective), Common: feature.Number(p.overlap.common), Estimates: map[string][quantities]estimateRecord{},
	}
	for i := range instruments {
		var both [quantities]estimateRecord
		for q := range quantities {
			both[q] = estimateRecord{p.estimates[i][q].effect, p.estimates[i][q].refused}
		}
		out.Estimates[i.key()] = both
	}
	return out
}
