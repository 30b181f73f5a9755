package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// proxyPatience is how long a proxy waits for an endpoint at most; the picker's own
// bounds are shorter.
const proxyPatience = 6 * time.Second

// errLeft says that the client behind the proxy has gone.
var errLeft = errors.New("the client left")

// proxied sends one request as a proxy does that asks the picker where it goes,
// for a client that leaves at any point, or sends nonsense.
func (c *crowd) proxied(rng *rand.Rand, t *traffic) {
	ctx, cancel := context.WithTimeout(context.Background(), proxyPatience)
	defer cancel()
	body, pieces := chat(rng, rng.IntN(5) > 0), -1
	switch x := rng.IntN(100); {
	case x < 15: // it leaves before anything came, or soon after
		timer := time.AfterFunc(time.Duration(rng.IntN(30_000))*time.Microsecond, cancel)
		defer timer.Stop()
	case x < 30: // it leaves in the middle
		pieces = 1 + rng.IntN(8)
	case x < 33:
		body = body[:len(body)-2]
	case x < 36:
		body = bytes.Replace(body, []byte(llm), []byte("none"), 1)
	}
	t.Requests++
	status, err := c.pass(ctx, rng, body, pieces)
	switch {
	case errors.Is(err, errLeft), errors.Is(ctx.Err(), context.Canceled):
		t.Left++
	case status == http.StatusBadRequest, status == http.StatusNotFound:
		t.Refused++
	case err == nil && status == http.StatusOK:
		t.Whole++
	default:
		t.Failed++
	}
}

// pass asks where a body goes, sends it there and shows the picker so many pieces
// of the answer, all of them for -1.
func (c *crowd) pass(ctx context.Context, rng *rand.Rand, body []byte, pieces int) (status int, err error) {
	s, err := c.proxy.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Abort()
	request := extproctest.Post("/v1/chat/completions", body)
	request.Cuts = extproctest.Cuts(rng, len(body), len(body))
	picked, err := s.Pick(request)
	if err != nil || picked.Status != 0 {
		return picked.Status, err
	}
	res, at, err := c.upstream(ctx, &picked)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	opening := extproctest.Response{Status: res.StatusCode, Served: at, Body: []byte{}, Headers: [][2]string{{"content-type", res.Header.Get("Content-Type")}}}
	if err := show(s, opening.Messages()[0]); err != nil {
		return res.StatusCode, err
	}
	buf := make([]byte, 2048)
	for ended := false; !ended; pieces-- {
		if pieces == 0 {
			return res.StatusCode, errLeft
		}
		n, err := res.Body.Read(buf)
		if ended = errors.Is(err, io.EOF); err != nil && !ended {
			return res.StatusCode, err
		}
		if err := show(s, extproctest.Chunk(buf[:n], ended)); err != nil {
			return res.StatusCode, err
		}
	}
	return res.StatusCode, s.End()
}

// upstream sends a body to the first destination that answers.
func (c *crowd) upstream(ctx context.Context, picked *extproctest.Picked) (res *http.Response, at string, err error) {
	for _, at = range picked.Destinations {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/v1/chat/completions", bytes.NewReader(picked.Body))
		if err != nil {
			return nil, at, err
		}
		if res, err = c.http.Do(r); err == nil {
			return res, at, nil
		}
	}
	return nil, at, errors.New("no destination answers")
}

// show shows the picker one message and takes its answer.
func show(s *extproctest.Stream, m *extproctest.Message) error {
	err := s.Send(m)
	if err == nil || errors.Is(err, io.EOF) { // why it ended, Recv tells
		_, err = s.Recv()
	}
	return err
}
