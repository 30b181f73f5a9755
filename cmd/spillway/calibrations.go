package main

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/physics"
)

// calibrationWait is how long a process that starts waits for calibrations: it
// works without them.
const calibrationWait = 2 * time.Second

// addCalibrations adds, for classes of endpoints that the configuration does
// not name, the profile that was calibrated last. A class whose endpoints
// serve several calibrated LLMs has no one profile; it is named in a warning.
func addCalibrations(ctx context.Context, store *featurestore.Store, profiles map[string]physics.Profile, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, calibrationWait)
	defer cancel()
	at, latest, err := store.Version(ctx)
	if err == nil && at < latest {
		return // tables are still to be made: nothing was calibrated
	}
	var all []featurestore.Calibration
	if err == nil {
		all, err = store.Calibrations(ctx)
	}
	if err != nil {
		log.Warn("stored calibrations can't be read; the profiles are those of the configuration", "error", err)
		return
	}
	byClass := map[string][]featurestore.Calibration{}
	for _, c := range all {
		byClass[c.Class] = append(byClass[c.Class], c)
	}
	for _, c := range all { // in order
		if _, named := profiles[c.Class]; named {
			continue
		}
		if len(byClass[c.Class]) > 1 {
			log.Warn("a calibration is not used: several LLMs of its class have one; name a profile in classes", "llm", c.LLM, "class", c.Class, "calibration", c.ID)
			continue
		}
		p, err := physics.Load(bytes.NewReader(c.Profile))
		if err != nil {
			log.Warn("a calibration is not used", "llm", c.LLM, "class", c.Class, "calibration", c.ID, "error", err)
			continue
		}
		profiles[c.Class] = p
		log.Info("a class has its calibrated profile", "llm", c.LLM, "class", c.Class, "calibration", c.ID, "profile", p.Name)
	}
}
