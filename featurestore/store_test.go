package featurestore_test

import (
	"testing"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
)

func TestStore(t *testing.T) {
	featurestoretest.Suite(t, func(t *testing.T) featurestoretest.Store { return featurestoretest.New(t) })
}

func TestMemory(t *testing.T) {
	featurestoretest.Suite(t, func(*testing.T) featurestoretest.Store { return new(featurestoretest.Memory) })
}
