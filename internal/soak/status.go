package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spillway-llm/spillway/router/route"
)

// status asks the router what it has in flight.
func (w *world) status(ctx context.Context) (s route.Status, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.at.Admin.String()+"/status.json", nil)
	if err != nil {
		return s, err
	}
	a, err := w.admin.Do(r)
	if err != nil {
		return s, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return s, fmt.Errorf("ask for the status: %s", a.Status)
	}
	err = json.NewDecoder(a.Body).Decode(&s)
	return s, err
}
