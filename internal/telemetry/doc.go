// Package telemetry is what every Spillway process says about itself in the
// same way: its logger, its metrics registry and its build.
package telemetry
