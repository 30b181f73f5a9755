package fleet

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/workload"
)

// keepAlive is after how long an engine closes a connection that nothing is
// asked on: vLLM's default (VLLM_HTTP_TIMEOUT_KEEP_ALIVE).
const keepAlive = 5 * time.Second

// worker is one process of a load generator: see workload.Plan.Workers.
type worker struct {
	tasks []task       // of a closed loop, not taken yet
	idle  []connection // in the order in which they became idle
}

// task is a turn that a worker is to send.
type task struct {
	client *client
	turn   int
}

// connection is one to an endpoint that nothing is asked on.
type connection struct {
	endpoint int
	since    time.Duration
}

// connect takes the connection that has been idle longest and returns where it
// leads, or -1 for a new one.
func (k *worker) connect(now time.Duration) int {
	for len(k.idle) > 0 {
		c := k.idle[0]
		k.idle = slices.Delete(k.idle, 0, 1)
		if now-c.since < keepAlive {
			return c.endpoint
		}
	}
	return -1
}

// release keeps a connection for the next request.
func (k *worker) release(endpoint int, now time.Duration) {
	k.idle = append(k.idle, connection{endpoint, now})
}

// shared reports whether the clients of a closed loop have workers.
func (w *world) shared() bool { return w.config.Plan.Concurrency > 0 && len(w.workers) > 0 }

// share gives the plan's sessions to the workers and lets each take as many
// tasks as it has sessions.
func (w *world) share() {
	plan := &w.config.Plan
	clients := make([]*client, 0, plan.Concurrency)
	rounds := 0
	for len(clients) < plan.Concurrency {
		s, ok := w.next()
		if !ok {
			break
		}
		clients = append(clients, &client{session: s, stuck: -1, worker: w.workers[len(clients)%len(w.workers)]})
		rounds = max(rounds, len(s.Turns))
	}
	for turn := range rounds {
		for i, c := range clients {
			if turn >= len(c.session.Turns) {
				continue
			}
			if c.session.Turns[turn].Anew {
				c = &client{session: c.session, stuck: -1, worker: c.worker}
				clients[i] = c
			}
			c.worker.tasks = append(c.worker.tasks, task{c, turn})
			w.untaken++
		}
	}
	for i := range clients {
		at := time.Duration(float64(plan.Ramp) * float64(i) / float64(len(clients)))
		w.wakeAt(&client{worker: w.workers[i%len(w.workers)]}, at)
	}
}

// freed goes on after a request of c has ended: with the turn of the same
// conversation that is held, then with the worker's next task.
func (w *world) freed(c *client) error {
	c.talking = false
	if len(c.held) > 0 {
		turn := c.held[0]
		c.held = c.held[1:]
		c.talking = true
		if err := w.send(c, turn); err != nil {
			return err
		}
	}
	k := c.worker
	if len(k.tasks) == 0 || w.full() {
		return nil
	}
	t := k.tasks[0]
	k.tasks = k.tasks[1:]
	if w.untaken--; w.untaken == 0 {
		w.exhausted, w.loadEnded = true, w.now
	}
	if t.client.talking {
		t.client.held = append(t.client.held, t.turn)
		return nil
	}
	t.client.talking = true
	return w.send(t.client, t.turn)
}

// process is the worker that an open loop's session goes to; nil: there are
// none.
func (w *world) process(s *workload.Session) *worker {
	if len(w.workers) == 0 {
		return nil
	}
	return w.workers[s.Index%len(w.workers)]
}
