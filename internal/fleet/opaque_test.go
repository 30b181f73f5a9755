package fleet_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
)

// How much a request will generate can't be read by what decides about it: the
// field has no exported name, so such code does not compile, and nothing a
// policy or a forecaster is given leads to a type of the simulator or of its
// workloads.
func TestOutputIsOutOfReach(t *testing.T) {
	f, ok := reflect.TypeFor[fleet.Request]().FieldByName("output")
	if !ok || f.IsExported() || f.Type != reflect.TypeFor[fleet.Output]() {
		t.Errorf("the true output of a request is field %+v", f)
	}
	request := reflect.TypeFor[*fleet.Request]()
	for i := range request.NumMethod() {
		t.Errorf("a request has the method %s", request.Method(i).Name)
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(x reflect.Type) {
		if seen[x] {
			return
		}
		seen[x] = true
		if p := x.PkgPath(); strings.HasSuffix(p, "internal/fleet") || strings.HasSuffix(p, "internal/workload") {
			t.Errorf("a policy or forecaster is given a %v", x)
		}
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(x.Elem())
		case reflect.Map:
			walk(x.Key())
			walk(x.Elem())
		case reflect.Struct:
			for i := range x.NumField() {
				walk(x.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[policy.Input]())
	forecast := reflect.TypeFor[fleet.Forecaster]().Method(0).Type
	for i := range forecast.NumIn() {
		walk(forecast.In(i))
	}
}
