package simreport

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable writes one block for each load: a row for each metric, a column for
// each arm, "mean ±half of the 95 % interval". A star marks what differs from the
// first arm on paired seeds.
func (r Results) WriteTable(w io.Writer) error {
	c := r.cells()
	starred := false
	for _, load := range r.Loads {
		fmt.Fprintf(w, "%s at %s %s\n", r.Workload, amount(load), r.Unit)
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tab, "\t%s\t\n", strings.Join(r.Arms, "\t"))
		for _, m := range Metrics() {
			fmt.Fprintf(tab, "%s\t", m.Says)
			for _, arm := range r.Arms {
				cell := c.at(m, arm, load)
				star := " "
				if cell.Change.Differs() {
					star, starred = "*", true
				}
				fmt.Fprintf(tab, "%s%s\t", m.text(cell.Value), star)
			}
			fmt.Fprintln(tab)
		}
		if err := tab.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if starred {
		_, err := fmt.Fprintf(w, "* differs from %s, 95 %% on %d paired seeds\n", r.Arms[0], len(r.Seeds))
		return err
	}
	return nil
}

// text is an estimate for people.
func (m Metric) text(e Estimate) string {
	if math.IsNaN(e.Mean) {
		return "-"
	}
	s := amount(m.shown(e.Mean))
	if e.N > 1 {
		s += " ±" + amount(m.shown((e.High-e.Low)/2))
	}
	return s
}

// amount writes about three digits: 12400, 153, 15.2, 1.52, 0.152.
func amount(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 && a < 100 {
		digits = min(2-int(math.Floor(math.Log10(a))), 5)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// WriteCSV writes one line for each arm, load and metric. What is not known is
// empty.
func (r Results) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"workload", "policy", "load", "metric", "mean", "low", "high", "seeds", "change", "change_low", "change_high"})
	plain := func(v float64) string {
		if number(v) == nil {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	c := r.cells()
	for _, arm := range r.Arms {
		for _, load := range r.Loads {
			for _, m := range Metrics() {
				cell := c.at(m, arm, load)
				_ = out.Write([]string{
					r.Workload, arm, plain(load), m.Name,
					plain(cell.Value.Mean), plain(cell.Value.Low), plain(cell.Value.High), strconv.Itoa(cell.Value.N),
					plain(cell.Change.Mean), plain(cell.Change.Low), plain(cell.Change.High),
				})
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteJSON writes the estimates and the summary of every run.
func (r Results) WriteJSON(w io.Writer) error {
	type arm struct {
		Policy  string              `json:"policy"`
		Load    float64             `json:"load"`
		Metrics map[string]Estimate `json:"metrics"`
		Changes map[string]Estimate `json:"changes,omitempty"` // against the first policy
	}
	c := r.cells()
	all := []arm{}
	for _, name := range r.Arms {
		for _, load := range r.Loads {
			a := arm{Policy: name, Load: load, Metrics: map[string]Estimate{}, Changes: map[string]Estimate{}}
			for _, m := range Metrics() {
				cell := c.at(m, name, load)
				a.Metrics[m.Name] = cell.Value
				if name != r.Arms[0] {
					a.Changes[m.Name] = cell.Change
				}
			}
			all = append(all, a)
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(struct {
		Workload string   `json:"workload"`
		Command  string   `json:"command"`
		Fleet    string   `json:"fleet"`
		Unit     string   `json:"unit"`
		Seeds    []uint64 `json:"seeds"`
		Results  []arm    `json:"results"`
		Runs     []Run    `json:"runs"`
	}{r.Workload, r.Command, r.Fleet, r.Unit, r.Seeds, all, r.Runs})
}
