package learn

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics/fit"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// worth is what later rows say of a head that was fitted to earlier ones.
type worth struct {
	trees   int
	damping float64
	clip    float64
	widen   float64 // by how much its quantile came too low

	losses []float64 // in each fold, used so
}

// trial is one head fitted to the early rows of a fold and put to the late
// ones.
type trial struct {
	fold   *fold
	judges table
	shift  float64
	median float64   // of the early rows
	raw    []float64 // what the forest adds for each of the judges
	low    float64   // range of what it may add
	high   float64
	grown  []bool // judges that find more load than was learned from
}

// choice is one way to use what a head has learned.
type choice struct {
	damping float64
	clip    float64
}

// loss is the mean pinball loss of a choice on the judges that count; NaN when
// none do.
func (t *trial) loss(target bundle.Target, c choice, counts func(i int) bool) float64 {
	var sum, n float64
	for i, y := range t.judges.y {
		if !counts(i) {
			continue
		}
		sum += evaluate.Pinball(Quantiles[target], y, t.forecast(i, c))
		n++
	}
	return sum / n
}

func every(int) bool { return true }

// short is what a choice must be moved by so that the head's share of the judges
// of all trials comes at or below it, and of what comes next, within sureErrors.
// What an endpoint adds counts: where a router has not learned it yet, a p90 must
// hold nevertheless. What all judges of a trial have come slower or faster is left
// out: that a router learns from the first few.
func short(target bundle.Target, trials []trial, c choice) float64 {
	var over []float64
	for k := range trials {
		t := &trials[k]
		drift := t.judges.quantile(0.5) - t.median
		asIs := tableOver(target, t.fold.asIs, nil, &t.fold.early.fitted)
		for i, y := range asIs.y {
			over = append(over, y-t.forecast(i, c)-drift)
		}
	}
	slices.Sort(over)
	q := Quantiles[target]
	sure := q + sureErrors*math.Sqrt(q*(1-q)/float64(len(over)))
	return evaluate.Quantile(over, min(sure, (1+q)/2))
}

// forecast is what a choice says of one of the judges.
func (t *trial) forecast(i int, c choice) float64 {
	return t.shift + (1-c.damping)*clip(t.raw[i], max(t.low, -c.clip), min(t.high, c.clip))
}

// try fits a head in every fold and finds out how many trees help, what of the
// head is worth believing, and whether its forest may say more than firstClip.
func try(ctx context.Context, target bundle.Target, folds []fold, settings *Settings) (worth, error) {
	median := Quantiles[target] == 0.5
	w := worth{trees: min(settings.Forest.Trees, fewestTree), damping: 1, clip: firstClip}
	var trials []trial
	var trees float64
	for i := range folds {
		t, used, err := put(ctx, target, &folds[i], settings)
		if err != nil {
			return w, err
		}
		if used == 0 {
			continue
		}
		trials = append(trials, t)
		trees += float64(used)
	}
	if len(trials) == 0 {
		return w, nil
	}
	w.trees = max(w.trees, int(trees)/len(trials))
	w.clip = widest(target, trials)
	best := choice{damping: 1, clip: w.clip}
	for _, damping := range dampings {
		if c := (choice{damping, w.clip}); better(target, trials, c, best) {
			best = c
		}
	}
	w.damping = best.damping
	for i := range trials {
		w.losses = append(w.losses, trials[i].loss(target, best, every))
	}
	if !median {
		w.widen = short(target, trials, best)
	}
	w.widen = max(0, w.widen) // what came too high by growing past its noise need not again
	return w, nil
}

// form finds out which form of prior, with a forest on what it leaves,
// predicts best what comes next: the sum of terms, which extrapolates better,
// unless the analytic prior times a number wins every time.
func form(ctx context.Context, target bundle.Target, plain, rich []fold, settings *Settings) (fit.Form, worth, []fold, error) {
	simple, err := try(ctx, target, plain, settings)
	if err != nil {
		return fit.Scaled, simple, plain, err
	}
	w, err := try(ctx, target, rich, settings)
	if err != nil {
		return fit.Full, w, rich, err
	}
	for i := range w.losses {
		if !(simple.losses[i] < (1-leastGain)*w.losses[i]) {
			return fit.Full, w, rich, nil
		}
	}
	return fit.Scaled, simple, plain, nil
}

// ofOneTime is those of the samples that are outdated, or those that are not,
// whichever are more: what was learned before outcomes moved, and judged after,
// would prove that nothing is worth anything.
func ofOneTime(samples []Sample) []Sample {
	var parts [2][]Sample
	for _, s := range samples {
		k := 0
		if s.Outdated {
			k = 1
		}
		parts[k] = append(parts[k], s)
	}
	if len(parts[1]) > len(parts[0]) {
		return parts[1]
	}
	return parts[0]
}

// thinned returns at most n of the samples, evenly spaced, the last among them.
func thinned(samples []Sample, n int) []Sample {
	if len(samples) <= n {
		return samples
	}
	out := make([]Sample, n)
	for i := range out {
		out[i] = samples[(i+1)*len(samples)/n-1]
	}
	return out
}

// dampings are the shares of a forest's output that may be left out.
var dampings = []float64{1, 0.75, 0.5, 0.25, 0}

