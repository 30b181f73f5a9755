package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/router/front"
)

// modelObject is one LLM as the API lists it. It is created when the gateway
// was: the API wants a date, and engines give theirs per process too.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string        `json:"object"`
	Data   []modelObject `json:"data"`
}

// serveModels answers the listing of LLMs, the union over all endpoints, and
// reports whether r asked for it.
func (g *Gateway) serveModels(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/models")
	if !ok || rest != "" && rest[0] != '/' || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	names := g.router.Models()
	rest = strings.TrimPrefix(rest, "/") // names may have slashes of their own
	if rest == "" {
		list := modelList{"list", make([]modelObject, 0, len(names))}
		for _, name := range names {
			list.Data = append(list.Data, g.model(name))
		}
		writeJSON(w, list)
		return true
	}
	if !slices.Contains(names, rest) {
		g.refuse(w, front.Refuse(http.StatusNotFound, "model_not_found", "no endpoint serves `"+front.Clip(rest)+"`"))
		return true
	}
	writeJSON(w, g.model(rest))
	return true
}

func (g *Gateway) model(name string) modelObject {
	return modelObject{name, "model", g.since.Unix(), "spillway"}
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
