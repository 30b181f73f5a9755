package featurestore_test

import (
	"testing"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
)

func TestMain(m *testing.M) { featurestoretest.Main(m) }
