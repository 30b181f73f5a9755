package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/demo/child"
)

// startFleet starts the simulated engines and returns their URLs.
func (r *run) startFleet() ([]string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	seed := strconv.FormatUint(r.Seed, 10)
	r.fleet, err = child.Start(child.Command{Binary: r.Binary, Dir: r.Dir, Name: "fleet", Out: write, Args: []string{"fleet", "--json", "--port", "0", "--model", model,
		"--endpoints", strconv.Itoa(endpoints), "--profile", profile,
		"--slow", strconv.Itoa(slow), "--slow-factor", fmt.Sprint(slowFactor), "--perturb", seed, "--seed", seed}})
	write.Close()
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		<-r.fleet.Done()
		return nil, r.fleet.Failure()
	}
	var urls []string
	if err := json.Unmarshal(line, &urls); err != nil {
		return nil, fmt.Errorf("read the fleet's URLs: %w", err)
	}
	r.say("%d simulated endpoints, %d of them %g times slower, none quite as its profile says (seed %s)", endpoints, slow, slowFactor, seed)
	return urls, nil
}

// Times of the demo, shorter than in production so that all of it happens
// within minutes.
const (
	refitEvery       = 10 * time.Second
	returnHold       = 6 * time.Second
	forecastDeadline = 150 * time.Millisecond
)

// writeConfig writes the configuration of all processes, an example of one.
func (r *run) writeConfig(urls []string, ports []int) error {
	var s strings.Builder
	socket := "unix://" + filepath.Join(r.Dir, "predictor.sock")
	if len(socket) > 100 { // a socket's path is bounded
		socket = fmt.Sprintf("127.0.0.1:%d", ports[3])
	}
	fmt.Fprintf(&s, `# Written by "spillway demo". Times are shorter than in production, and the
# forecast deadline longer: everything here, engines included, shares one machine.
log: {level: info}
profile: %[1]s
classes:
  fast: %[1]s
  slow: %[1]s-x%[2]g
store:
  spool_dir: %[3]s
router:
  name: demo
  listen: 127.0.0.1:%[4]d
  admin: 127.0.0.1:%[5]d
  forecast: {address: %[6]q, deadline: %[7]s, return_hold: %[8]s}
  endpoints:
`, profile, slowFactor, strconv.Quote(filepath.Join(r.Dir, "spool")), ports[0], ports[1], socket, forecastDeadline, returnHold)
	for i, url := range urls {
		class := "fast"
		if i >= endpoints-slow {
			class = "slow"
		}
		fmt.Fprintf(&s, "    - {url: %q, class: %s, llms: [%s]}\n", url, class, model)
	}
	fmt.Fprintf(&s, `predictor:
  listen: %q
  admin: 127.0.0.1:%d
  poll_interval: 1s
trainer:
  schedule: "@every %s"
  admin: ""
  held_out_share: 0.4
  min_new_rows: 40
  half_life: 1m
  seed: %d
`, socket, ports[2], refitEvery, r.Seed)
	return os.WriteFile(filepath.Join(r.Dir, "spillway.yaml"), []byte(s.String()), 0o644)
}