// put fits a head to the early rows of a fold, with as many trees as lower the
// loss of the late ones; none when there are too few rows.
func put(ctx context.Context, target bundle.Target, f *fold, settings *Settings) (t trial, trees int, err error) {
	opts := settings.options(target)
	before := tableOver(target, f.early.samples, f.early.weights, &f.early.fitted)
	t = trial{fold: f, judges: tableOver(target, f.late, nil, &f.early.fitted)}
	if t.judges.rows() < opts.MinLeafRows || before.rows() < 2*opts.MinLeafRows {
		return t, 0, nil
	}
	t.shift, t.median = before.quantile(Quantiles[target]), before.quantile(0.5)
	t.grown = grownBeyond(target, &f.early, f.late)
	labels := before.labels(f.binned.Rows(), t.shift)
	labels.Held = t.judges.put(&labels, len(f.early.samples), t.shift)
	opts.EarlyStoppingRounds = stopRounds
	fitted, beyond, err := settings.grow(ctx, target, f.binned, f.early.samples, f.late, labels, opts)
	if err != nil {
		return t, 0, err
	}
	t.shift += beyond
	t.low, t.high = residuals(before.y, t.shift)
	added := make([]float64, len(f.late))
	fitted.PredictBatch(wide(f.late), len(f.late), added)
	for _, i := range t.judges.at {
		t.raw = append(t.raw, added[i])
	}
	return t, max(fewestTree, fitted.Trees()), nil
}

// better reports whether a wins over b in all trials together, by leastGain of
// the loss, and loses in none of them.
func better(target bundle.Target, trials []trial, a, b choice) bool {
	var ratios []float64
	for i := range trials {
		ratios = append(ratios, trials[i].loss(target, a, every)/trials[i].loss(target, b, every))
	}
	return gains(ratios)
}

// widest is the clip that the trials have proven: none, where that lowers the
// loss of judges whose load has grown beyond what was learned, and of all of
// them; else firstClip.
func widest(target bundle.Target, trials []trial) float64 {
	narrow, wide := choice{0, firstClip}, choice{0, bundle.MaxClip}
	var grown, n float64
	for i := range trials {
		t := &trials[i]
		beyond := func(i int) bool { return t.grown[i] }
		if count(t.grown) < growingRows {
			continue
		}
		grown += t.loss(target, wide, beyond) / t.loss(target, narrow, beyond)
		n++
	}
	if n > 0 && grown < (1-leastGain)*n && better(target, trials, wide, narrow) {
		return bundle.MaxClip
	}
	return firstClip
}

// options are those of a head's forest. It never falls where a forecast must
// not, since it adds to a prior that does not either.
func (s *Settings) options(target bundle.Target) gbdt.Options {
	opts := s.Forest
	opts.Objective, opts.Alpha = gbdt.Quantile, Quantiles[target]
	opts.Seed = s.Seed + uint64(target)
	opts.MonotoneSigns = make([]int8, feature.Width)
	for i, f := range feature.Table() {
		opts.MonotoneSigns[i] = int8(f.Sign)
	}
	return opts
}

// head fits a head to all rows, as far as it has proven its worth.
func head(ctx context.Context, target bundle.Target, all *era, binned *gbdt.Binned, w worth, settings *Settings) (bundle.Head, error) {
	rows := tableOver(target, all.samples, all.weights, &all.fitted)
	opts := settings.options(target)
	opts.Trees = w.trees
	shift := rows.quantile(Quantiles[target])
	f, beyond, err := settings.grow(ctx, target, binned, all.samples, nil, rows.labels(binned.Rows(), shift), opts)
	if err != nil {
		return bundle.Head{}, err
	}
	shift += beyond
	low, high := residuals(rows.y, shift)
	return bundle.Head{
		Forest: f.Text(), Low: max(low, -w.clip), High: min(high, w.clip),
		Shift: clip(shift+w.widen, -bundle.MaxClip, bundle.MaxClip), Damping: w.damping,
	}, nil
}

// priorStays is the head of a target that is not learned.
func priorStays() (bundle.Head, error) {
	opts := gbdt.Defaults()
	opts.Trees, opts.Threads = 1, 1
	f, err := gbdt.Train(context.Background(), gbdt.Data{FeatureNames: feature.Names(), X: make([]float64, feature.Width), Y: []float64{0}}, opts)
	if err != nil {
		return bundle.Head{}, err
	}
	return bundle.Head{Forest: f.Text(), Damping: 1}, nil
}

// grownBeyond says which of the late samples that have the target find more
// load than growingRank of the early ones did.
func grownBeyond(target bundle.Target, early *era, late []Sample) []bool {
	prior := func(s *Sample) float64 {
		p := early.fitted.Estimate(&s.Vector)
		if target == bundle.TTFTP50 || target == bundle.TTFTP90 {
			return float64(p.TTFT)
		}
		return float64(p.TPOT)
	}
	var learned []float64
	for i := range early.samples {
		learned = append(learned, prior(&early.samples[i]))
	}
	slices.Sort(learned)
	from := evaluate.Quantile(learned, growingRank)
	var out []bool
	for i := range late {
		if y := late[i].Label(target); y == y {
			out = append(out, prior(&late[i]) > from)
		}
	}
	return out
}

func count(flags []bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func clip(x, low, high float64) float64 { return min(max(x, low), high) }

// residuals is the range of labels less shift, their outermost half percents
// left out; it holds 0.
func residuals(y []float64, shift float64) (low, high float64) {
	sorted := slices.Clone(y)
	slices.Sort(sorted)
	low, high = evaluate.Quantile(sorted, clipShare)-shift, evaluate.Quantile(sorted, 1-clipShare)-shift
	return max(min(low, 0), -bundle.MaxClip), min(max(high, 0), bundle.MaxClip)
}

func weightedQuantile(values, weights []float64, q float64) float64 {
	order := make([]int, len(values))
	total := 0.0
	for i := range order {
		order[i] = i
		total += weights[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	sum := 0.0
	for _, i := range order {
		if sum += weights[i]; sum >= q*total {
			return values[i]
		}
	}
	return math.NaN()
}
