package main

import (
	"math"

	"github.com/spillway-llm/spillway/internal/evaluate"
)

// An instrument says from rows what a target would do to a fleet.
type instrument uint8

const (
	naive instrument = iota
	direct
	ips
	snips
	doublyRobust
	switchDR
	priced
	simulator
	anyway
	switchback
	splitNaive
	splitDQ
	instruments
)

// String is the instrument as tables name it.
func (i instrument) String() string {
	return [instruments]string{
		"naive difference", "DM", "IPS", "SNIPS", "DR", "switch-DR", "DR, priced",
		"fitted simulator", "fitted simulator, --anyway", "switchback", "split, naive", "split, DQ",
	}[i]
}

// key is the instrument as bars and files name it.
func (i instrument) key() string {
	return [instruments]string{
		"naive", "dm", "ips", "snips", "dr", "switch_dr", "dr_priced",
		"simulator", "simulator_anyway", "switchback", "split_naive", "split_dq",
	}[i]
}

// estimate is what an instrument says of an effect, target/logged - 1, with its
// 95 % interval. What it does not say is NaN.
type estimate struct {
	effect   effect
	requests int    // it was made from
	refused  string // why there is none
}

func refused(why string) estimate {
	unknown := math.NaN()
	return estimate{effect: effect{Mean: unknown, Low: unknown, High: unknown}, refused: why}
}

// said is an estimate of so many requests, unless it is no number.
func said(i evaluate.Interval, requests int) estimate {
	e := estimate{effect: effect{Mean: float64(i.Mean), Low: float64(i.Low), High: float64(i.High)}, requests: requests}
	if math.IsNaN(e.effect.Mean) || math.IsInf(e.effect.Mean, 0) {
		return refused("no number")
	}
	return e
}

// known reports whether there is an estimate.
func (e *estimate) known() bool { return e.refused == "" && !math.IsNaN(e.effect.Mean) }

// estimates are all that is said of one pair.
type estimates [instruments][quantities]estimate

// silent are those of which nothing was asked yet.
func silent() (out estimates) {
	for i := range out {
		for q := range out[i] {
			out[i][q] = refused("not asked")
		}
	}
	return out
}
